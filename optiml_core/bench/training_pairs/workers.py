"""Processes that make units side by side. Units come back in order, so that the result is the same for any number."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attrs import evolve

from optiml_core.bench.training_pairs.pairs import PairMaker, UnitResult
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.profiling import Profiler
from optiml_core.records import Failure
from optiml_core.toolchain import discover, gpu_facts

GPU = "H100"  # whom the findings are for
AHEAD = 3  # units a worker may be ahead of the slowest


class Workers:
    """``units(first)`` yields results in order for ever; ``full_verdict`` asks a worker of its own."""

    def __init__(self, seed: int, count: int, cache: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes: list[Any] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, seed, cache), daemon=True)
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)

    def units(self, first: int, cancelled: Callable[[], bool]) -> Iterator[tuple[int, UnitResult | Failure]]:
        """Results from unit ``first`` on, until ``cancelled``."""
        waiting: deque[tuple[int, Connection]] = deque()
        following = first
        for _ in range(AHEAD):
            for end in self._ends:
                end.send(following)
                waiting.append((following, end))
                following += 1
        while not cancelled():
            number, end = waiting.popleft()
            result = _receive(end, cancelled)
            if result is None:
                return
            end.send(following)
            waiting.append((following, end))
            following += 1
            yield number, result

    def close(self) -> None:
        """Ends the workers at once; what they were doing is made again by the next run."""
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(10)


def _receive(end: Connection, cancelled: Callable[[], bool]) -> UnitResult | Failure | None:
    try:
        while not end.poll(0.2):
            if cancelled():
                return None
        found: UnitResult | Failure = end.recv()
    except EOFError:
        return Failure("crash", "a worker ended by itself")
    return found


def serve(end: Connection, seed: int, cache: Path) -> None:
    """A worker: receives unit numbers and sends results until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open_maker(seed, cache) as maker:
        while True:
            try:
                number = end.recv()
            except EOFError:
                return
            found = maker.unit(number)
            # A closure cannot travel.
            end.send(evolve(found, pairs=tuple(evolve(pair, prove=None) for pair in found.pairs)))


class open_maker:
    """A maker with a device and compilers of its own, for a ``with``."""

    def __init__(self, seed: int, cache: Path) -> None:
        toolchain = discover()
        gpu = gpu_facts(GPU)
        assert not isinstance(gpu, Failure), gpu
        self._device = EmulatorDevice(cache)
        self._profiler = Profiler(self._device, gpu, toolchain)
        self._maker = PairMaker(seed, self._device, self._profiler)

    def __enter__(self) -> PairMaker:
        return self._maker

    def __exit__(self, *_: object) -> None:
        self._profiler.close()
        self._device.close()
