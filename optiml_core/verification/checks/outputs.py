"""Integers are exact; floating elements at which the original has no stable digits lie where its own runs lie."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.verification.budget import MemberComparison


def problem(comparisons: Iterable[MemberComparison]) -> str | None:
    """The first wrong element, or None. The other floating elements have the error budget."""
    for comparison in comparisons:
        if comparison.exact:
            return f"{comparison.exact} elements differ: {comparison.first['exact']}"
        if comparison.unstable:
            found = comparison.first["unstable"]
            return f"{comparison.unstable} elements lie outside the original's own range: {found}"
    return None
