"""The tiled transpose: what it makes of kernels, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from optiml_core.records import LaunchChange
from optiml_core.rewrites import Refusal
from optiml_core.rewrites.shared_tile_transpose import REWRITE
from rewrites.cases import context_of, refusal_of, rewrite_text
from rewrites.running import check_agrees
from rewrites.test_properties import areas

EXAMPLE = Path(__file__).parents[2] / "examples" / "transpose.cu"


def kernel(body: str, parameters: str = "const float* in, float* out, int rows, int cols") -> str:
    return (
        f"__global__ void t({parameters}) {{\n{body}}}\n"
        "void g(float* a, float* b, int n, int m) { dim3 block(16, 16); dim3 grid(m / 16, n / 16, 2); "
        "t<<<grid, block>>>(a, b, n, m); }\n"
    )


COORDINATES = """    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
"""


def test_the_example() -> None:
    context = context_of(EXAMPLE.read_bytes())
    after, made = rewrite_text(REWRITE, context)
    assert made.launch_change == LaunchChange(
        grid=("ceil_div(cols, 32)", "ceil_div(rows, 32)", "grid.z"), block=("32", "8", "1")
    )
    assert (
        """  __shared__ float tile[32][33];  // one more column: no bank conflicts
  const int tile_x = blockIdx.x * 32;
  const int tile_y = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8) {
    const int x = tile_x + threadIdx.x;
    const int y = tile_y + j;
    if (x < cols && y < rows) {
      tile[j][threadIdx.x] = in[y * cols + x];
    }
  }
  __syncthreads();
  for (int j = threadIdx.y; j < 32; j += 8) {
    const int x = tile_x + j;
    const int y = tile_y + threadIdx.x;
    if (x < cols && y < rows) {
      out[x * rows + y] = tile[threadIdx.x][j];
    }
  }
}
"""
        in after
    )
    assert "dim3 grid((cols + 31) / 32, (rows + 31) / 32);" in after
    assert "// optiml: block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 32))" in after


def test_options_are_the_rows_of_a_block() -> None:
    options = REWRITE.options(context_of(EXAMPLE.read_bytes()))
    assert not isinstance(options, Refusal)
    assert [dict(one.parameters) for one in options] == [{"tile": 32, "rows": rows} for rows in (8, 16, 4)]


def test_an_early_return_becomes_a_condition() -> None:
    text = kernel(
        COORDINATES + "    if (x >= cols || y >= rows) return;\n    out[x * rows + y] = 2.0f * in[y * cols + x];\n"
    )
    after, _ = rewrite_text(REWRITE, context_of(text))
    assert "return;" not in after
    assert after.count("if (x < cols && y < rows) {") == 2
    assert "out[x * rows + y] = 2.0f * tile[threadIdx.x][j];" in after
    assert "dim3 block(32, 8); dim3 grid((m + 31) / 32, (n + 31) / 32, 2);" in after


def test_a_strided_load_and_a_coalesced_store() -> None:
    text = kernel(
        COORDINATES + "    if (x < cols && y < rows) out[y * cols + x] = in[x * rows + y] + in[y * cols + x];\n"
    )
    after, _ = rewrite_text(REWRITE, context_of(text))
    fill, drain = after.split("__syncthreads();")
    assert "const int x = tile_x + j;" in fill
    assert "tile[j][threadIdx.x] = in[x * rows + y];" in fill
    assert "const int x = tile_x + threadIdx.x;" in drain
    assert "out[y * cols + x] = tile[threadIdx.x][j] + in[y * cols + x];" in drain


def test_helper_declarations_go_where_they_are_needed() -> None:
    text = kernel(
        COORDINATES + "    int from = y * cols + x;\n    int to = x * rows + y;\n"
        "    if (x < cols && y < rows) { out[to] = in[from]; }\n"
    )
    after, _ = rewrite_text(REWRITE, context_of(text))
    fill, drain = after.split("__syncthreads();")
    assert "int from = y * cols + x;" in fill
    assert "int to" not in fill
    assert "int to = x * rows + y;" in drain
    assert "int from" not in drain


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (COORDINATES + "    if (x < cols && y < rows) out[y * cols + x] = in[y * cols + x];\n", "no load is strided"),
        (
            COORDINATES + "    if (x < cols && y < rows) out[x * rows + y] = in[x * rows + y];\n",
            "swapping the thread roles",
        ),
        (COORDINATES + "    if (x < cols) out[x * rows + y] = in[y * cols + x];\n", "guard"),
        (COORDINATES + "    if (x < cols && y < rows && x != y) out[x * rows + y] = in[y * cols + x];\n", "guard"),
        (
            COORDINATES + "    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x] + threadIdx.x;\n",
            "beside its two coordinates",
        ),
        (COORDINATES + "    if (x < cols && y < rows) out[x * rows + y] += in[y * cols + x];\n", "exactly one store"),
        (COORDINATES + "    __syncthreads();\n    out[x * rows + y] = in[y * cols + x];\n", "barriers"),
        (
            COORDINATES + "    if (x < cols && y < rows) out[x * rows + y] = out[y * cols + x];\n",
            "array that is written",
        ),
        ("    int x = threadIdx.x;\n    if (x < cols) out[x] = in[x];\n", "two thread coordinates"),
        (
            COORDINATES
            + "#ifdef A\n    x = 1;\n#endif\n    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];\n",
            "preprocessor",
        ),
    ],
)
def test_refusals(body: str, reason: str) -> None:
    assert reason in refusal_of(REWRITE, context_of(kernel(body)))


def test_a_pointer_that_moves_is_refused() -> None:
    text = kernel(COORDINATES + "    in += 4;\n    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];\n")
    assert refusal_of(REWRITE, context_of(text))


@pytest.mark.parametrize(
    ("value", "tiles"),
    [
        ("in[y * cols + x] * in[y * cols + x]", 1),
        ("in[y * cols + x] + in[rows * cols - 1 - (y * cols + x)] * in[y * cols + x]", 1),
        ("in[y * cols + x] + in[y * cols + x + 1]", 2),
    ],
)
def test_an_array_that_is_read_twice(value: str, tiles: int) -> None:
    """The same element is staged once, another one in a tile of its own."""
    text = f"""
// optiml: rows = 64, cols = 48, in[rows * cols + 1]: normal, out[rows * cols]
// optiml: block = (16, 16), grid = (ceil_div(cols, 16), ceil_div(rows, 16))
__global__ void t(const float* in, float* out, int rows, int cols) {{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) {{
    out[x * rows + y] = {value};
  }}
}}
"""
    after, _ = rewrite_text(REWRITE, context_of(text, allow=("launch",)))
    assert after.count("__shared__") == tiles
    check_agrees(REWRITE, text, areas((7, 31), (65, 100)), most_options=1)
