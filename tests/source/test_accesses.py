"""Memory accesses and their affine forms."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.source import MemoryAccess, SourceFile, accesses, form_of, parse
from optiml_core.source.constant_expressions import evaluate_text
from optiml_core.source.tree_queries import walk

PRELUDE = """
#define TILE 16
#define IDX(r, c, w) ((r) * (w) + (c))
#define HALF (TILE / 2)
constexpr int WIDE = 4 * TILE;
__constant__ float coef[TILE][4];
struct View { float* data; int n; };
typedef float real;
namespace inner { __device__ void take(int n) { n++; } }
__device__ int at2(int r, int c, int w) { return r * w + c; }
"""


def kernel_accesses(
    body: str, parameters: str = "float* a, const float* b, int* idx, int n, int m, View v"
) -> list[MemoryAccess]:
    unit = parse(SourceFile("k.cu", f"{PRELUDE}__global__ void k({parameters}) {{ {body} }}".encode()))
    return list(accesses(unit, unit.kernels[0]))


GLOBAL_X = "int x = blockIdx.x * blockDim.x + threadIdx.x; "
X = "blockDim.x * blockIdx.x + threadIdx.x"


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("a[threadIdx.x] = 1;", "threadIdx.x"),
        ("a[3] = 1;", "3"),
        ("a[n] = 1;", "n"),
        ("a[0x10 + 1'0] = 1;", "26"),
        (GLOBAL_X + "a[x] = 1;", X),
        (GLOBAL_X + "a[x * n + m] = 1;", "blockDim.x * n * blockIdx.x + n * threadIdx.x + m"),
        (GLOBAL_X + "a[(x + 1) * (n + 1)] = 1;",
         "(blockDim.x * n + blockDim.x) * blockIdx.x + (n + 1) * threadIdx.x + n + 1"),
        ("const int t = threadIdx.x, u = t * 2; a[u - t] = 1;", "threadIdx.x"),
        ("a[threadIdx.x << 2] = 1;", "4 * threadIdx.x"),
        ("a[4 * threadIdx.x / 4] = 1;", "threadIdx.x"),
        ("a[threadIdx.x / 32 + threadIdx.x % 32] = 1;", "(threadIdx.x % 32) + (threadIdx.x / 32)"),
        ("a[(threadIdx.x >> 5) + (threadIdx.x & 31)] = 1;", "(threadIdx.x % 32) + (threadIdx.x / 32)"),
        ("a[TILE * threadIdx.y + WIDE + HALF] = 1;", "16 * threadIdx.y + 72"),
        ("a[IDX(threadIdx.y, threadIdx.x, n)] = 1;", "threadIdx.x + n * threadIdx.y"),
        ("a[at2(threadIdx.y, threadIdx.x, n)] = 1;", "threadIdx.x + n * threadIdx.y"),
        ("a[(int)threadIdx.x + static_cast<int>(n) + int(m)] = 1;", "threadIdx.x + m + n"),
        ("a[__mul24(blockIdx.x, blockDim.x) + threadIdx.x] = 1;", X),
        ("a[v.n * threadIdx.x] = 1;", "v.n * threadIdx.x"),
        ("v.data[threadIdx.x] = 1;", "threadIdx.x"),
        ("inner::take(n); a[n] = 1;", "n"),
        ("*a = 1;", "0"),
        ("*(a + threadIdx.x) = 1;", "threadIdx.x"),
        ("a[idx[threadIdx.x] * n + threadIdx.y] = 1;", "n * idx[threadIdx.x] + threadIdx.y"),
        ("float* row = a + n * threadIdx.y; row[threadIdx.x] = 1;", "threadIdx.x + n * threadIdx.y"),
        ("float* row = &a[n]; float* cell = row + 1; cell[-1] = 1;", "n"),
        ("a += n; a[threadIdx.x] = 1;", "threadIdx.x + n"),
        ("n *= 2; a[n] = 1;", "n"),
        ("reinterpret_cast<float4*>(a)[threadIdx.x] = z;", "threadIdx.x"),
        ("((float4*)(a + 8 * threadIdx.y))[threadIdx.x] = z;", "threadIdx.x + 2 * threadIdx.y"),
        ("((real*)a)[threadIdx.x] = 1;", "threadIdx.x"),
        ("reinterpret_cast<float4*>(&a[threadIdx.y * n + 4 * threadIdx.x + 8])[0] = z;",
         "threadIdx.x + (n / 4) * threadIdx.y + 2"),
        ("for (int i = 0; i < n; i++) a[i] = 1;", "i"),
        ("for (int i = 2; i < n; i += 3) a[i] = 1;", "3 * i + 2"),
        ("for (int i = n - 1; i >= 0; --i) a[i] = 1;", "-i + n - 1"),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = 1;", "blockDim.x * i + threadIdx.x"),
        ("int i; for (i = 0; i < n; i++) { a[i] = 1; }", "i"),
        ("int i = threadIdx.x; while (i < n) { a[i] = 1; i += 32; }", "32 * i + threadIdx.x"),
        ("int i = threadIdx.x; while (i < n) { i += 32; a[i] = 1; }", "32 * i + threadIdx.x + 32"),
        ("for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) a[i * m + j] = 1;", "m * i + j"),
        ("for (int i = 0; i < n; i += TILE) { a[threadIdx.x] = 1; a += TILE; }", "16 * i + threadIdx.x"),
        ("int s = 0; for (int i = 0; i < n; i++) { s += m; } a[n] = 1;", "n"),
        ("int j = 5; if (n) { j = 7; a[j] = 1; }", "7"),
        ("int j = 5; { j = 6; } a[j] = 1;", "6"),
        ("int i = 1; { int i = 2; a[i] = 1; }", "2"),
        ("int i = 1; { int i = 2; } a[i] = 1;", "1"),
    ],
)  # fmt: skip
def test_affine_forms_of_stores(body: str, form: str) -> None:
    (store,) = [x for x in kernel_accesses(body) if x.kind == "store"]
    assert str(store.affine) == form


@pytest.mark.parametrize(
    ("body", "unknown"),
    [
        ("int j = 5; if (n) j = 7; a[j] = 1;", "j"),
        ("int j = 5; if (threadIdx.x) { j = threadIdx.x; } a[j] = 1;", "threadIdx.x"),
        ("int j = 5; change(j); a[j] = 1;", "memory"),
        ("int j = 5; int* p = &j; *p = 3; a[j] = 1;", "memory"),
        ("int j = 0; for (int i = 0; i < n; i++) { if (i % 2) j++; a[j] = 1; }", "i"),
        ("int j = 1; for (int i = 0; i < n; i++) { a[j] = 1; j *= 2; }", "i"),
        ("int j = idx[threadIdx.x]; a[j] = 1;", "memory"),
        ('int j; asm("mov.u32 %0, %%laneid;" : "=r"(j)); a[j] = 1;', "memory"),
        ("a[threadIdx.x * threadIdx.y] = 1;", "threadIdx.y"),
        ("a[float(threadIdx.x) * 0.5f] = 1;", "threadIdx.x"),
    ],
)
def test_what_is_not_affine_is_not_claimed(body: str, unknown: str) -> None:
    (store,) = [x for x in kernel_accesses(body) if x.kind == "store" and x.array == "a"]
    assert store.affine is not None
    assert not store.affine.is_affine
    if unknown in ("threadIdx.x", "threadIdx.y", "memory", "i"):
        assert unknown in store.affine.depends_on
        assert store.affine.coefficient(unknown) is None


def test_a_pointer_that_cannot_be_followed_has_no_form() -> None:
    found = kernel_accesses("float* p = n ? a : v.data; p[threadIdx.x] = 1;")
    assert [(x.array, x.kind, x.affine) for x in found] == [("p", "store", None)]
    found = kernel_accesses("float* p = n ? a : v.data; reinterpret_cast<float4*>(p + 4)[threadIdx.x] = z;")
    assert [(x.array, x.kind, x.affine) for x in found] == [("p", "store", None)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a[0] = b[1];", [("load", "global", "b", "1"), ("store", "global", "a", "0")]),
        ("a[0] += b[1];", [("load", "global", "b", "1"), ("load", "global", "a", "0"), ("store", "global", "a", "0")]),
        ("idx[2]++;", [("load", "global", "idx", "2"), ("store", "global", "idx", "2")]),
        ("a[idx[0]] = 1;", [("load", "global", "idx", "0"), ("store", "global", "a", "idx[0]")]),
        ("atomicAdd(&a[1], b[2]);", [("atomic", "global", "a", "1"), ("load", "global", "b", "2")]),
        ("atomicMax(idx + n, 3);", [("atomic", "global", "idx", "n")]),
        ("float t = __ldg(b + 1) + __ldg(&b[2]);", [("load", "global", "b", "1"), ("load", "global", "b", "2")]),
        ("float* p = &a[3];", []),
        ("float& r = a[3];", []),
        ("int s = sizeof(a[0]);", []),
        ("__shared__ float t[TILE][TILE + 1]; t[threadIdx.y][threadIdx.x] = coef[1][2];",
         [("load", "constant", "coef", "6"), ("store", "shared", "t", "threadIdx.x + 17 * threadIdx.y")]),
        ("extern __shared__ __align__(16) float t[]; float* u = t + n; u[0] = 1;", [("store", "shared", "t", "n")]),
        ("float r[4]; r[n] = 1;", [("store", "local", "r", "n")]),
        ("reinterpret_cast<const float4*>(b)[1].x;", [("load", "global", "b", "1")]),
        ("for (int i = b[0]; i < b[1]; i += b[2]) ;",
         [("load", "global", "b", "0"), ("load", "global", "b", "1"), ("load", "global", "b", "2")]),
    ],
)  # fmt: skip
def test_kinds_spaces_and_arrays(body: str, expected: list[tuple[str, str, str, str]]) -> None:
    assert [(x.kind, x.space, x.array, str(x.affine)) for x in kernel_accesses(body)] == expected


def test_an_access_knows_its_loops_guards_type_and_member() -> None:
    body = """
      if (threadIdx.x >= n) return;
      for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) {}
        if (i > 3 && m) { ((float4*)a)[i].y = 1; } else { a[0] = 1; }
      }
    """
    first, second = kernel_accesses(body)
    assert [x.variable for x in first.loops] == ["i"]
    assert first.guards == ("threadIdx.x < n", "i < n", "i > 3", "m")
    assert second.guards == ("threadIdx.x < n", "i < n", "!(i > 3 && m)")
    assert (first.element, first.size, first.member) == ("float4", 16, "y")
    assert (second.element, second.size) == ("float", 4)


def test_struct_pointers_and_templates() -> None:
    found = kernel_accesses("p->n = q[threadIdx.x].n; t[n] = t[m];", "View* p, const View* q, T* t, int n, int m")
    assert [(x.kind, x.array, x.member, x.element, x.size, str(x.affine)) for x in found] == [
        ("load", "q", "n", "View", None, "threadIdx.x"),
        ("store", "p", "n", "View", None, "0"),
        ("load", "t", "", "T", None, "m"),
        ("store", "t", "", "T", None, "n"),
    ]


def test_dynamic_loops_in_one_name_do_not_mix() -> None:
    found = kernel_accesses("for (int i = 0; i < n; i++) a[i] = 1; for (int i = 5; i < n; i += 2) a[i] = 1;")
    assert [str(x.affine) for x in found] == ["i", "2 * i + 5"]


# The form of a random expression has the value that C computes.
names = st.sampled_from(["threadIdx.x", "threadIdx.y", "blockIdx.x", "blockDim.x", "n", "m", "x", "y"])
numbers = st.integers(0, 9).map(str)
expressions = st.recursive(
    st.one_of(names, numbers),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "<<", ">>", "&"]), inner).map(
        lambda t: f"({t[0]} {t[1]} {t[2]})"
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(expression=expressions, values=st.tuples(*[st.integers(0, 12)] * 6))
def test_a_form_evaluates_to_what_c_computes(expression: str, values: tuple[int, ...]) -> None:
    tx, ty, bx, dx, n, m = values
    known = {"threadIdx.x": tx, "threadIdx.y": ty, "blockIdx.x": bx, "blockDim.x": dx, "n": n, "m": m}
    known_with_locals = {**known, "x": bx * dx + tx, "y": ty * n}
    wanted = evaluate_text(expression, known_with_locals)
    text = f"__global__ void k(int n, int m) {{ {GLOBAL_X} int y = threadIdx.y * n; int z = {expression}; }}"
    unit = parse(SourceFile("k.cu", text.encode()))
    node = unit.node(unit.kernels[0])
    assert node is not None
    declarator = [d for d in walk(node) if d.type == "init_declarator"][-1]
    value = declarator.child_by_field_name("value")
    assert value is not None
    form = form_of(unit, unit.kernels[0], value)
    assert form is not None
    # Masks and shifts of negative values are no remainders and quotients: indices are taken not to be negative.
    if wanted is not None and not ("-" in expression and ("&" in expression or ">>" in expression)):
        assert form.evaluate(known) == wanted


def test_an_index_with_a_comma_is_no_array() -> None:
    assert kernel_accesses("view[n, m] = a[1]; view[] = 2;")[0].array == "a"


def test_long_straight_code_is_read_in_reasonable_time() -> None:
    """Chains in which each value is used twice must not be followed once for each path."""
    chain = "".join(
        f"int v{i + 1} = (v{i} * v{i}) % n + v{i}; if (v{i + 1} > m) v{i + 1} = v{i};\n" for i in range(300)
    )
    started = time.process_time()
    found = kernel_accesses(f"int v0 = threadIdx.x; {chain} a[v300] = 1; a[v3] = 2;")
    assert time.process_time() - started < 5  # seconds of processor time
    assert [x.affine.depends_on >= {"threadIdx.x"} for x in found if x.affine is not None] == [True, True]
