"""Buffers of any size for sampled runs: address space that costs memory only where the kernel touches it.

Random contents are a small file of values mapped over and over, copy-on-write; outputs are zeros that
nobody stores. Contents that depend on the position (ramp, sorted, offsets, permutation, index) are
generated whole, as are small buffers, so that small launches see exactly what a full run would.
"""

from __future__ import annotations

import math
import os
import threading

import numpy as np
from attrs import evolve, frozen

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.emulator.worker_layout import Placed, raw_bytes, up
from optiml_core.records import BufferArgument, Failure, Launch
from optiml_core.workload.contents import buffer_contents

PAGE = 4096
TILE_BYTES = 4 << 20
# Buffers up to this size are generated whole whatever they hold.
WHOLE_BYTES = 16 << 20
# What position-dependent contents may cost together.
GENERATED_BYTES = 2 << 30
# Files of values kept for the next sampled run.
CACHED_BYTES = 512 << 20
_GAP = 1 << 20
_INDEPENDENT = ("normal", "uniform", "constant")


@frozen
class Reserved:
    """``placed``: offsets into the reserved area; ``tile``: descriptor of the file with the values; close it."""

    placed: tuple[Placed, ...]
    pieces: wire.Table
    bytes: int
    tile: int
    tile_bytes: int = 0

    def close(self) -> None:
        os.close(self.tile)


class ReservedCache:
    """The last plans: the variants of a search are sampled on the same contents. Usable from several threads."""

    def __init__(self, largest: int = CACHED_BYTES) -> None:
        self._largest = largest
        self._lock = threading.Lock()
        self._known: dict[tuple[BufferArgument, ...], Reserved] = {}

    def reserve(self, launch: Launch, seed: int = 0) -> Reserved | Failure:
        """As :func:`reserve`; the caller closes what it gets, which is its own."""
        key = tuple(argument for argument in launch.arguments if isinstance(argument, BufferArgument))
        with self._lock:
            found = self._known.pop(key, None)
            if found is not None:
                self._known[key] = found  # the newest again
                return evolve(found, tile=os.dup(found.tile))
        made = reserve(launch, seed)
        if isinstance(made, Failure) or made.tile_bytes > self._largest:
            return made
        with self._lock:
            if key not in self._known:
                self._known[key] = evolve(made, tile=os.dup(made.tile))
            while sum(one.tile_bytes for one in self._known.values()) > self._largest:
                self._known.pop(next(iter(self._known))).close()
        return made

    def close(self) -> None:
        with self._lock:
            for one in self._known.values():
                one.close()
            self._known = {}


def _tile_elements(size: int) -> int:
    """How many elements of ``size`` bytes fill whole pages and about TILE_BYTES."""
    together = math.lcm(size, PAGE)
    return together * max(1, TILE_BYTES // together) // size


def reserve(launch: Launch, seed: int) -> Reserved | Failure:
    """Plans the reserved area of a launch and writes the file of values. The caller closes the result.

    Contents are those of ``make_contents(launch, seed)`` for buffers that are generated whole. Failure
    ("out-of-memory") when position-dependent contents exceed GENERATED_BYTES.
    """
    tile = os.memfd_create("optiml-values", os.MFD_CLOEXEC)
    placed: list[Placed] = []
    pieces: list[tuple[int, int, int, int]] = []
    position, written, generated = _GAP, 0, 0
    for argument in launch.arguments:
        if not isinstance(argument, BufferArgument):
            continue
        size = argument.length * argument.element.size
        mapped = up(max(size, 1), PAGE)
        placed.append(Placed(argument.name, position, size, position, position + mapped))
        if argument.content.kind in ("poison", "zeros"):
            pieces.append((position, mapped, 0, 0))
        else:
            wanted = argument
            elements = _tile_elements(argument.element.size)
            if argument.content.kind in _INDEPENDENT and size > WHOLE_BYTES and elements < argument.length:
                wanted = evolve(argument, length=elements)
            generated += wanted.length * wanted.element.size
            values: object = Failure("out-of-memory", f"the contents of `{argument.name}` are too large to generate")
            if generated <= GENERATED_BYTES:
                values = buffer_contents(wanted, seed)
            if isinstance(values, Failure):
                os.close(tile)
                return values
            data = raw_bytes(np.asarray(values))
            tile_bytes = up(max(data.size, 1), PAGE)
            os.ftruncate(tile, written + tile_bytes)
            start = 0
            while start < data.size:
                start += os.pwrite(tile, data[start:].data, written + start)
            pieces.append((position, mapped, written, tile_bytes))
            written += tile_bytes
        position = up(position + mapped + _GAP, PAGE)
    return Reserved(tuple(placed), np.array(pieces, wire.RESERVED), position, tile, written)
