"""The bytes around every buffer hold a pattern that nothing may change."""

from __future__ import annotations

from optiml_core.device.protocol import RunResult


def problem(result: RunResult) -> str | None:
    """A changed guard zone, or None."""
    return None if result.guards_intact else "bytes next to a buffer were overwritten"
