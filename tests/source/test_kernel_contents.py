"""Loops, arrays, barriers, calls, guards, macro uses."""

from __future__ import annotations

import pytest

from optiml_core.records import Edit
from optiml_core.source import (
    SourceFile,
    TranslationUnit,
    arrays_in,
    barriers,
    calls_in,
    check_edits,
    enclosing_macro_call,
    integer_constants,
    loops,
    parse,
)


def unit_of(text: str) -> TranslationUnit:
    return parse(SourceFile("k.cu", text.encode()))


def kernel(body: str) -> TranslationUnit:
    return unit_of(f"#define TILE 16\n__global__ void k(float* a, int n, int m) {{\n{body}\n}}")


@pytest.mark.parametrize(
    ("loop", "head", "trips"),
    [
        ("for (int i = 0; i < n; i++) ;", ("for", "i", "0", "<", "n", "1"), "n"),
        ("for (int i = 0; i < n; ++i) ;", ("for", "i", "0", "<", "n", "1"), "n"),
        ("for (int i = 1; n >= i; i += 2) ;", ("for", "i", "1", "<=", "n", "2"), "ceil_div(n - 1 + 1, 2)"),
        ("for (int i = n - 1; i >= 0; i--) ;", ("for", "i", "n - 1", ">=", "0", "-1"), "n - 1 + 1"),
        ("for (int i = 0; i != n; i++) ;", ("for", "i", "0", "!=", "n", "1"), "n"),
        ("for (int i = 0; i < TILE; i += 4) ;", ("for", "i", "0", "<", "TILE", "4"), "4"),
        ("for (int i = 0; i < 0; i++) ;", ("for", "i", "0", "<", "0", "1"), "0"),
        ("for (int s = TILE; s > 0; s >>= 1) ;", ("for", "s", "TILE", ">", "0", ">>= 1"), "5"),
        ("for (int s = 1; s < TILE; s *= 2) ;", ("for", "s", "1", "<", "TILE", "*= 2"), "4"),
        ("for (int s = blockDim.x / 2; s > 0; s >>= 1) ;", ("for", "s", "blockDim.x / 2", ">", "0", ">>= 1"), None),
        ("for (int i = threadIdx.x; i < n; i = i + blockDim.x) ;",
         ("for", "i", "threadIdx.x", "<", "n", "blockDim.x"), "ceil_div(n - threadIdx.x, blockDim.x)"),
        ("int i = 0; while (i < n) { a[i] = 1; i += 3; }", ("while", "i", None, "<", "n", "3"), None),
        ("for (;;) break;", ("for", None, None, None, None, None), None),
        ("for (int i = 0, j = 9; i < n && j > 0; i++, j--) ;", ("for", "i", "0", "<", "n", "1"), "n"),
        ("for (float x : list) ;", ("range", "x", None, None, None, None), None),
        ("for (int i = 5; i < n; i--) ;", ("for", "i", "5", "<", "n", "-1"), None),
    ],
)  # fmt: skip
def test_loop_heads(loop: str, head: tuple[str | None, ...], trips: str | None) -> None:
    unit = kernel(loop)
    (found,) = loops(unit, unit.kernels[0])
    assert (found.kind, found.variable, found.start, found.comparison, found.bound, found.step) == head
    assert found.trip_count == trips
    assert found.trip_count_value == (int(trips) if trips is not None and trips.isdigit() else None)


def test_nested_loops_know_their_parent_and_their_pragma() -> None:
    unit = kernel(
        "for (int i = 0; i < n; i++) {\n#pragma unroll 4\nfor (int j = 0; j < 8; j++) {}\n"
        "#pragma unroll\n  while (n) {}\n for (int l = 0; l < 2; l++);\n}"
    )
    found = loops(unit, unit.kernels[0])
    assert [(x.variable, x.unroll, x.depth) for x in found] == [
        ("i", None, 0),
        ("j", "4", 1),
        (None, "", 1),
        ("l", None, 1),
    ]
    assert all(x.parent is found[0] for x in found[1:])


def test_arrays() -> None:
    unit = unit_of(
        """
#define TILE 16
template <int N, typename T> __global__ void k() {
  __shared__ float tile[TILE][TILE + 1];
  __shared__ T typed[4];
  __shared__ int flag, other[N];
  extern __shared__ __align__(16) unsigned char raw[];
  float acc[2][4] = {};
  double* pointers[3];
}"""
    )
    found = [(a.name, a.space, a.type, a.extents, a.bytes, a.is_dynamic) for a in arrays_in(unit, unit.kernels[0])]
    assert found == [
        ("tile", "shared", "float", ("TILE", "TILE + 1"), 16 * 17 * 4, False),
        ("typed", "shared", "T", ("4",), None, False),
        ("flag", "shared", "int", (), 4, False),
        ("other", "shared", "int", ("N",), None, False),
        ("raw", "shared", "unsigned char", ("",), None, True),
        ("acc", "local", "float", ("2", "4"), 32, False),
        ("pointers", "local", "double*", ("3",), 24, False),
    ]


def test_constants_at_file_scope() -> None:
    unit = unit_of(
        """
#define A 4
#define B (A * 2)
#define C 1
#undef C
#define C 2
#define F(x) x
static const int D = B + 1;
constexpr unsigned E = D << 2;
namespace inner { const int G{7}; }
enum Kind { first, second = 5, third };
int variable = 3;
#define TEXT "a"
"""
    )
    assert integer_constants(unit) == {"A": 4, "B": 8, "D": 9, "E": 36, "G": 7, "first": 0, "second": 5, "third": 6}


def test_barriers_and_what_guards_them() -> None:
    unit = kernel(
        """
  namespace cg = cooperative_groups;
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  auto grid = cg::this_grid();
  __syncthreads();
  if (threadIdx.x < n) { __syncthreads_or(1); }
  __syncwarp(); block.sync(); tile.sync(); cg::sync(grid);
  if (n > 3) return;
  __syncthreads();"""
    )
    assert [(b.scope, b.guards) for b in barriers(unit, unit.kernels[0])] == [
        ("block", ()),
        ("block", ("threadIdx.x < n",)),
        ("warp", ()),
        ("block", ()),
        ("tile", ()),
        ("grid", ()),
        ("block", ("n <= 3",)),
    ]


def test_calls() -> None:
    unit = unit_of("__device__ int f(int x) { return x; }\n__global__ void k(int n) { f(g<3>(n), n); s.h(); }")
    assert [(c.name, c.function, c.arguments, c.is_local) for c in calls_in(unit, unit.kernels[0])] == [
        ("f", "f", ("g<3>(n)", "n"), True),
        ("g", "g<3>", ("n",), False),
        ("h", "s.h", (), False),
    ]


TEXT = '#define SQ(x) ((x) * (x))\n__global__ void k(int n) { /* why */ int y = SQ(n + 1); CHECK(f("s")); n = y; }'


@pytest.mark.parametrize(
    ("piece", "refused"),
    [
        ("n + 1", "macro call SQ"),
        ("SQ(n", "macro call SQ"),
        ("SQ(n + 1)", None),
        ("y = SQ(n + 1);", None),
        ("f(", "macro call CHECK"),
        ("n = y", None),
        ("(x) * (x)", "directive"),
        ("why", None),
    ],
)
def test_no_edit_cuts_into_a_macro(piece: str, refused: str | None) -> None:
    unit = unit_of(TEXT)
    start = TEXT.index(piece)
    result = check_edits(unit, [Edit("k.cu", start, start + len(piece), b"z")])
    if refused is None:
        assert result is None
    else:
        assert result is not None
        assert result.kind == "refused"
        assert refused in result.message


def test_an_insertion_inside_a_macro_call_is_refused_and_beside_it_is_not() -> None:
    unit = unit_of(TEXT)
    call = TEXT.index("SQ(n")
    assert check_edits(unit, [Edit("k.cu", call, call, b"z")]) is None
    assert check_edits(unit, [Edit("k.cu", call + 1, call + 1, b"z")]) is not None
    assert check_edits(unit, [Edit("k.cu", call + 9, call + 9, b"z")]) is None
    found = enclosing_macro_call(unit, call + 4)
    assert found is not None
    assert TEXT[found.start_byte : found.end_byte] == "SQ(n + 1)"
    assert enclosing_macro_call(unit, call - 1) is None
