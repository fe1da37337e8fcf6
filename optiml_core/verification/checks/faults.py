"""Races, barriers, initialisation, bounds: a candidate may add no fault to those that the original has itself."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.device.protocol import Fault


def baseline(faults: Iterable[Fault]) -> frozenset[tuple[str, str]]:
    """What of the original's faults a candidate may repeat: the kind and the buffer, since lines move with edits."""
    return frozenset((fault.kind, fault.buffer) for fault in faults)


def problem(faults: Iterable[Fault], allowed: frozenset[tuple[str, str]]) -> str | None:
    """The first fault of a candidate's run that is not of the original's kinds at the same buffer, or None."""
    for fault in faults:
        if (fault.kind, fault.buffer) not in allowed:
            return f"{fault.kind} at line {fault.line}: {fault.note}" if fault.line else f"{fault.kind}: {fault.note}"
    return None
