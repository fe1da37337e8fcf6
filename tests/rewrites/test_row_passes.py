"""Passes over a row made fewer, and loads made ahead: as text, as numbers on the emulator, and what is refused."""
# ruff: noqa: E501 -- a line of a kernel stays one line

from __future__ import annotations

import re

import numpy as np
import pytest

from optiml_core.device.protocol import Contents, RunOptions, RunResult
from optiml_core.records import Failure, Variant
from optiml_core.rewrites import Refusal
from optiml_core.verification import Verifier
from optiml_core.workload import find_workload, make_contents, resolve_launch
from rewrites.cases import FILE, context_of, refusal_of, rewrite_text, unit_of
from rewrites.running import check_agrees, device
from rewrites.test_properties import ODD, SHAPES, lengths, named

HEAD = "// optiml: rows = 5, cols = 48, x[rows * cols]: normal, y[rows * cols], z[rows]\n// optiml: block = %d, grid = rows\n"
BLOCK_MAX = """__device__ float block_max(float v) {
  __shared__ float part[32];
  for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, s));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < blockDim.x / 32; w++) v = fmaxf(v, part[w]);
  __syncthreads();
  return v;
}
"""
BLOCK_SUM = BLOCK_MAX.replace("block_max", "block_sum").replace("fmaxf(v, ", "(v + ")
STORED_TWICE = (
    HEAD % 1
    + """__global__ void f(const float* x, float* y, float* z, int rows, int cols) {
  float s = 0.0f;
  const float* row = x + blockIdx.x * cols;
  for (int c = 0; c < cols; c++) {
    const float t = 2.0f * row[c];
    y[blockIdx.x * cols + c] = t + c;
    s += y[blockIdx.x * cols + c];
  }
  for (int i = 0; i < cols; i++) {
    y[blockIdx.x * cols + i] /= s + 1.0f;
  }
  z[blockIdx.x] = s;
}
"""
)
STORED_ONCE = (
    HEAD % 1
    + """__global__ void f(const float* x, float* y, float* z, int rows, int cols) {
  float s = 0.0f;
  const float* row = x + blockIdx.x * cols;
  for (int c = 0; c < cols; c++) {
    const float t = 2.0f * row[c];
    const float y_value = t + c;
    s += y_value;
  }
  for (int i = 0; i < cols; i++) {
    const float t = 2.0f * row[i];
    const float y_value = t + i;
    y[blockIdx.x * cols + i] = y_value / (s + 1.0f);
  }
  z[blockIdx.x] = s;
}
"""
)
LOG_SUM = (
    BLOCK_MAX
    + BLOCK_SUM
    + HEAD % 64
    + """__global__ void f(const float* x, float* y, float* z, int rows, int cols) {
  const float* row = x + blockIdx.x * cols;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    m = fmaxf(m, row[c]);
  }
  m = block_max(m);
  float s = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    s += expf(row[i] - m);
  }
  s = block_sum(s);
  if (threadIdx.x == 0) z[blockIdx.x] = m + logf(s);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    y[blockIdx.x * cols + c] = expf(row[c] - m) / s;
  }
}
"""
)
ALONE = """// optiml: rows = 5, cols = 48, x[rows * cols]: normal, z[rows]
// optiml: block = 32, grid = ceil_div(rows, 32)
__global__ void f(const float* x, float* z, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float m = -INFINITY;
    double s = 0.0;
    for (int c = 0; c < cols; c++) if (x[r * cols + c] > m) m = x[r * cols + c];
    for (int c = 0; c < cols; c++) {
      float e = expf(x[r * cols + c] - m);
      s += e;
    }
    z[r] = m + (float)log(s);
  }
}
"""
SUMS = (
    HEAD % 64
    + """__global__ void f(const float* x, float* y, float* z, int rows, int cols) {
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    s += x[blockIdx.x * cols + c] * c;
  }
  for (int c = threadIdx.x; c <= cols - 1; c += blockDim.x) {
    if (x[blockIdx.x * cols + c] > 0) y[blockIdx.x * cols + c] = s;
    else y[blockIdx.x * cols + c] = __ldg(&x[blockIdx.x * cols + c]) - c;
  }
  atomicAdd(&z[blockIdx.x], s);
}
"""
)
GRID = """// optiml: n = 5000, x[n]: normal, y[n]: normal, a = 0.5, block = 64, grid = 3
__global__ void f(int n, float a, const float* x, float* y) {
  for (%s i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    y[i] += a * x[i];
  }
}
"""
POLYGON = """// optiml: n = 100, m = 37, p[n]: normal, e[m]: normal, out[n], block = 64, grid = ceil_div(n, 64)
__global__ void f(int* out, const float* p, const float* e, int n, int m) {
  const float half = 0.5f;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float own = p[i], best = -1.0f;
  int at = 0;
  // every edge for every point
  for (int j = 0; j < m; j++) {
    const float other = e[j] * half;
    float d = own - other;
    if (d * d > best) {
      best = d * d;
      at = j;
    }
  }
  out[i] = at;
}
"""


def test_a_stored_element_is_computed_again() -> None:
    rewrite = named("recompute-element")
    assert rewrite_text(rewrite, context_of(STORED_TWICE))[0] == STORED_ONCE
    check_agrees(rewrite, STORED_TWICE, SHAPES, allow=())


def test_a_pass_that_only_stored_goes_away() -> None:
    text = STORED_TWICE.replace("    s += y[blockIdx.x * cols + c];\n", "").replace("/= s + 1.0f", "*= 3")
    after = rewrite_text(named("recompute-element"), context_of(text))[0]
    assert after.count("for (") == 1
    check_agrees(named("recompute-element"), text, SHAPES, allow=())


def test_one_pass_for_maximum_and_sum_as_text() -> None:
    after = rewrite_text(named("online-softmax"), context_of(LOG_SUM, "f"))[0]
    assert (
        """  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    const float value = row[c];
    if (value > m) {
      s *= expf(m - value);  // what was added is relative to the maximum so far
      m = value;
    }
    s += expf(value == m ? 0 : value - m);
  }
  const float own_m = m;
  m = block_max(m);
  if (s != 0) {
    s *= expf(own_m - m);  // relative to the maximum of all; NaN if that is infinite
  }
  s = block_sum(s);
"""
        in after
    )


@pytest.mark.parametrize("text", [LOG_SUM, ALONE], ids=["a block per row", "a thread per row"])
def test_one_pass_for_maximum_and_sum(text: str) -> None:
    check_agrees(named("online-softmax"), text, SHAPES, tolerance=2e-6, allow=())


@pytest.mark.parametrize("text", [LOG_SUM, ALONE], ids=["a block per row", "a thread per row"])
def test_infinities_and_nan_pass_verification(text: str) -> None:
    """The full verdict runs rows with NaN, infinities and huge values; it also shows that the budget holds."""
    after, made = rewrite_text(named("online-softmax"), context_of(text, "f"))
    unit = unit_of(text)
    workload = find_workload(unit, unit.kernels[-1])
    original, candidate = (Variant(FILE, one.encode(), "f") for one in (text, after))
    verdict = Verifier(original, workload, device()).verify(candidate, "full")
    assert verdict.equivalent is True, verdict.reason
    assert not made.not_checked


SPECIAL = [
    [1.0, np.inf, 2.0, 0.0],
    [-np.inf, -np.inf, -np.inf, -np.inf],
    [np.nan, 1.0, 2.0, 3.0],
    [-np.inf, -np.inf, 5.0, -np.inf],
    [np.inf, np.inf, -np.inf, 0.0],
    [-np.inf, np.nan, -np.inf, -np.inf],
    [3e38, -3e38, 1e38, 3e38],
    [-3e38, -np.inf, -3e38, -3e38],
]


def outputs_of(text: str, rows: list[list[float]]) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """What a kernel of this file leaves behind for given rows, each repeated until it is 80 long."""
    unit = unit_of(text)
    launch = resolve_launch(find_workload(unit, unit.kernels[-1]), 0, {"rows": len(rows), "cols": 80})
    assert not isinstance(launch, Failure), launch
    contents = make_contents(launch, 1)
    assert not isinstance(contents, Failure), contents
    contents["x"] = np.array([(row * 20)[:80] for row in rows], np.float32).ravel()
    built = device().build(Variant(FILE, text.encode(), "f"), ())
    assert not isinstance(built, Failure), built
    result = device().run(built, launch, Contents(contents), RunOptions(seconds=20))
    assert isinstance(result, RunResult), result
    return dict(result.buffers)


@pytest.mark.parametrize("text", [LOG_SUM, ALONE], ids=["a block per row", "a thread per row"])
def test_infinities_and_nan_come_out_where_they_did(text: str) -> None:
    after = rewrite_text(named("online-softmax"), context_of(text, "f"))[0]
    expected, got = outputs_of(text, SPECIAL), outputs_of(after, SPECIAL)
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-5, err_msg=name)  # NaN equals NaN here
    # Without the last scaling a row with an infinity comes out finite, so the rows above do tell.
    wrong = re.sub(r"  if \(s != 0\) \{\n.*\n *\}\n", "", after)
    assert wrong != after
    assert any((np.isnan(outputs_of(wrong, SPECIAL)[name]) != np.isnan(expected[name])).any() for name in expected)


def test_a_pass_that_stores_its_exponentials_is_fused_as_one_step() -> None:
    text = ALONE.replace("z[rows]", "z[rows], y[rows * cols]").replace("float* z,", "float* z, float* y,")
    text = text.replace(
        "float e = expf(x[r * cols + c] - m);\n      s += e;",
        "y[r * cols + c] = expf(x[r * cols + c] - m);\n      s += y[r * cols + c];",
    )
    text = text.replace(
        "    z[r] =", "    for (int c = 0; c < cols; c++) {\n      y[r * cols + c] /= (float)s;\n    }\n    z[r] ="
    )
    context = context_of(text, allow=("no-alias",))
    options = named("online-softmax").options(context)
    assert not isinstance(options, Refusal), options
    assert options[0].parameters == {"store_once": True}
    after = rewrite_text(named("online-softmax"), context)[0]
    assert after.count("for (") == 2
    check_agrees(named("online-softmax"), text, SHAPES, tolerance=2e-6, allow=("no-alias",))


def test_loads_of_four_rounds() -> None:
    after = rewrite_text(named("load-ahead"), context_of(GRID % "int", allow=("no-alias",)))[0]
    assert (
        """  const int stride = blockDim.x * gridDim.x;
  for (int first_i = blockIdx.x * blockDim.x + threadIdx.x; first_i < n; first_i += 4 * stride) {
    if (n - first_i > 3 * stride) {
      float y_ahead[4];
      float x_ahead[4];
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        y_ahead[k] = y[first_i + k * stride];
        x_ahead[k] = x[first_i + k * stride];
      }
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        const int i = first_i + k * stride;
        y[i] = y_ahead[k] + (a * x_ahead[k]);
      }
    } else {
      for (int i = first_i; i < n; i += stride) {
        y[i] += a * x[i];
      }
    }
  }
"""
        in after
    )


@pytest.mark.parametrize("type_", ["int", "unsigned int", "size_t"])
def test_load_ahead_of_a_grid_stride(type_: str) -> None:
    check_agrees(named("load-ahead"), GRID % type_, lengths(*ODD, 767, 768, 769, 1535, 1536, 1537), allow=("no-alias",))


def test_load_ahead_of_rows() -> None:
    sizes = tuple({"rows": 2, "cols": c} for c in (1, 64, 191, 192, 193, 255, 256, 257, 511, 512, 513, 700))
    check_agrees(named("load-ahead"), SUMS, sizes, tolerance=1e-6, allow=("no-alias",))


def test_unroll_and_jam() -> None:
    rewrite = named("unroll-and-jam")
    after = rewrite_text(rewrite, context_of(POLYGON, allow=("launch", "no-alias")))[0]
    assert (
        """    for (int j = 0; j < m; j++) {
      const float other = e[j] * half;
      #pragma unroll
      for (int k = 0; k < 4; k++) {
        float d = own[k] - other;
        if (d * d > best[k]) {
          best[k] = d * d;
          at[k] = j;
        }
      }
    }
"""
        in after
    )
    check_agrees(rewrite, POLYGON, lengths(*ODD), allow=("launch", "no-alias"))


SHARED = "for (int c = threadIdx.x; c < m; c += blockDim.x)"
EACH = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
REFUSED = [
    ("recompute-element", f"{SHARED} y[c] = x[c]; __syncthreads(); {SHARED} y[c] = y[n - c] + 1;", "other elements"),
    ("recompute-element", f"{{ {SHARED} y[c] = x[c]; n += y[3]; {SHARED} y[c] = y[c] + 1; }}", "between the passes"),
    ("recompute-element", f"{{ {SHARED} y[c] = x[c]; {SHARED} y[c] = y[m - c] + 1; }}", "other elements"),
    ("recompute-element", f"{{ {SHARED} y[c] = x[c]; {SHARED} if (y[c] > 0) y[c] = 0; }}", "in every round"),
    ("recompute-element", f"{{ {SHARED} y[c] = n; n = 3; {SHARED} y[c] = y[c] + 1; }}", "`n` changes"),
    ("recompute-element", f"{{ {SHARED} y[c] = atomicAdd(&n, 1); {SHARED} y[c] = y[c] + 1; }}", "computed twice"),
    ("recompute-element", f"{{ {SHARED} y[c] = y[c] * 2; {SHARED} y[c] = y[c] + 1; }}", "depends on `y` itself|touches `y`"),
    ("recompute-element", f"{{ {SHARED} y[c] = x[m - c]; {SHARED} y[c] = y[c] + 1; }}", "may overlap"),
    ("online-softmax", f"{{ float a = 0, b = 0; {SHARED} a = fmaxf(a, x[c]); {SHARED} b += expf(x[c] - b); y[0] = a + b; }}", "carries `b`"),
    ("online-softmax", f"{{ float a = 0, b = 0; {SHARED} a = fmaxf(a, x[c]); {SHARED} b += expf(x[c + 1] - a); y[0] = a + b; }}", "what the maximum is taken of"),
    ("online-softmax", f"{{ float a = 0, b = 1; {SHARED} a = fmaxf(a, x[c]); {SHARED} b += expf(x[c] - a); y[0] = a + b; }}", "start at zero"),
    ("online-softmax", f"{{ float a = 0, b = 0; {SHARED} a = fmaxf(a, x[c]); {SHARED} b += expf(a - x[c]); y[0] = a + b; }}", "distance from the maximum"),
    ("online-softmax", f"{{ float a = 0, b = 0; {SHARED} a = fminf(a, x[c]); {SHARED} b += expf(x[c] - a); y[0] = a + b; }}", "not a maximum and a sum"),
    ("load-ahead", f"{{ float s = 0; {SHARED} {{ if (x[c] < 0) break; s += x[c]; }} y[0] = s; }}", "end early"),
    ("load-ahead", f"{{ {SHARED} y[c] = x[n]; }}", "known ahead"),
    ("load-ahead", f"{{ {SHARED} if (n > 3) y[c] = x[c]; }}", "known ahead"),
    ("load-ahead", f"{{ {SHARED} y[c] = x[c + 1]; }}", "may overlap"),
    ("load-ahead", f"{{ {SHARED} y[c] = y[c + 1]; }}", "known ahead"),
    ("load-ahead", "{ float s = 0; for (int c = 0; c < m; c++) s += x[c]; y[0] = s; }", "by itself"),
    ("unroll-and-jam", f"{EACH} {{ float s = 0; for (int j = 0; j < m; j++) s += x[i * m + j]; y[i] = s; }}", "same for all elements"),
    ("unroll-and-jam", f"{EACH} {{ float s = 0; for (int j = 0; j < i; j++) s += x[j]; y[i] = s; }}", "same for all elements"),
    ("unroll-and-jam", f"{EACH} {{ for (int j = 0; j < m; j++) y[i] = y[i] * x[j]; }}", "before the loops are over"),
    ("unroll-and-jam", f"{EACH} {{ float s[2] = {{}}; for (int j = 0; j < m; j++) s[j % 2] += x[j] * i; y[i] = s[0]; }}", "of its own|cannot be held"),
    ("unroll-and-jam", f"{EACH} {{ float s = 0; for (int j = 0; j < m; j++) {{ if (s > i) break; s += x[j]; }} y[i] = s; }}", "leave a loop"),
    ("unroll-and-jam", f"{EACH} {{ float s = 0, q; for (int j = 0; j < m; j++) {{ q = x[j]; s += q * i; }} y[i] = s; }}", "declared together"),
    ("unroll-and-jam", f"{EACH} {{ float s = 0; float q; for (int j = 0; j < m; j++) {{ g(x[j], &q); s += q * i; }} y[i] = s; }}", "address of a variable"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "reason"), REFUSED)
def test_refusals(name: str, body: str, reason: str) -> None:
    text = f"__global__ void f(const float* x, float* y, int n, int m) {{ {body} }}\n"
    given = refusal_of(named(name), context_of(text, allow=("launch",)))
    assert any(part in given for part in reason.split("|")), given
