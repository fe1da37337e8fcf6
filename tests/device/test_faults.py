"""Kernels with faults, each found at its line and nowhere else; correct kernels that a coarse checker complains of."""

from __future__ import annotations

import pytest

from tests.device.kernel_cases import KernelCase, read_cases
from tests.device.runtime_harness import BuiltKernel


@pytest.mark.parametrize("case", read_cases("faults.cu"), ids=lambda c: c.name)
def test_fault_is_found_at_its_line(case: KernelCase) -> None:
    grid, block, options = case.options()
    result = BuiltKernel(case.source, "k").launch(grid, block, *case.values(), **options)
    assert {(f.what, f.line) for f in result.faults} == case.faults


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("lockstep", [0, 1])
@pytest.mark.parametrize("case", read_cases("clean.cu"), ids=lambda c: c.name)
def test_correct_kernel_has_no_fault(case: KernelCase, lockstep: int, schedule: int) -> None:
    grid, block, options = case.options()
    values = case.values()
    result = BuiltKernel(case.source, "k").launch(
        grid, block, *values, lockstep=lockstep, schedule=schedule, steps=10_000_000, **options
    )
    assert result.faults == ()
    assert result.status == "done"
    case.check(case.values(), values)
