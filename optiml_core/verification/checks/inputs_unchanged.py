"""Buffers that the original never writes hold the same bits after the candidate ran."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.verification.budget import MemberComparison
from optiml_core.verification.roles import Role


def problem(comparisons: Iterable[MemberComparison], roles: dict[str, Role]) -> str | None:
    """The first input that changed, with its first element, or None."""
    for comparison in comparisons:
        role = roles.get(comparison.name.partition(".")[0])
        if comparison.kept_changed and role in ("in", "untouched"):
            return f"{comparison.kept_changed} elements of an input changed: {comparison.first['kept_changed']}"
    return None
