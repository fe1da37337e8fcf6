"""Module variables: compared where the workload declares them, else no verdict where the original writes them."""

from __future__ import annotations

import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.records import Verdict
from optiml_core.verification import verify
from tests.verification.proof import variant_of, workload_of

TEXT = """__device__ int positives[4];
// optiml: n = 1000, x[n]: normal, y[n]ITEM
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = x[i];
    if (x[i] > 0.f) atomicAdd(&positives[i % 4], 1);
  }
}
"""


def judged(item: str, before: str, after: str, device: EmulatorDevice) -> Verdict:
    original = TEXT.replace("ITEM", item)
    assert original.count(before) == 1
    candidate = original.replace(before, after)
    return verify(variant_of(original, "k"), variant_of(candidate, "k"), workload_of(original, "k"), device, "quick")


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("x[i] > 0.f", "0.f < x[i]", True),
        ("x[i] > 0.f", "x[i] > 0.5f", False),
        ("i % 4", "0", False),
        ("if (x[i] > 0.f)", "if (false)", False),
    ],
)
def test_a_declared_variable_is_compared(before: str, after: str, accepted: bool, emulator: EmulatorDevice) -> None:
    verdict = judged(", positives[4]: uniform(0, 9)", before, after, emulator)
    assert (verdict.equivalent is True) == accepted, verdict.reason


def test_an_undeclared_variable_leaves_the_question_open(emulator: EmulatorDevice) -> None:
    verdict = judged("", "x[i] > 0.f", "0.f < x[i]", emulator)
    assert verdict.equivalent is None
    assert "positives" in verdict.reason
