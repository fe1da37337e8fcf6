"""How far apart the blocks under way lie in memory, and what it costs when that is more than is translated."""

from __future__ import annotations

import pytest

from optiml_core.profiling.live_span import live_spans
from optiml_core.profiling.time_model import resource_times
from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import gpu_facts
from optiml_core.workload import find_workload, resolve_launch

ROWS = """// optiml: rows = 8192, cols = 50000, x[rows * cols], y[rows], block = 256, grid = {grid}
__global__ void f(const float* x, float* y, int rows, int cols) {{
  int r = {row};
  float s = 0;
  for (int c = {start}; c < cols; c += 32) s += x[r * cols + c];
  if (threadIdx.x == 0) y[r] = s;
}}
"""
WARP = ROWS.format(grid="rows / 8", row="blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32", start="threadIdx.x % 32")
BLOCK = ROWS.format(grid="rows", row="blockIdx.x", start="threadIdx.x")
STRIDED = """// optiml: n = 268435456, x[n], y[n], block = 256, grid = 528
__global__ void f(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
"""
PLANE = """// optiml: n = 4096, x[n * n], y[n * n], block = (32, 8), grid = (n / 32, n / 8)
__global__ void f(const float* x, float* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  y[j * n + i] = x[i * n + j];
}
"""


@pytest.mark.parametrize(
    ("text", "blocks", "expected"),
    [
        (WARP, 1056, {"x": 8192 * 50000 * 4.0, "y": 8192 * 4.0}),  # all rows at once, never more than there are
        (BLOCK, 1056, {"x": 1056 * 50000 * 4.0, "y": 1056 * 4.0}),
        (STRIDED, 528, {"x": 528 * 256 * 4.0, "y": 528 * 256 * 4.0}),  # a window, whatever the length
        (PLANE, 256, {"x": 128 * 32 * 4096 * 4.0, "y": 2 * 8 * 4096 * 4.0}),
    ],
    ids=["a warp a row", "a block a row", "a grid stride", "a transpose"],
)
def test_spans(text: str, blocks: int, expected: dict[str, float]) -> None:
    unit = parse(SourceFile("k.cu", text.encode()))
    launch = resolve_launch(find_workload(unit, unit.kernels[0]))
    assert not isinstance(launch, Failure), launch
    assert live_spans(unit, unit.kernels[0], launch, blocks) == expected


def test_an_index_that_depends_on_memory_has_no_span() -> None:
    text = STRIDED.replace("x[i]", "x[(int)y[i]]")
    unit = parse(SourceFile("k.cu", text.encode()))
    launch = resolve_launch(find_workload(unit, unit.kernels[0]))
    assert not isinstance(launch, Failure), launch
    assert "x" not in live_spans(unit, unit.kernels[0], launch, 528)


def test_untranslated_lines_take_time() -> None:
    gpu = gpu_facts("H200")
    assert not isinstance(gpu, Failure)
    assert "translation" not in resource_times({"dram_bytes": 1e9}, gpu)
    one, two = (resource_times({"untranslated_lines": lines}, gpu)["translation"] for lines in (1e6, 2e6))
    assert two == pytest.approx(2 * one)
