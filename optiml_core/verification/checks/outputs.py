"""Integers, and everything else that does not round, are exactly the original's."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.verification.budget import MemberComparison


def problem(comparisons: Iterable[MemberComparison]) -> str | None:
    """The first wrong element, or None. Floating elements have the error budget."""
    for comparison in comparisons:
        if comparison.exact:
            return f"{comparison.exact} elements differ: {comparison.first['exact']}"
    return None
