"""Lays a launch out in a worker's arena: buffers with guard zones, scalars, globals; and reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from optiml_core.device.emulator import build_entry
from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.emulator.build_entry import ParameterRow
from optiml_core.device.emulator.build_symbols import Variable
from optiml_core.device.emulator.worker import Arena
from optiml_core.device.emulator.worker_values import pack_value, scalar_bytes
from optiml_core.device.protocol import Array, Contents, RunOptions
from optiml_core.records import BufferArgument, Failure, Launch, ScalarArgument

_ALIGNMENT = 256  # device allocations start on 256 bytes (CUDA C++ Programming Guide, "Device Memory Accesses")
# Each run of one worker starts its buffers somewhere else, so that nothing is gained by remembering addresses.
_SHIFTS = 61


@frozen
class Placed:
    """One buffer in the arena: payload ``[offset, offset + bytes)`` inside ``[start, end)``, the rest is guard zone."""

    name: str
    offset: int
    bytes: int
    start: int
    end: int


@frozen
class Layout:
    """Where everything of one launch lies. ``numbers``: the runtime's buffer number -> name."""

    placed: tuple[Placed, ...]
    owner: Mapping[str, str]  # parameter name -> name of the buffer that holds its memory
    numbers: Mapping[int, str]
    parameters: wire.Table
    ranges: wire.Table
    fills: wire.Table
    read_backs: wire.Table
    globals: tuple[Placed, ...]
    scalars: bytes
    scalar_offset: int
    end: int


def up(value: int, to: int) -> int:
    """``value`` rounded up to a multiple of ``to``."""
    return (value + to - 1) // to * to


def _bad(message: str) -> Failure:
    return Failure("bad-input", message)


def raw_bytes(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of ``array`` in C order, as a flat array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1) if array.size else np.zeros(0, np.uint8)


def place_buffers(
    launch: Launch, contents: Contents, options: RunOptions, run_number: int
) -> tuple[Placed, ...] | Failure:
    """Where in the arena each buffer goes, in the order of the parameters.

    Every buffer starts on 256 bytes, then as many elements further as ``contents`` says, with at least
    ``options.guard`` bytes of guard zone on both sides; ``run_number`` moves all of them.
    """
    position = wire.PAYLOAD + 4096 * (run_number % _SHIFTS) + _ALIGNMENT * (run_number * 7 % 16)
    guard = up(max(options.guard, 16), _ALIGNMENT)
    placed = []
    for argument in launch.arguments:
        if isinstance(argument, ScalarArgument) or contents.aliases.get(argument.name, argument.name) != argument.name:
            continue
        if argument.name not in contents.buffers:
            return _bad(f"the contents of `{argument.name}` are missing")
        array = contents.buffers[argument.name]
        element = array.nbytes // max(1, len(array)) if array.ndim else array.itemsize
        offset = up(position + guard, _ALIGNMENT) + contents.offset_of(argument.name) * element
        end = up(offset + array.nbytes + guard, _ALIGNMENT)
        placed.append(Placed(argument.name, offset, array.nbytes, position, end))
        position = end
    total = sum(p.bytes for p in placed)
    if total > options.memory:
        return Failure("out-of-memory", f"the buffers need {total >> 20} MiB, {options.memory >> 20} are allowed")
    return tuple(placed)


def lay_out(
    launch: Launch, contents: Contents, rows: tuple[ParameterRow, ...], variables: tuple[Variable, ...],
    placed: tuple[Placed, ...], origin: int = wire.IN_ARENA,
) -> Layout | Failure:  # fmt: skip
    """Decides where scalars and globals go, and what the worker must know of ``placed``. Nothing is written yet.

    ``origin``: what the offsets of ``placed`` count from.
    """
    if len(launch.arguments) != len(rows):
        return _bad(f"the kernel has {len(rows)} parameters, the launch {len(launch.arguments)} arguments")
    where = {p.name: p for p in placed}
    owner: dict[str, str] = {}
    parameters = np.zeros(len(rows), wire.PARAMETER)
    ranges: list[tuple[int, int, int, int, int, int, int]] = []
    numbers: dict[int, str] = {}
    scalars = bytearray()
    in_arena = placed[-1].end if placed and origin == wire.IN_ARENA else wire.PAYLOAD
    scalar_offset = up(in_arena, _ALIGNMENT)
    for index, (argument, row) in enumerate(zip(launch.arguments, rows, strict=True)):
        name = argument.name
        if isinstance(argument, BufferArgument):
            if row.sort != build_entry.POINTER:
                return _bad(f"`{name}` is a buffer, but the kernel's parameter {index + 1} is not a pointer")
            owner[name] = contents.aliases.get(name, name)
            if owner[name] not in where:
                return _bad(f"`{name}` shares the memory of `{owner[name]}`, which is not a buffer of this launch")
            parameters[index] = (where[owner[name]].offset, 1, origin, b"")
            if owner[name] == name and where[name].bytes:
                poisoned = argument.content.kind == "poison" and name not in contents.aliases.values()
                flags = wire.UNINITIALISED if poisoned else 0
                ranges.append((where[name].offset, where[name].bytes, index, origin, wire.GLOBAL, flags, 0))
                numbers[index] = name
            continue
        packed = scalar_bytes(argument, row)
        if isinstance(packed, Failure):
            return packed
        scalars += bytes(up(len(scalars), 64) - len(scalars))
        parameters[index] = (scalar_offset + len(scalars), 0, wire.IN_ARENA, b"")
        scalars += packed
    in_globals = _lay_out_globals(launch, contents, variables, up(scalar_offset + len(scalars), _ALIGNMENT))
    if isinstance(in_globals, Failure):
        return in_globals
    fills, globals_placed, end = in_globals
    for number, variable in enumerate(variables, len(rows)):
        numbers[number] = variable.name
        space = wire.SHARED if variable.space == "shared" else wire.MODULE
        flags = 0 if variable.writable else wire.READ_ONLY
        ranges.append((variable.offset, variable.size, number, wire.IN_MODULE, space, flags, 0))
    return Layout(
        placed, owner, numbers, parameters, np.array(ranges, wire.RANGE), fills, fills, globals_placed,
        bytes(scalars), scalar_offset, end,
    )  # fmt: skip


def _lay_out_globals(
    launch: Launch, contents: Contents, variables: tuple[Variable, ...], position: int
) -> tuple[wire.Table, tuple[Placed, ...], int] | Failure:
    rows, placed = [], []
    for argument in launch.globals:
        matches = [
            v
            for v in variables
            if v.space == "module" and (v.name == argument.name or v.name.endswith("::" + argument.name))
        ]
        if not matches:
            continue  # a global that the kernel does not use is not in its object
        if isinstance(argument, ScalarArgument):
            size = matches[0].size
        elif argument.name in contents.buffers:
            size = contents.buffers[argument.name].nbytes
        else:
            return _bad(f"the contents of the global `{argument.name}` are missing")
        if size > matches[0].size:
            return _bad(f"the global `{argument.name}` has {matches[0].size} bytes, its contents {size}")
        placed.append(Placed(argument.name, position, size, position, position + size))
        rows.append((matches[0].offset, position, size))
        position = up(position + size, _ALIGNMENT)
    return np.array(rows, wire.COPY), tuple(placed), position


def fill(arena: Arena, layout: Layout, launch: Launch, contents: Contents, options: RunOptions) -> Failure | None:
    """Writes contents, guard zones, scalars and globals into the arena."""
    problem = fill_values(arena, layout, launch, contents)
    if problem is not None:
        return problem
    memory = arena.bytes
    for placed in layout.placed:
        memory[placed.start : placed.offset] = options.poison
        memory[placed.offset : placed.offset + placed.bytes] = raw_bytes(contents.buffers[placed.name])
        memory[placed.offset + placed.bytes : placed.end] = options.poison
    return None


def fill_values(arena: Arena, layout: Layout, launch: Launch, contents: Contents) -> Failure | None:
    """Makes the arena large enough and writes scalars and globals into it."""
    try:
        arena.grow(layout.end + _ALIGNMENT)
    except (OSError, ValueError) as error:
        return Failure("out-of-memory", f"the buffers of the launch do not fit into memory: {error}")
    memory = arena.bytes
    memory[layout.scalar_offset : layout.scalar_offset + len(layout.scalars)] = np.frombuffer(layout.scalars, np.uint8)
    scalars = {a.name: a for a in launch.globals if isinstance(a, ScalarArgument)}
    for placed in layout.globals:
        if placed.name in scalars:
            argument = scalars[placed.name]
            packed = pack_value(argument.element, argument.value, widened=placed.bytes != argument.element.size)
            if isinstance(packed, Failure):
                return packed
            data = np.frombuffer(packed[: placed.bytes].ljust(placed.bytes, b"\0"), np.uint8)
        else:
            data = raw_bytes(contents.buffers[placed.name])
        memory[placed.offset : placed.offset + placed.bytes] = data
    return None


def read_buffers(arena: Arena, layout: Layout, contents: Contents) -> dict[str, Array]:
    """Copies of every buffer after the run, under the names and in the shapes of ``contents``."""
    where = {p.name: p for p in (*layout.placed, *layout.globals)}
    result: dict[str, Array] = {}
    for name, before in contents.buffers.items():
        placed = where.get(layout.owner.get(name, name))
        if placed is None:
            continue
        size = min(before.nbytes, placed.bytes)
        data = arena.bytes[placed.offset : placed.offset + size].copy()
        result[name] = data.view(before.dtype).reshape(before.shape) if size == before.nbytes else before.copy()
    return result


def guards_intact(arena: Arena, layout: Layout, options: RunOptions) -> bool:
    """No byte of any guard zone changed."""
    memory = arena.bytes
    return all(
        bool((memory[p.start : p.offset] == options.poison).all())
        and bool((memory[p.offset + p.bytes : p.end] == options.poison).all())
        for p in layout.placed
    )
