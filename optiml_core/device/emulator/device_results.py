"""Turns a worker's reply into the records of the device protocol: faults, counts per line, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.protocol import Fault, FaultKind
from optiml_core.records import AccessCounts

_KINDS: tuple[Any, ...] = ("load", "store", "atomic")
_SPACES: tuple[Any, ...] = ("global", "shared", "module")
DYNAMIC_SHARED = -2

_WHAT: dict[int, tuple[FaultKind, str]] = {
    1: ("out-of-bounds", "reads or writes outside of every buffer"),
    2: ("race", "two threads write the same place without synchronisation"),
    3: ("race", "one thread reads what another writes, without synchronisation"),
    4: ("divergent-barrier", "threads of one block wait at different barriers"),
    5: ("deadlock", "no thread can go on"),
    6: ("uninitialised-read", "reads what nothing has written"),
    7: ("misaligned", "an address is not a multiple of the access's size"),
    8: ("bad-warp-mask", "the mask of a warp operation names threads that do not take part"),
    9: ("inactive-shuffle-source", "a shuffle reads from a thread that does not take part"),
    10: ("step-limit", "the limit on accesses was reached"),
    11: ("same-place-store", "threads of a warp store to one place with one instruction"),
    12: ("race", "two threads of a warp touch the same place without __syncwarp"),
    13: ("missing-wait", "the destination of an asynchronous copy is touched before its wait"),
    14: ("assertion", "an assertion failed"),
    15: ("launch-limit", "the launch exceeds a limit"),
    16: ("out-of-bounds", "an array of fixed size is indexed outside"),
    17: ("out-of-bounds", "a read-only variable is written"),
    18: ("assertion", "__trap was called"),
    19: ("out-of-bounds", "a thread's stack overflowed"),
    20: ("undefined-number", "a cast from floating point or a shift is out of range: a GPU's result may be another"),
}
_LIMITS = {
    1: "threads a block", 2: "threads along one axis of a block", 3: "blocks along one axis of the grid",
    4: "bytes of shared memory a block", 5: "blocks that synchronise with each other", 6: "an empty grid or block",
}  # fmt: skip


def _coordinates(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y = max(1, sizes[0]), max(1, sizes[1])
    return number % x, number // x % y, number // x // y


def _note(row: Any, what: int, text: str, buffer: str) -> str:
    if what == 1 and buffer:
        verb = ("reads", "writes", "updates")[min(int(row["kind"]), 2)]
        detail = int(row["detail"])
        if detail < 0:
            where = f"{-detail} bytes before the start of"
        else:
            where = f"{detail} bytes past the end of" if detail else "right behind the end of"
        return f"{verb} {int(row['size'])} bytes {where} `{buffer}`"
    if what == 15:
        limit = _LIMITS.get(int(row["size"]), "a launch limit")
        return f"{limit}: {int(row['address'])} asked for, {int(row['detail'])} allowed"
    if what == 8:
        return f"{text} (mask 0x{int(row['detail']) & 0xFFFFFFFF:08x})"
    if what == 9:
        return f"{text} (lane {int(row['detail'])})"
    if what == 16:
        return f"{text} (index {int(row['detail'])})"
    return f"{text} (`{buffer}`)" if buffer else text


def faults_of(
    reply: wire.Reply,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    line_of: Callable[[int], int | None],
    names: Mapping[int, str],
    same_place: Callable[[int, int], bool] = lambda first, second: False,
) -> tuple[Fault, ...]:
    """The runtime's reports as faults, in the order in which they happened.

    ``same_place``: whether two code addresses are copies of one call, as g++ makes them of barriers.
    """
    faults = []
    for row in reply.reports:
        what = int(row["what"])
        if what == 4 and int(row["detail"]) == 1 and same_place(int(row["pc"]), int(row["pc2"])):
            continue
        kind, text = _WHAT.get(what, ("sticky-error", f"unknown report {what}"))
        buffer = _buffer_name(int(row["buffer"]), names)
        other = line_of(int(row["pc2"])) if row["pc2"] else None
        line = line_of(int(row["pc"]))
        if what == 14 and line is None:
            line = int(row["detail"]) or None
        if what == 16:
            line, other = (int(row["pc2"]) or line), None
        faults.append(
            Fault(
                kind, line, _note(row, what, text, buffer), int(row["count"]), other, buffer,
                _coordinates(int(row["block"]), grid), _coordinates(int(row["thread"]), block), what == 2,
            )
        )  # fmt: skip
    return tuple(faults)


def _buffer_name(number: int, names: Mapping[int, str]) -> str:
    return "dynamic shared memory" if number == DYNAMIC_SHARED else names.get(number, "")


_SUMMED = (
    "requests", "lanes", "bytes", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts", "same_address",
    "lines", "distinct_sectors", "other_warp",
)  # fmt: skip


def accesses_of(
    reply: wire.Reply, line_of: Callable[[int], int | None], names: Mapping[int, str], watched: bool = False
) -> tuple[AccessCounts, ...]:
    """Counts merged by line, kind, space, size and buffer, sorted by line. ``watched``: reuse was recorded."""
    groups: dict[tuple[int, int, int, int, str], list[Any]] = {}
    for row in reply.sites:
        if row["requests"]:
            name = _buffer_name(int(row["buffer"]), names)
            key = (line_of(int(row["pc"])) or 0, int(row["kind"]), int(row["space"]), int(row["size"]), name)
            groups.setdefault(key, []).append(row)
    merged = []
    for (line, kind, space, size, buffer), rows in sorted(groups.items()):
        counts: dict[str, Any] = {name: sum(int(row[name]) for row in rows) for name in _SUMMED}
        if not watched:
            counts["distinct_sectors"] = counts["other_warp"] = -1
        curves: dict[str, Any] = {
            name: tuple(int(v) for v in sum(row[name] for row in rows)) if watched else ()
            for name in ("sector_reuse", "request_reuse")
        }
        merged.append(
            AccessCounts(
                line, _KINDS[min(kind, 2)], _SPACES[min(space, 2)], size, buffer=buffer,
                max_degree=max(int(row["max_degree"]) for row in rows), **counts, **curves,
            )
        )  # fmt: skip
    return tuple(merged)


def metrics_of(reply: wire.Reply) -> dict[str, float]:
    """The runtime's statistics under the protocol's names. ``instructions_estimate`` is not known here."""
    statistics = reply.statistics
    metrics = {name: float(value) for name, value in statistics.items()}
    metrics["divergent_branches"] = metrics.pop("divergent_steps")
    return metrics
