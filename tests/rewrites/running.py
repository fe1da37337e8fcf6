"""Runs a kernel before and after a rewrite on the emulator, and compares what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Contents, RunOptions, RunResult
from optiml_core.records import Failure, LaunchChange, Variant
from optiml_core.rewrites import Option, Refusal, Rewrite, Rewritten
from optiml_core.workload import find_workload, make_contents, resolve_launch
from rewrites.cases import FILE, context_of, text_after, unit_of

Sizes = Mapping[str, int | float]


@lru_cache(maxsize=1)
def device() -> EmulatorDevice:
    return EmulatorDevice()


def run(text: str, sizes: Sizes, original: str, change: LaunchChange, schedule: int = 0) -> RunResult:
    """One launch of the text's last kernel, with the workload of ``original`` and ``change`` to its launch."""
    source = unit_of(original)
    workload = find_workload(source, source.kernels[-1])
    launch = resolve_launch(workload, 0, sizes, change)
    assert not isinstance(launch, Failure), launch
    contents = make_contents(launch, 7)
    assert not isinstance(contents, Failure), contents
    built = device().build(Variant(FILE, text.encode(), unit_of(text).kernels[-1].qualified), launch.template_arguments)
    assert not isinstance(built, Failure), (built, text)
    result = device().run(built, launch, Contents(contents), RunOptions(schedule=schedule, seconds=20))
    assert isinstance(result, RunResult), result
    return result


def rewritten_texts(
    rewrite: Rewrite, text: str, allow: tuple[str, ...] = ("launch",)
) -> Iterator[tuple[Option, str, Rewritten]]:
    """Every option's result, the launch comment of the text following along."""
    kernel = unit_of(text).kernels[-1].qualified
    context = context_of(text, kernel, allow=allow)
    options = rewrite.options(context)
    assert not isinstance(options, Refusal), options.reason
    for option in options:
        made = rewrite.apply(context, option)
        assert isinstance(made, Rewritten), made
        yield option, text_after(context, made), made


def check_agrees(
    rewrite: Rewrite,
    text: str,
    sizes: tuple[Sizes, ...],
    *,
    tolerance: float = 0.0,
    allow: tuple[str, ...] = ("launch",),
    most_options: int = 100,
) -> None:
    """Each option gives what the original gives at every size, adds no fault, and launches as its comment says.

    ``tolerance``: the largest difference, relative to the buffer's largest value or 1 (0: bitwise).
    """
    originals = [run(text, size, text, LaunchChange()) for size in sizes]
    tried = 0
    for option, after, made in rewritten_texts(rewrite, text, allow):
        tried += 1
        if tried > most_options:
            break
        unit = unit_of(after)
        own = find_workload(unit, unit.kernels[-1])
        for size, expected in zip(sizes, originals, strict=True):
            baseline = {(fault.kind, fault.buffer) for fault in expected.faults}
            launch = resolve_launch(
                find_workload(unit_of(text), unit_of(text).kernels[-1]), 0, size, made.launch_change
            )
            declared = resolve_launch(own, 0, size)
            assert not isinstance(launch, Failure), launch
            assert not isinstance(declared, Failure), declared
            assert (declared.grid, declared.block, declared.shared) == (launch.grid, launch.block, launch.shared)
            got = run(after, size, text, made.launch_change, schedule=3)
            where = f"{dict(option.parameters)} at {dict(size)}\n{after}"
            added = [one for one in got.faults if (one.kind, one.buffer) not in baseline]
            assert not added, f"{added[:3]} {where}"
            assert got.guards_intact, where
            for name, array in expected.buffers.items():
                same(array, got.buffers[name], tolerance, f"{name}: {where}")
    assert tried


def same(expected: np.ndarray, got: np.ndarray, tolerance: float, where: str) -> None:  # type: ignore[type-arg]
    if tolerance == 0.0 or not np.issubdtype(expected.dtype, np.floating):
        assert np.array_equal(expected.view(np.uint8), got.view(np.uint8)), where
        return
    finite = np.isfinite(expected)
    assert np.array_equal(finite, np.isfinite(got)), where
    scale = max(float(np.abs(expected[finite]).max(initial=0.0)), 1.0)
    assert float(np.abs(expected[finite] - got[finite]).max(initial=0.0)) <= tolerance * scale, where


@pytest.fixture(scope="session", autouse=True)
def closed_device() -> Iterator[None]:
    yield
    device().close()
