"""Elements of an output that the original leaves untouched stay bitwise as they were."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.verification.budget import MemberComparison
from optiml_core.verification.roles import Role


def problem(comparisons: Iterable[MemberComparison], roles: dict[str, Role]) -> str | None:
    """The first element that only the candidate wrote, or None."""
    for comparison in comparisons:
        role = roles.get(comparison.name.partition(".")[0])
        if comparison.kept_changed and role in ("out", "in place"):
            found = comparison.first["kept_changed"]
            return f"{comparison.kept_changed} elements that the original leaves untouched were written: {found}"
    return None
