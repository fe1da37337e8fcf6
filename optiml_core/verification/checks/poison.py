"""Two runs with different poison in the outputs, the shared memory and the guard zones give the same outputs.

A difference means that the candidate read what it never wrote: an old output, uninitialised shared memory, a
neighbour's memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from optiml_core.device.protocol import Array
from optiml_core.verification.differences import first_difference
from optiml_core.verification.references import Reference


def problem(reference: Reference, one: Mapping[str, Array], other: Mapping[str, Array]) -> str | None:
    """The first written element that depends on the poison, or None. Both runs used one schedule."""
    if not reference.ignores_poison:
        return None
    found = first_difference(reference, one, other)
    return f"the output depends on memory that was never written: {found}" if found else None
