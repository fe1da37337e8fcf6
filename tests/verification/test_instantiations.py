"""Every instantiation of a kernel template that the file uses is verified."""

from __future__ import annotations

import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.records import Verdict
from optiml_core.verification import verify
from tests.verification.proof import variant_of, workload_of

TEXT = """// optiml: n = 1000, x[n]: normal, y[n]
// optiml: block = 64, grid = ceil_div(n, 64)
template <int TIMES>
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    for (int t = 0; t < TIMES; t++) v = v * 0.5f + 1.f;
    y[i] = v;
  }
}

void run(const float* x, float* y, int n) {
  k<3><<<(n + 63) / 64, 64>>>(x, y, n);
  k<8><<<(n + 63) / 64, 64>>>(x, y, n);
}
"""
LOOP = "for (int t = 0; t < TIMES; t++)"


def judged(loop: str, device: EmulatorDevice) -> Verdict:
    text = TEXT.replace(LOOP, loop)
    return verify(variant_of(TEXT, "k"), variant_of(text, "k"), workload_of(TEXT, "k"), device, "quick")


@pytest.mark.parametrize("loop", ["for (int t = 0; t < (TIMES == 8 ? 7 : TIMES); t++)", "for (int t = 0; t < 3; t++)"])
def test_wrong_in_the_second_instantiation_only(loop: str, emulator: EmulatorDevice) -> None:
    verdict = judged(loop, emulator)
    assert verdict.equivalent is False
    assert "instantiation <8>" in verdict.reason


def test_right_in_both(emulator: EmulatorDevice) -> None:
    verdict = judged("for (int t = TIMES; t > 0; t--)", emulator)
    assert verdict.equivalent is True
    assert any(check.name == "instantiation <8>" for check in verdict.checks)
