"""How others lost their users' trust, one case each: what a verifier must not let pass, and what it must.

The numbers are those of the list of failure modes in docs/verification.md. What concerns timing, profiling or the
editor is tested there.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.records import Step, Verdict
from optiml_core.verification import verify
from tests.verification.proof import variant_of, workload_of

ROW_MEAN = """// optiml: rows = 300, cols = 200, x[rows * cols]: normal(0, 0.001), y[rows]
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void k(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float s = 0.f;
    for (int c = 0; c < cols; c++) s += x[r * cols + c];
    y[r] = s / cols;
  }
}
"""
SCALE = """// optiml: n = 3000, a = 0.5, x[n]: normal, y[n]: normal, z[n]
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void k(const float* x, float* y, float* z, int n, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    z[i] = a * x[i];
    y[i] += z[i];
  }
}
"""
ATOMIC = """// optiml: n = 3000, x[n]: normal, total[1]: zeros
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void k(const float* x, float* total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(total, x[i]);
}
"""
COPY = """// optiml: n = 3000, x[n]: normal, y[n]
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 3.f;
}
"""

# (number, what happened elsewhere, original, edits, accepted?)
CASES: list[tuple[int, str, str, list[tuple[str, str]], bool]] = []


def case(number: int, what: str, original: str, *edits: tuple[str, str], accepted: bool = False) -> None:
    CASES.append((number, what, original, list(edits), accepted))


THREE = "y[i] = x[i] * 3.f;"
FIRST = "  int i = blockIdx.x"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
case(1, "reads the answer from a recycled buffer", COPY, (THREE, "if (y[i] != x[i] * 3.f) y[i] = y[i];"))
case(
    1,
    "reads shared memory that was never written",
    COPY,
    (FIRST, "  __shared__ float s[64];\n" + FIRST),
    (THREE, "y[i] = x[i] * 3.f + 0.f * s[threadIdx.x];"),
)
case(
    1,
    "asks for more shared memory than a block may have",
    COPY,
    (FIRST, "  __shared__ float s[200000];\n  s[threadIdx.x] = 0.f;\n" + FIRST),
)
case(
    2,
    "changes an input so that the reference changes too",
    COPY,
    (THREE, "{ y[i] = x[i] * 3.f; const_cast<float*>(x)[i] = 0.f; }"),
)
case(3, "zeros on small results", ROW_MEAN, ("y[r] = s / cols", "y[r] = 0.f"))
case(4, "an error of a tenth of a percent", ROW_MEAN, ("s / cols", "s / cols * 1.001f"))
case(4, "an error far below any absolute tolerance", ROW_MEAN, ("s / cols", "s / cols + 1e-7f"))
case(5, "another order of summation", ROW_MEAN, ("c = 0; c < cols; c++", "c = cols - 1; c >= 0; c--"), accepted=True)
case(
    6,
    "sums with the precision of half",
    ROW_MEAN,
    ("s += x[r * cols + c];", "{ s += x[r * cols + c]; float b = 8193.f * s; s = b - (b - s); }"),
)
case(
    7,
    "another stream",
    COPY,
    (FIRST, "  cudaStream_t hidden;\n  cudaStreamCreateWithFlags(&hidden, 1);\n" + FIRST),
)
case(
    8,
    "keeps results by address",
    COPY,
    ("__global__", "__device__ const float* seen;\n__device__ float kept[100000];\n__global__"),
    (THREE, "y[i] = seen == x ? kept[i] : (kept[i] = x[i] * 3.f);\n  seen = x;"),
)
case(
    8,
    "keeps results by position",
    COPY,
    ("__global__", "__device__ bool known[100000];\n__device__ float kept[100000];\n__global__"),
    (THREE, "{\n    if (!known[i]) kept[i] = x[i] * 3.f;\n    known[i] = true;\n    y[i] = kept[i];\n  }"),
)
case(
    9,
    "looks for the harness",
    COPY,
    (THREE, "\n#ifdef __CUDA_ARCH__\n  y[i] = 0.f;\n#else\n  y[i] = x[i] * 3.f;\n#endif\n"),
)
case(15, "an in-place kernel, rewritten", SCALE, ("y[i] += z[i];", "y[i] = y[i] + z[i];"), accepted=True)
case(15, "an in-place kernel that adds twice", SCALE, ("y[i] += z[i];", "y[i] += z[i] + z[i];"))
case(15, "right until an output lies on an input", SCALE, ("y[i] += z[i];", "y[i] += a * x[i];"))
case(21, "right at the declared size only", COPY, ("if (i < n)", "if (i < n && (n == 3000 || i < 64))"))
case(22, "a hard-coded scalar of the declared launch", SCALE, ("a * x[i]", "0.5f * x[i]"))
case(23, "a kernel of another name that nobody calls", COPY, ("void k(", "void k2("))
case(23, "computes nothing at all", COPY, ("if (i < n) y", "if (i < 0) y"))
case(
    24,
    "a deterministic kernel becomes one that depends on the order",
    ROW_MEAN,
    ("block = 64, grid = ceil_div(rows, 64)", "block = 64, grid = rows"),
    ("int r = blockIdx.x * blockDim.x + threadIdx.x;", "int r = blockIdx.x;"),
    ("if (r < rows) {", "if (threadIdx.x == 0) y[r] = 0.f;\n  __syncthreads();\n  {"),
    ("int c = 0; c < cols; c++", "int c = threadIdx.x; c < cols; c += 64"),
    ("y[r] = s / cols;", "atomicAdd(&y[r], s / cols);"),
)
REVERSED = INDEX.replace("blockIdx.x", "(gridDim.x - 1 - blockIdx.x)")
case(24, "atomics in another order", ATOMIC, (INDEX, REVERSED), accepted=True)
case(24, "atomics, one value lost", ATOMIC, ("i < n", "i < n - 1"))
case(
    26,
    "a race that changes nothing yet",
    COPY,
    (THREE, "{\n    __shared__ float s[1];\n    s[0] = 1.f;\n    y[i] = x[i] * 3.f;\n  }"),
)
case(
    30,
    "honest names that sound suspicious",
    COPY,
    ("int i =", "int half = 0, clock_rate = 0;\n  int i = half + clock_rate +"),
    accepted=True,
)
case(31, "wrong for infinities only", COPY, ("x[i] * 3.f", "fminf(x[i], 1e30f) * 3.f"))
case(31, "wrong for the smallest of a large range", COPY, ("x[i] * 3.f", "(fabsf(x[i]) < 1e-3f ? 0.f : x[i] * 3.f)"))


def judged(original: str, edits, device: EmulatorDevice, level: str = "full") -> Verdict:
    text = original
    for before, after in edits:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    workload = workload_of(original, "k")
    # Without the kernel there is nothing to read a launch from.
    has_kernel = "void k(" in text
    candidate = variant_of(text if has_kernel else original, "k", workload if has_kernel else None)
    candidate = evolve(candidate, data=text.encode())
    step = Step("edit", {}, "a model's edit", proposer="model")
    return verify(variant_of(original, "k"), evolve(candidate, steps=(step,)), workload, device, level)


@pytest.mark.parametrize(
    ("number", "what", "original", "edits", "accepted"), CASES, ids=[f"{one[0]} {one[1]}" for one in CASES]
)
def test_item(number: int, what: str, original: str, edits, accepted: bool, emulator: EmulatorDevice) -> None:
    verdict = judged(original, edits, emulator)
    assert (verdict.equivalent is True) == accepted, verdict.reason


def test_a_verdict_says_what_was_not_checked(emulator: EmulatorDevice) -> None:
    verdict = judged(COPY, [("x[i] * 3.f", "3.f * x[i]")], emulator)
    assert verdict.equivalent is True
    assert verdict.not_checked
    budget = next(check.detail for check in verdict.checks if check.name == "error budget")
    assert "units in the last place" in budget


def test_a_candidate_that_hangs_is_ended(emulator: EmulatorDevice) -> None:
    endless = "  for (volatile int w = 0; i == 3; w = w) {}\n  if (i < n)"
    verdict = judged(COPY, [("  if (i < n)", endless)], emulator, "quick")
    assert verdict.equivalent is False
    assert verdict.reason.startswith("runs")
    assert verdict.seconds < 20
