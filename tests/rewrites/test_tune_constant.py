"""Constants of a file that take other values: which, how the launch follows, and when the rewrite says no."""

from __future__ import annotations

import pytest
from attrs import evolve

from optiml_core.records import Failure, LaunchChange
from optiml_core.rewrites import Option, Refusal, Rewritten, rewrite_named
from optiml_core.workload import find_workload, resolve_launch
from rewrites.cases import context_of, refusal_of, rewrite_text
from rewrites.running import check_agrees

_found = rewrite_named("tune-constant")
assert _found is not None
REWRITE = _found

BODY = """__global__ void scale(float* y, const float* x, int n) {
  int first = (blockIdx.x * WIDTH + threadIdx.x) * EACH;
  for (int i = first; i < min(first + EACH, n); i++) y[i] = 2 * x[i];
}
"""
HOST = """void run(float* y, const float* x, int n) {
  int per_block = WIDTH * EACH;
  dim3 grid((n + per_block - 1) / per_block);
  scale<<<grid, WIDTH>>>(y, x, n);
}
int main() {
  int n = 5000;
  float *x, *y;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  run(y, x, n);
}
"""
HEAD = "#define WIDTH 128\nconstexpr int EACH = 4;\n"
DECLARED = (
    "// optiml: n = 5000, x[n]: normal, y[n], WIDTH = 128, EACH = 4, block = WIDTH, grid = ceil_div(n, WIDTH * EACH)\n"
)


def made(text: str, name: str, value: int, allow: tuple[str, ...] = ()) -> tuple[str, Rewritten]:
    context = context_of(text, allow=allow)
    options = REWRITE.options(context)
    assert not isinstance(options, Refusal), options.reason
    option = next(one for one in options if one.parameters == {"name": name, "value": value})
    return rewrite_text(REWRITE, context, option)


@pytest.mark.parametrize(
    ("name", "value", "before", "after", "grid", "block"),
    [
        ("WIDTH", 256, "#define WIDTH 128", "#define WIDTH 256", "ceil_div(n, 1024)", "256"),
        ("WIDTH", 32, "#define WIDTH 128", "#define WIDTH 32", "ceil_div(n, 128)", "32"),
        ("EACH", 1, "constexpr int EACH = 4;", "constexpr int EACH = 1;", "ceil_div(n, 128)", "128"),
    ],
)
def test_the_launch_follows_the_host_code(
    name: str, value: int, before: str, after: str, grid: str, block: str
) -> None:
    text, rewritten = made(HEAD + BODY + HOST, name, value)
    assert text == (HEAD + BODY + HOST).replace(before, after)
    assert rewritten.launch_change == LaunchChange((grid, "1", "1"), (block, "1", "1"))


def test_the_launch_follows_the_declaration() -> None:
    text, rewritten = made(HEAD + DECLARED + BODY, "WIDTH", 256, allow=("launch",))
    assert "#define WIDTH 256" in text
    assert "block = 256, grid = ceil_div(n, 1024)" in text
    assert rewritten.launch_change.block == ("256", "1", "1")


def test_a_declaration_and_host_code_that_agree_both_follow() -> None:
    declared = "// optiml: n = 5000, x[n]: normal, y[n], block = 128, grid = ceil_div(n, 512)\n"
    text, rewritten = made(HEAD + declared + BODY + HOST, "WIDTH", 64)
    assert "block = 64, grid = ceil_div(n, 256)" in text
    assert rewritten.launch_change == LaunchChange(("ceil_div(n, 256)", "1", "1"), ("64", "1", "1"))


def test_a_second_constant_is_counted_with_the_first_one_changed() -> None:
    original = context_of(HEAD + BODY + HOST)
    workload = find_workload(original.unit, original.kernel)
    text, first = made(HEAD + BODY + HOST, "WIDTH", 256)
    context = evolve(context_of(text, launch_change=first.launch_change), workload=workload)
    second = REWRITE.apply(context, Option({"name": "EACH", "value": 8}))
    assert isinstance(second, Rewritten)
    launch = resolve_launch(workload, 0, None, second.launch_change)
    assert not isinstance(launch, Failure), launch
    assert launch.grid == (-(-5000 // (256 * 8)), 1, 1)
    assert launch.block == (256, 1, 1)


INNER = """__device__ float part(const float* x, int i, int n) {
  float s = 0;
  for (int k = 0; k < DEPTH; k++) s += i + k < n ? x[i + k] : 0;
  return s;
}
// optiml: n = 1000, x[n]: normal, y[n], block = 64, grid = ceil_div(n, 64)
__global__ void f(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = part(x, i, n);
}
"""


def test_a_constant_of_a_device_function_leaves_the_launch() -> None:
    text, rewritten = made("#define DEPTH 8\n" + INNER, "DEPTH", 16)
    assert text == "#define DEPTH 16\n" + INNER
    assert rewritten.launch_change == LaunchChange()


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("#define DEPTH 8", [16, 4, 32, 2]),
        ("#define DEPTH 1024", [512, 256]),
        ("#define DEPTH 1", [2, 4]),
        ("#define DEPTH 6  // optiml: 3, 6, 12", [3, 12]),
        ("static const unsigned DEPTH = 8u;  // optiml: 24", [24]),
        ("#ifndef DEPTH\n#define DEPTH (8)\n#endif", [16, 4, 32, 2]),
    ],
)
def test_values(line: str, values: list[int]) -> None:
    options = REWRITE.options(context_of(f"{line}\n{INNER}"))
    assert not isinstance(options, Refusal), options.reason
    assert [one.parameters["value"] for one in options] == values


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BODY, "uses no integer constant of this file"),
        ("#define DEPTH 7\n" + INNER, "has no other value to try"),
        ("#define DEPTH n / 2\n" + INNER, "is no positive integer"),
        ("#define DEPTH 0\n" + INNER, "is no positive integer"),
        ("#define DEPTH 8\n#undef DEPTH\n#define DEPTH 4\n" + INNER, "is defined more than once"),
        (
            "#define DEPTH 8\n" + INNER + "__global__ void g(int* y) { y[0] = DEPTH; }\n",
            "kernel g uses `DEPTH` as well",
        ),
        ("#define DEPTH 8\n" + INNER + "int size() { return DEPTH * 4; }\n", "beside the kernel and its launch"),
        ("#define DEPTH 8\n#if DEPTH > 4\nint deep;\n#endif\n" + INNER, "beside the kernel and its launch"),
        ("#define DEPTH 64\n" + INNER, "may hang on `DEPTH`"),
        ("#define DEPTH 8\n" + INNER.replace("y[n], ", "y[n], DEPTH = 8, z[DEPTH], "), "part of the workload"),
        (HEAD + BODY, "nothing says how the kernel is launched"),
        ("#define WIDTH 1024  // optiml: 2048\n#define EACH 5\n" + BODY + HOST, "more than 1024 threads"),
        (
            HEAD.replace("EACH = 4", "EACH = 5") + DECLARED.replace("block = WIDTH", "block = 64") + BODY + HOST,
            "not the one in the host code",
        ),
        (
            "#define EACH 5\n#define WIDTH 128\n" + BODY + HOST.replace("n = 5000", "n = WIDTH * 40"),
            "beside the kernel",
        ),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    assert reason in refusal_of(REWRITE, context_of(text))


def test_unknown_callers_keep_the_launch() -> None:
    assert "other files may launch" in refusal_of(REWRITE, context_of(HEAD + BODY + HOST, searched=False))


TILED = """#define TILE 8
// optiml: n = 40, x[n * n]: normal, y[n * n], TILE = 8, block = (TILE, TILE)
// optiml: grid = (ceil_div(n, TILE), ceil_div(n, TILE))
__global__ void turn(float* y, const float* x, int n) {
  __shared__ float tile[TILE][TILE + 1];
  int i = blockIdx.x * TILE + threadIdx.x, j = blockIdx.y * TILE + threadIdx.y;
  if (i < n && j < n) tile[threadIdx.y][threadIdx.x] = x[j * n + i];
  __syncthreads();
  int k = blockIdx.y * TILE + threadIdx.x, m = blockIdx.x * TILE + threadIdx.y;
  if (k < n && m < n) y[m * n + k] = tile[threadIdx.x][threadIdx.y];
}
"""


def test_every_value_computes_the_same() -> None:
    check_agrees(REWRITE, TILED, ({"n": 1}, {"n": 37}, {"n": 64}))


def test_line_ends_and_bytes_are_kept() -> None:
    data = ("// \xe9\n#define DEPTH 8 // \xe9\n" + INNER).encode("latin-1").replace(b"\n", b"\r\n")
    context = context_of(data)
    options = REWRITE.options(context)
    assert not isinstance(options, Refusal), options.reason
    rewritten = REWRITE.apply(context, options[0])
    assert isinstance(rewritten, Rewritten)
    (edit,) = rewritten.edits
    assert data[edit.start_byte : edit.end_byte] == b"8"
    assert edit.replacement == b"16"
