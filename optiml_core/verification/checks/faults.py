"""Races, barriers, initialisation, bounds: a candidate may add no fault to those that the original has itself."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.device.protocol import Fault

# Lanes of a warp that store to one place with one instruction are well defined if they store the same value, as every
# lane may do with a sum that all of them hold. The device does not see values, but which lane wins depends on the
# schedule: if the values differ, the determinism check sees it.
_LEFT_TO_DETERMINISM = frozenset({"same-place-store"})


def baseline(faults: Iterable[Fault]) -> frozenset[tuple[str, str]]:
    """What of the original's faults a candidate may repeat: the kind and the buffer, since lines move with edits."""
    return frozenset(_key(fault) for fault in faults)


def _key(fault: Fault) -> tuple[str, str]:
    """A race of two writes is another fault than a read of what somebody updates, as before an atomic exchange."""
    return (f"{fault.kind} of writes" if fault.both_write else fault.kind, fault.buffer)


def problem(faults: Iterable[Fault], allowed: frozenset[tuple[str, str]]) -> str | None:
    """The first fault of a candidate's run that is not of the original's kinds at the same buffer, or None."""
    for fault in faults:
        if fault.kind not in _LEFT_TO_DETERMINISM and _key(fault) not in allowed:
            return f"{fault.kind} at line {fault.line}: {fault.note}" if fault.line else f"{fault.kind}: {fault.note}"
    return None
