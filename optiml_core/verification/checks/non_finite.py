"""NaN and infinities stand at the same places and are of the same kind."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.verification.budget import MemberComparison


def problem(comparisons: Iterable[MemberComparison]) -> str | None:
    """The first element that is NaN or infinite on one side only, or None."""
    for comparison in comparisons:
        if comparison.non_finite:
            return f"{comparison.non_finite} elements differ in NaN or infinity: {comparison.first['non_finite']}"
    return None
