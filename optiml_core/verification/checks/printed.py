"""A kernel's printed lines are part of what it does; their order depends on the schedule."""

from __future__ import annotations


def problem(original: str, candidate: str) -> str | None:
    """The first line that only one of the two printed, or None."""
    before, after = sorted(original.splitlines()), sorted(candidate.splitlines())
    if before == after:
        return None
    extra = [line for line in after if line not in before] or [line for line in before if line not in after]
    return f"the printed output differs: {extra[0] if extra else 'a line is repeated'}"
