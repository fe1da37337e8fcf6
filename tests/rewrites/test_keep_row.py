"""A thread's share of a row kept in registers: the text, rows that fit and rows that do not, and what is refused."""
# ruff: noqa: E501 -- a case stays one line

from __future__ import annotations

import pytest
from attrs import evolve

from optiml_core.records import Failure, LaunchChange
from optiml_core.rewrites import Option, Refusal, RewriteContext
from optiml_core.workload import find_workload, resolve_launch
from rewrites.cases import context_of, refusal_of, rewrite_text, unit_of
from rewrites.running import run, same
from rewrites.test_properties import named

NORMALISE = """// optiml: rows = 3, cols = 100, x[rows * cols]: normal, y[rows * cols], z[rows]
// optiml: block = 64, grid = ceil_div(rows, 2)
__global__ void f(const float* x, float* y, float* z, int rows, int cols) {
  int r = blockIdx.x * 2 + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (r >= rows) return;
  float s = 0.0f;
  for (int c = lane; c < cols; c += 32) {
    s += x[r * cols + c];
  }
  for (int k = 16; k > 0; k /= 2) s += __shfl_xor_sync(0xffffffffu, s, k);
  for (int c = lane; c < cols; c += 32) {
    if (x[r * cols + c] > s) y[r * cols + c] = x[r * cols + c];
    else y[r * cols + c] = s - c;
  }
  if (lane == 0) z[r] = s;
}
"""


def with_launch(text: str, allow: tuple[str, ...] = ("no-alias",), **sizes: int) -> RewriteContext:
    unit = unit_of(text)
    launch = resolve_launch(find_workload(unit, unit.kernels[-1]), 0, sizes)
    assert not isinstance(launch, Failure), launch
    return evolve(context_of(text, allow=allow), launch=launch)


FIRST_PASS = """  float x_row[4];
  const bool fits = cols <= 4 * 32;
  if (fits) {
    #pragma unroll
    for (int place = 0; place < 4; place++) {
      const int c = lane + place * 32;
      x_row[place] = c < cols ? x[r * cols + c] : float();
    }
"""


def test_the_row_is_loaded_in_front_of_the_first_pass() -> None:
    after, made = rewrite_text(named("keep-row"), with_launch(NORMALISE), Option({"rounds": 4}))
    assert FIRST_PASS in after
    assert after.count("x[r * cols + c]") == 1 + NORMALISE.count("x[r * cols + c]")
    assert "__restrict__" not in after
    assert made.guards == ("rows of more than 4 elements a thread take the loops as they were",)


def test_the_first_option_lets_loads_pass_the_stores() -> None:
    after, made = rewrite_text(named("keep-row"), with_launch(NORMALISE))
    assert "const float* __restrict__ x, float* __restrict__ y" in after
    assert any("overlap" in note for note in made.not_checked)
    options = named("keep-row").options(with_launch(NORMALISE, allow=()))
    assert not isinstance(options, Refusal)
    assert [dict(one.parameters) for one in options] == [{"rounds": 4}]


@pytest.mark.parametrize("cols", [1, 31, 32, 33, 97, 127, 128, 129, 500])
def test_rows_that_fit_and_rows_that_do_not(cols: int) -> None:
    after, _ = rewrite_text(named("keep-row"), with_launch(NORMALISE))
    sizes = {"rows": 3, "cols": cols}
    expected, got = run(NORMALISE, sizes, NORMALISE, LaunchChange()), run(after, sizes, NORMALISE, LaunchChange(), 3)
    assert not got.faults
    for name, array in expected.buffers.items():
        same(array, got.buffers[name], 0.0, name)


@pytest.mark.parametrize(
    ("text", "sizes", "reason"),
    [
        (NORMALISE, {"cols": 4000}, "takes 125 registers"),
        (NORMALISE.replace("s += x", "s += x[0] * x").replace("> s) y[r * cols + c] = x", "> s) y[r * cols + c] = z"),
         {}, ""),
        (NORMALISE.replace("c < cols; c += 32) {\n    if", "c < cols - 1; c += 32) {\n    if"), {}, "over the same elements"),
        (NORMALISE.replace("    s += x[r * cols + c];", "    y[c] = 0; s += x[r * cols + c];"), {}, "may overlap"),
        (NORMALISE.replace("const float* x", "float* x").replace("s - c;", "x[c] = s;"), {}, "more than one of the loops"),
    ],
)  # fmt: skip
def test_refusals(text: str, sizes: dict[str, int], reason: str) -> None:
    context = with_launch(text, allow=(), **sizes)
    if reason:
        assert reason in refusal_of(named("keep-row"), context)
    else:
        assert not isinstance(named("keep-row").options(context), Refusal)


def test_nothing_is_known_without_a_launch() -> None:
    assert "how long a row is" in refusal_of(named("keep-row"), context_of(NORMALISE))
