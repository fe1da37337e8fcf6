"""Launched again in the same loaded module, with new contents and addresses in between, the candidate gives the same.

A difference means that it kept something: a cached output, a flag in a static variable, a counter left behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from optiml_core.device.protocol import Array
from optiml_core.verification.differences import first_difference
from optiml_core.verification.references import Reference


def problem(reference: Reference, first: Mapping[str, Array], again: Mapping[str, Array]) -> str | None:
    """The first written element that the repeated launch computed differently, or None."""
    if not reference.deterministic:
        return None
    found = first_difference(reference, first, again)
    return f"a repeated launch computes something else: {found}" if found else None
