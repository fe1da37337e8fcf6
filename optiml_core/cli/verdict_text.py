"""A verdict for people and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from optiml_core.records import Verdict

MARKS = {"passed": "[green]passed[/]", "failed": "[red]failed[/]", "not_run": "[yellow]not run[/]"}


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    """``{level, checks: [{name, result, detail}], not_checked, reason, dropped_sizes}``."""
    if verdict is None:
        return None
    return {
        "level": verdict.level,
        "checks": [{"name": c.name, "result": c.result, "detail": c.detail} for c in verdict.checks],
        "not_checked": list(verdict.not_checked),
        "reason": verdict.reason,
        "dropped_sizes": list(verdict.dropped_sizes),
    }


def print_verdict(console: Console, verdict: Verdict) -> None:
    """The verdict card: each check, what was dropped, what was not checked."""
    width = max((len(check.name) for check in verdict.checks), default=0)
    for check in verdict.checks:
        console.print(f"  {MARKS[check.result]:<{len(MARKS[check.result])}} ", end="")
        console.print(f"{check.name:<{width}}  {check.detail}", markup=False)
    by_reason: dict[str, list[str]] = {}
    for size in verdict.dropped_sizes:
        where, _, reason = size.partition(": ")
        by_reason.setdefault(reason, []).append(where)
    for reason, places in by_reason.items():
        console.print(f"  dropped: {'; '.join(places)}: {reason}", markup=False)
    if verdict.not_checked:
        console.print("  [bold]not checked[/]")
        for item in verdict.not_checked:
            console.print(f"    - {item}", markup=False)
