"""What the emulator runs of CUDA: each kernel's results against NumPy, and no complaint about it."""

from __future__ import annotations

import pytest

from tests.device.kernel_cases import KernelCase, read_cases
from tests.device.runtime_harness import BuiltKernel

FILES = (
    "warps.cu",
    "arithmetic.cu",
    "small_floats.cu",
    "memory.cu",
    "atomics.cu",
    "groups.cu",
    "copies.cu",
    "matrices.cu",
)
CASES = [case for file in FILES for case in read_cases(file)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_feature(case: KernelCase) -> None:
    grid, block, options = case.options()
    values = case.values()
    result = BuiltKernel(case.source, "k").launch(grid, block, *values, steps=20_000_000, **options)
    assert result.faults == ()
    assert result.status == "done"
    case.check(case.values(), values)
    assert result.output.splitlines() == list(case.output)


@pytest.mark.parametrize("case", read_cases("widened.cu"), ids=lambda c: c.name)
def test_widened(case: KernelCase) -> None:
    grid, block, options = case.options()
    values = case.values()
    result = BuiltKernel(case.source, "k", (), widened=True).launch(grid, block, *values, steps=20_000_000, **options)
    assert result.faults == ()
    case.check(case.values(), values)
