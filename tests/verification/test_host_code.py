"""Host code is never run, so around a launch nothing may change but how the launch is configured."""

from __future__ import annotations

import pytest

from optiml_core.source import SourceFile, parse
from optiml_core.verification.checks.other_code import changed_launching_code

TEXT = """#include <cstdio>
__global__ void f(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
int main() {
  int n = 10000;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  dim3 block(256);
  const int blocks = (n + 255) / 256;
  f<<<blocks, block>>>(x, y, 2.5f, n);
  f<<<blocks, block>>>(y, x, 0.5f, n);
  cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("x, y, 2.5f", "y, x, 2.5f", True),
        ("2.5f, n", "2.5f, n - 1", True),
        ("n = 10000", "n = 9000", True),
        ("  f<<<blocks, block>>>(y, x, 0.5f, n);\n", "", True),
        ("&y, n * sizeof(float)", "&y, n * sizeof(float) / 2", True),
        ("  cudaDeviceSynchronize();\n", "", True),
        ("  cudaDeviceSynchronize();\n", "  cudaDeviceSynchronize();\n  cudaMemset(y, 0, n);\n", True),
        ("<<<blocks, block>>>(x", "<<<2 * blocks, block>>>(x", False),
        ("dim3 block(256)", "dim3 block(64, 4)", False),
        ("(n + 255) / 256", "(n + 63) / 64", False),
        ("  dim3 block(256);\n", "  int width = 64;\n  dim3 block;\n  block.x = width;\n", False),
        ("float a, int n) {", "float a, int n) { // faster\n", False),
        ("#include <cstdio>\n", "#include <cstdio>\nconstexpr int TILE = 32;\nstruct Pair { float a, b; };\n", False),
    ],
)
def test_only_the_configuration_may_change(before: str, after: str, refused: bool) -> None:
    assert before in TEXT
    units = [parse(SourceFile("a.cu", text.encode())) for text in (TEXT, TEXT.replace(before, after, 1))]
    found = changed_launching_code(units[0], units[1], units[0].kernels[0])
    assert (found is not None) == refused
