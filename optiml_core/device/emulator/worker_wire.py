"""The tables that parent and worker exchange through the arena: a mirror of runtime/wire.h.

Everything read here comes from a process in which foreign code ran, so counts and positions are
checked against the arena before they are used; a reply that does not hold together is a Failure.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from optiml_core.device.emulator.reading import REPORT, SITE, TRAFFIC
from optiml_core.records import Failure

VERSION = 1
REQUEST_TABLES = 4096
REPLY = 1 << 20
REPLY_TABLES = REPLY + 4096
PAYLOAD = 4 << 20

IN_ARENA, IN_MODULE, IN_RESERVED = 0, 1, 2
GLOBAL, SHARED, MODULE = 0, 1, 2
READ_ONLY, UNINITIALISED = 1, 2
READY, RAN, CRASHED, NOT_LOADED, NO_SANDBOX, BAD_REQUEST, REFUSED_CALL = 1, 2, 3, 4, 5, 6, 7
DONE, LAUNCH_REFUSED, STOPPED, NO_MEMORY = 0, 1, 2, 3

REQUEST = struct.Struct("<II 3I3I Q 6B2x 5Q 6Q 6Q Q 2Q")
PARAMETER = np.dtype([("value_offset", "<u8"), ("is_pointer", "u1"), ("origin", "u1"), ("reserved", "V6")])
RANGE = np.dtype(
    [
        ("offset", "<u8"),
        ("bytes", "<u8"),
        ("buffer", "<i4"),
        ("origin", "u1"),
        ("space", "u1"),
        ("flags", "u1"),
        ("reserved", "u1"),
    ]
)
COPY = np.dtype([("module_offset", "<u8"), ("arena_offset", "<u8"), ("bytes", "<u8")])
RESERVED = np.dtype([("offset", "<u8"), ("bytes", "<u8"), ("tile_offset", "<u8"), ("tile_bytes", "<u8")])

STATISTICS = (
    "accesses", "warp_steps", "divergent_steps", "switches", "barriers", "collectives", "local_accesses",
    "threads", "blocks", "shadow_bytes", "output_bytes", "output_dropped", "longest_warp",
    "longest_in_block",
)  # fmt: skip
REPLY_HEADER = struct.Struct(f"<IIIi II QQQ Q Q 3Q 4Q 4Q {len(STATISTICS)}Q")

Table = npt.NDArray[Any]


@frozen
class Request:
    """One launch as the worker reads it. ``parameters`` .. ``reserved_pieces`` are arrays of the dtypes above."""

    sequence: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    lockstep: bool
    races: bool
    initialisation: bool
    traffic: bool
    poison: int
    schedule: int
    steps: int
    output_limit: int
    shared_limit: int
    memory_limit: int
    parameters: Table
    ranges: Table
    fills: Table
    read_backs: Table
    blocks: Table
    reserved_pieces: Table = field(factory=lambda: np.zeros(0, RESERVED))
    reserved_bytes: int = 0
    warp_stride: int = 1
    functions: Table = field(factory=lambda: np.zeros(0, np.uint32))


@frozen
class Reply:
    """What came back, copied out of the arena and checked for its sizes."""

    state: int
    sequence: int
    status: int
    signal: int
    crashed_in_candidate: bool
    crash_pc: int
    crash_address: int
    crash_stack: int
    module_base: int
    cpu_seconds: float
    statistics: dict[str, int]
    sites: Table
    reports: Table
    traffic: Table
    text: bytes
    truncated: bool


def _empty(dtype: np.dtype[Any]) -> Table:
    return np.zeros(0, dtype)


EMPTY_REQUEST = Request(
    sequence=0, grid=(1, 1, 1), block=(1, 1, 1), dynamic_shared=0, lockstep=False, races=False, initialisation=False,
    traffic=False, poison=0, schedule=0, steps=0, output_limit=0, shared_limit=0, memory_limit=0,
    parameters=_empty(PARAMETER), ranges=_empty(RANGE), fills=_empty(COPY), read_backs=_empty(COPY),
    blocks=_empty(np.dtype("u4")),
)  # fmt: skip
"""Nothing to run: for what is settled when a worker starts."""


def write_request(arena: memoryview, request: Request) -> Failure | None:
    """Writes the header and tables of ``request`` to the front of ``arena``. A Failure if they do not fit."""
    position = REQUEST_TABLES
    positions = []
    tables = (
        request.parameters, request.ranges, request.fills, request.read_backs, request.blocks, request.reserved_pieces,
        request.functions,
    )  # fmt: skip
    for table in tables:
        raw = table.tobytes()
        if position + len(raw) > REPLY:
            return Failure("unsupported", "the launch has more arguments or blocks than the emulator's request holds")
        arena[position : position + len(raw)] = raw
        positions.append(position)
        position = (position + len(raw) + 15) & ~15
    counts = [len(table) for table in tables]
    arena[: REQUEST.size] = REQUEST.pack(
        VERSION, request.sequence, *request.grid, *request.block, request.dynamic_shared,
        request.lockstep, request.races, request.initialisation, request.poison, request.traffic,
        request.warp_stride,
        request.schedule, request.steps, request.output_limit, request.shared_limit, request.memory_limit,
        *counts[:6], *positions[:6], request.reserved_bytes, counts[6], positions[6],
    )  # fmt: skip
    return None


def _table(arena: memoryview, position: int, count: int, dtype: np.dtype[Any]) -> Table | None:
    size = count * dtype.itemsize
    if count > PAYLOAD or position < REPLY_TABLES or position + size > PAYLOAD:
        return None
    return np.frombuffer(bytes(arena[position : position + size]), dtype)


def read_reply(arena: memoryview) -> Reply | Failure:
    """The reply in ``arena``, each byte read once. A Failure("crash") if it does not hold together."""
    values = REPLY_HEADER.unpack(bytes(arena[REPLY : REPLY + REPLY_HEADER.size]))
    version, state, sequence, status, signal, in_candidate = values[:6]
    crash_pc, crash_address, crash_stack, module_base, nanoseconds = values[6:11]
    totals, counts, positions = values[11:14], values[14:18], values[18:22]
    broken = Failure("crash", "the emulator's worker left a reply that does not hold together")
    if version != VERSION:
        return broken
    sites = _table(arena, positions[0], counts[0], SITE) if state == RAN else np.zeros(0, SITE)
    reports = _table(arena, positions[1], counts[1], REPORT) if state == RAN else np.zeros(0, REPORT)
    traffic = _table(arena, positions[2], counts[2], TRAFFIC) if state == RAN else np.zeros(0, TRAFFIC)
    text = _table(arena, positions[3], counts[3], np.dtype("u1"))
    if sites is None or reports is None or traffic is None or text is None:
        return broken
    return Reply(
        state, sequence, status, signal, bool(in_candidate), crash_pc, crash_address, crash_stack, module_base,
        nanoseconds * 1e-9,
        dict(zip(STATISTICS, values[22:], strict=True)), sites, reports, traffic, text.tobytes(),
        truncated=any(have < total for have, total in zip(counts[:3], totals, strict=True)),
    )  # fmt: skip


def clear_reply(arena: memoryview) -> None:
    """Forgets the last reply, so that an old one is never taken for a new one."""
    arena[REPLY : REPLY + REPLY_HEADER.size] = bytes(REPLY_HEADER.size)
