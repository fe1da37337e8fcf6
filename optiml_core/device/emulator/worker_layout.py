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
from optiml_core.device.protocol import Array, Contents, RunOptions
from optiml_core.records import BufferArgument, ElementType, Failure, Launch, ScalarArgument

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


def _up(value: int, to: int) -> int:
    return (value + to - 1) // to * to


def _bad(message: str) -> Failure:
    return Failure("bad-input", message)


def raw_bytes(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of ``array`` in C order, as a flat array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1) if array.size else np.zeros(0, np.uint8)


def scalar_bytes(argument: ScalarArgument, row: ParameterRow) -> bytes | Failure:
    """``argument``'s value as the kernel's own parameter type holds it, which ``row`` describes."""
    value = argument.value
    if row.sort == build_entry.POINTER:
        if value == 0:
            return bytes(row.size)  # a null pointer
        return _bad(f"`{argument.name}` is a number, but the kernel's parameter is a pointer")
    if not isinstance(value, Mapping):
        if row.sort == build_entry.BOOLEAN:
            return bytes([bool(value)])
        if row.sort in (build_entry.SIGNED, build_entry.UNSIGNED):
            return (int(value) & ((1 << 8 * row.size) - 1)).to_bytes(row.size, "little")
        if row.sort == build_entry.FLOATING:
            dtype = np.dtype({4: "<f4", 8: "<f8"}.get(row.size, "longdouble"))
            with np.errstate(over="ignore"):
                return bytes(np.array(value).astype(dtype).tobytes())
    packed = pack_value(argument.element, value, widened=row.size != argument.element.size)
    if isinstance(packed, Failure):
        return packed
    if len(packed) > row.size:
        return _bad(f"`{argument.name}` has {row.size} bytes in the kernel, its value {len(packed)}")
    return packed.ljust(row.size, b"\0")


_WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "float64": "longdouble"}


def _scalar_dtype(name: str, widened: bool) -> np.dtype[Any]:
    name = _WIDER.get(name, name) if widened else name
    if name.startswith(("bfloat16", "float8")):
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    return np.dtype(name)


def _shape_of(element: ElementType, widened: bool) -> tuple[int, int]:
    """Size and alignment of ``element``, as the widened build has it if ``widened``."""
    if not widened:
        return element.size, element.alignment
    if element.fields:
        size, alignment = 0, 1
        for member in element.fields:
            each, own = _shape_of(member.element, widened)
            size, alignment = _up(size, own) + each * member.length, max(alignment, own)
        return _up(size, alignment), alignment
    dtype = _scalar_dtype(element.dtype, widened)
    size = dtype.itemsize * element.lanes
    return size, min(16, size) if element.lanes in (2, 4) else dtype.alignment


def pack_value(element: ElementType, value: Any, widened: bool) -> bytes | Failure:
    """``value`` as ``element``'s bytes: a number, a mapping of members, or x, y, z, w of a vector type."""
    size, _ = _shape_of(element, widened)
    if element.fields:
        if not isinstance(value, Mapping):
            return _bad(f"a value of {element.spelling} needs its members by name")
        unknown = set(value) - {member.name for member in element.fields}
        if unknown:
            return _bad(f"{element.spelling} has no member {sorted(unknown)[0]}")
        body, position = bytearray(size), 0
        for member in element.fields:
            each, alignment = _shape_of(member.element, widened)
            position = _up(position, alignment) if widened else member.offset
            given = value.get(member.name, 0)
            items = list(given) if isinstance(given, list | tuple | np.ndarray) else [given] * member.length
            if len(items) != member.length:
                return _bad(f"{element.spelling}.{member.name} has {member.length} elements")
            for item in items:
                packed = pack_value(member.element, item if not member.element.fields or item else {}, widened)
                if isinstance(packed, Failure):
                    return packed
                body[position : position + each] = packed
                position += each
        return bytes(body)
    if not element.dtype:
        return _bad(f"the layout of {element.spelling} is not known")
    lanes = (
        [value.get(name, 0) for name in "xyzw"[: element.lanes]]
        if isinstance(value, Mapping)
        else [value] * element.lanes
    )
    dtype = _scalar_dtype(element.dtype, widened)
    with np.errstate(over="ignore"):
        return np.array(lanes).astype(dtype).tobytes().ljust(size, b"\0")


def lay_out(
    launch: Launch, contents: Contents, options: RunOptions, rows: tuple[ParameterRow, ...],
    variables: tuple[Variable, ...], run_number: int,
) -> Layout | Failure:  # fmt: skip
    """Decides where each buffer, scalar and global goes. Nothing is written yet.

    Every buffer starts on 256 bytes, then ``contents.offset_elements`` further, with at least
    ``options.guard`` bytes of guard zone on both sides.
    """
    if len(launch.arguments) != len(rows):
        return _bad(f"the kernel has {len(rows)} parameters, the launch {len(launch.arguments)} arguments")
    position = wire.PAYLOAD + 4096 * (run_number % _SHIFTS) + _ALIGNMENT * (run_number * 7 % 16)
    guard = _up(max(options.guard, 16), _ALIGNMENT)
    placed: dict[str, Placed] = {}
    owner: dict[str, str] = {}
    parameters = np.zeros(len(rows), wire.PARAMETER)
    scalars = bytearray()
    ranges: list[tuple[int, int, int, int, int, int, int]] = []
    numbers: dict[int, str] = {}

    for index, argument in enumerate(launch.arguments):
        if isinstance(argument, ScalarArgument):
            continue
        name = argument.name
        if rows[index].sort != build_entry.POINTER:
            return _bad(f"`{name}` is a buffer, but the kernel's parameter {index + 1} is not a pointer")
        target = contents.aliases.get(name, name)
        if target != name:
            owner[name] = target
            continue
        if name not in contents.buffers:
            return _bad(f"the contents of `{name}` are missing")
        array = contents.buffers[name]
        start, size = position, array.nbytes
        element = array.nbytes // max(1, len(array)) if array.ndim else array.itemsize
        offset = _up(start + guard, _ALIGNMENT) + contents.offset_elements * element
        end = _up(offset + size + guard, _ALIGNMENT)
        placed[name] = Placed(name, offset, size, start, end)
        position = end
        numbers[index] = name
        poisoned = argument.content.kind == "poison" and name not in contents.aliases.values()
        if size:
            flags = wire.UNINITIALISED if poisoned else 0
            ranges.append((offset, size, index, wire.IN_ARENA, wire.GLOBAL, flags, 0))

    scalar_offset = _up(position, _ALIGNMENT)
    for index, (argument, row) in enumerate(zip(launch.arguments, rows, strict=True)):
        if isinstance(argument, BufferArgument):
            name = owner.get(argument.name, argument.name)
            if name not in placed:
                return _bad(f"`{argument.name}` shares the memory of `{name}`, which is not a buffer of this launch")
            owner[argument.name] = name
            parameters[index] = (placed[name].offset, 1, wire.IN_ARENA, b"")
            continue
        packed = scalar_bytes(argument, row)
        if isinstance(packed, Failure):
            return packed
        scalars += bytes(_up(len(scalars), 64) - len(scalars))
        parameters[index] = (scalar_offset + len(scalars), 0, wire.IN_ARENA, b"")
        scalars += packed

    in_globals = _lay_out_globals(launch, contents, variables, _up(scalar_offset + len(scalars), _ALIGNMENT))
    if isinstance(in_globals, Failure):
        return in_globals
    fills, globals_placed, end = in_globals
    for index, variable in enumerate(variables):
        number = len(rows) + index
        numbers[number] = variable.name
        space = wire.SHARED if variable.space == "shared" else wire.MODULE
        flags = 0 if variable.writable else wire.READ_ONLY
        ranges.append((variable.offset, variable.size, number, wire.IN_MODULE, space, flags, 0))
    return Layout(
        tuple(placed.values()), owner, numbers, parameters, np.array(ranges, wire.RANGE), fills, fills,
        globals_placed, bytes(scalars), scalar_offset, end,
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
        position = _up(position + size, _ALIGNMENT)
    return np.array(rows, wire.COPY), tuple(placed), position


def fill(arena: Arena, layout: Layout, launch: Launch, contents: Contents, options: RunOptions) -> Failure | None:
    """Writes contents, guard zones, scalars and globals into the arena."""
    try:
        arena.grow(layout.end + _ALIGNMENT)
    except (OSError, ValueError) as error:
        return Failure("out-of-memory", f"the buffers of the launch do not fit into memory: {error}")
    memory = arena.bytes
    for placed in layout.placed:
        memory[placed.start : placed.offset] = options.poison
        memory[placed.offset : placed.offset + placed.bytes] = raw_bytes(contents.buffers[placed.name])
        memory[placed.offset + placed.bytes : placed.end] = options.poison
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
