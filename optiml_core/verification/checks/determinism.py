"""The outputs do not depend on the order in which blocks and warps run, unless the original's do."""

from __future__ import annotations

from collections.abc import Mapping

from optiml_core.device.protocol import Array
from optiml_core.verification.differences import first_difference
from optiml_core.verification.references import Reference


def problem(
    reference: Reference, one: Mapping[str, Array], other: Mapping[str, Array], allow: frozenset[str] = frozenset()
) -> str | None:
    """The first written element that differs between two schedules, or None."""
    if not reference.deterministic or "nondeterminism" in allow:
        return None
    found = first_difference(reference, one, other)
    if found is None:
        return None
    return f"the output depends on the schedule: {found} (opt in with --allow nondeterminism)"
