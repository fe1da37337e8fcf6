"""The launch inferred from a rewritten file's host code is the launch that the rewrite says it has."""
# ruff: noqa: E501 -- a line of a kernel stays one line

from __future__ import annotations

import pytest

from optiml_core.records import Failure, Launch, LaunchChange
from optiml_core.rewrites import Option, Refusal, rewrite_named
from optiml_core.workload import find_workload, resolve_launch
from rewrites.cases import context_of, rewrite_text, unit_of

LINE = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
PLANE = LINE + " int j = blockIdx.y * blockDim.y + threadIdx.y;"
HOST = """
int main() {
  const int n = 300, m = 200;
  float *a, *b;
  cudaMalloc(&a, n * m * sizeof(float));
  cudaMalloc(&b, n * m * sizeof(float));
  dim3 block(%s);
  dim3 grid(%s);
  f<<<grid, block>>>(a, b, n, m);
  cudaDeviceSynchronize();
}
"""
ONE = HOST % ("128", "(n + 127) / 128")
TWO = HOST % ("16, 16", "(n + 15) / 16, (m + 15) / 16")


def kernel(body: str) -> str:
    return f"__global__ void f(const float* x, float* y, int n, int m) {{\n  {body}\n}}\n"


ROW_SUM = "if (i < n) { float s = 0; for (int j = 0; j < m; j++) { s += x[i * m + j]; } y[i] = s; }"
COLUMN_SUM = "if (i < n) { float s = 0; for (int j = 0; j < m; j++) { s += x[j * n + i]; } y[i] = s; }"
CASES = [
    ("parallel-row", kernel(f"{LINE} {ROW_SUM}") + ONE),
    ("parallel-column", kernel(f"{LINE} {COLUMN_SUM}") + ONE),
    ("vectorize-access", kernel(f"{LINE} if (i < n) {{ y[i] = x[i]; }}") + ONE),
    ("coarsen-grid-stride", kernel(f"{LINE} if (i < n) {{ y[i] = x[i]; }}") + ONE),
    ("launch-shape", kernel(f"{LINE} if (i < n) {{ y[i] = x[i]; }}") + ONE),
    ("launch-shape", kernel(f"{PLANE} if (i < n && j < m) {{ y[j * n + i] = x[j * n + i]; }}") + TWO),
    ("shared-tile-transpose", kernel(f"{PLANE} if (i < n && j < m) {{ y[i * m + j] = x[j * n + i]; }}") + TWO),
    ("swap-thread-roles", kernel(f"{PLANE} if (i < n && j < m) {{ y[i * m + j] = x[i * m + j]; }}") + TWO),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < m; k++) {{ s += x[i * m + k] * x[k * m + j]; }} "
            "y[i * m + j] = s; }"
        )
        + TWO,
    ),
]


def launch_of(text: str, change: LaunchChange | None = None) -> Launch:
    unit = unit_of(text)
    found = unit.kernel("f")
    assert found is not None
    launch = resolve_launch(find_workload(unit, found), 0, {}, change or LaunchChange())
    assert not isinstance(launch, Failure), launch
    return launch


@pytest.mark.parametrize(("name", "text"), CASES)
def test_the_launch_in_the_rewritten_file_is_the_changed_one(name: str, text: str) -> None:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    context = context_of(text, "f")
    options = rewrite.options(context)
    assert not isinstance(options, Refusal), options.reason
    for option in options:
        after, made = rewrite_text(rewrite, context, Option(option.parameters))
        changed, found = launch_of(text, made.launch_change), launch_of(after)
        assert (found.grid, found.block, found.shared) == (changed.grid, changed.block, changed.shared), after
        assert (changed.grid, changed.block) != (launch_of(text).grid, launch_of(text).block)
