"""Reading again after an edit gives what reading the whole file gives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.source.incremental import changed_range, parse_again

HEAD = b"int before = 1; /* a */ int behind; "
TEXT = b"""#include <cstdio>
// a kernel; with { braces } in a comment
#define N 16
template <typename T>
__global__ void first(const T* in, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; // where
#pragma unroll
  for (int j = 0; j < N; j++) { out[i] += in[j]; }
  CHECK(i)
  if (i < n) { out[i] = '{'; }
}

namespace inner {
__global__ void second(float* a) {
  a[0] = 1; /* set */ a[1] = 2;
  printf("%d;\\n", 3);
}
}

int main() {
  first<float><<<1, dim3(2, 3)>>>(a, b, 4);
  inner::second<<<g, 32>>>(a);
  first<double><<<4, 32>>>(c, d, 5);
  return 0;
}
__device__ int last = 3;
"""


def same(a: TranslationUnit, b: TranslationUnit) -> None:
    assert a.scan == b.scan
    assert a.blanked == b.blanked
    assert a.plain == b.plain
    assert a.tokens == b.tokens
    assert a.kernels == b.kernels
    assert a.launch_sites == b.launch_sites
    if not b.tree.root_node.has_error:
        assert str(a.tree.root_node) == str(b.tree.root_node)
    for kernel in b.kernels:
        x, y = a.node(kernel), b.node(kernel)
        assert (x is None) == (y is None)
        if x is not None and y is not None and not y.has_error:
            assert (x.start_byte, x.end_byte, str(x)) == (y.start_byte, y.end_byte, str(y))


def edited(text: bytes, at: int, length: int, insert: bytes) -> bytes:
    return text[:at] + insert + text[at + length :]


pieces = st.sampled_from(
    [b"", b" ", b"x", b"\n", b"i", b";", b"{", b"}", b"{}", b"(", b")", b'"', b"'", b"//", b"/*", b"*/", b"#",
     b"\n#if 0\n",     b"int y = 2;", b"k<<<1, 2>>>(a);", b"__restrict__", b"CHECK(x)\n", b"out[i] = 3;", b"\r\n",
     b"\xff",      b"if (x) { y(); }",
     b"#pragma unroll 4\n", b"first<half><<<1, 2>>>(a, b, 3);", b"__global__ void k() {}"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    head=st.sampled_from([b"", HEAD, b"\xef\xbb\xbf", b"\n\n", b"#if A\nint x;\n#else\nint y; int z;\n#endif\n"]),
    edits=st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 6), pieces), min_size=1, max_size=3),
)
def test_an_edited_file_reads_as_a_fresh_one(head: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    text = head + TEXT
    unit = parse(SourceFile("k.cu", text))
    for at, length, insert in edits:
        text = edited(text, min(at, len(text)), length, insert)
        unit = parse(SourceFile("k.cu", text), unit)
        same(unit, parse(SourceFile("k.cu", text)))


def test_an_edit_in_a_body_takes_the_fast_way() -> None:
    before = parse(SourceFile("k.cu", TEXT))
    for old, new in [
        (b"out[i] += in[j]", b"out[i] += 2 * in[j]"),
        (b"a[1] = 2;", b"a[1] = 2;\n\n  a[2] = 3;"),
        (b"<<<g, 32>>>", b"<<<g, 64>>>"),
        (b"first<double>", b"first<int>"),
        (b"// where", b"// where; {"),
        (b"return 0", b"return 10"),
        (b"#pragma unroll", b"#pragma unroll 8"),
    ]:
        source = SourceFile("k.cu", TEXT.replace(old, new))
        again = parse_again(source, before)
        assert again is not None, old
        same(again, parse(source))
        # What lies before the edit is the very same record.
        if old == b"return 0":
            assert again.kernels[0] is before.kernels[0]


def test_an_edit_before_the_first_statement_or_beside_directives_takes_the_fast_way() -> None:
    text = b"// note\n#include <cstdio>\nint a;\n#define N 3\n// more\nint b;\n" + TEXT
    before = parse(SourceFile("k.cu", text))
    for old, new in [
        (b"// note", b"// a note"),
        (b"int a;", b"int  a;"),
        (b"// more", b"// more\n"),
        (b"int b", b"int c"),
    ]:
        source = SourceFile("k.cu", text.replace(old, new))
        again = parse_again(source, before)
        assert again is not None, old
        same(again, parse(source))


def test_edits_with_far_effects_are_read_as_a_whole() -> None:
    before = parse(SourceFile("k.cu", TEXT))
    for old, new in [(b"#define N 16", b"#define N 8"), (b"float* a)", b"float* b)"), (b"a[0] = 1;", b"a[0] = 1; }")]:
        assert parse_again(SourceFile("k.cu", TEXT.replace(old, new)), before) is None


def test_the_same_text_is_the_same_unit() -> None:
    before = parse(SourceFile("k.cu", TEXT))
    assert parse(SourceFile("k.cu", TEXT), before) is before
    assert parse(SourceFile("other.cu", TEXT), before).kernels[0].file == "other.cu"


@given(a=st.binary(max_size=12), b=st.binary(max_size=12), c=st.binary(max_size=12), d=st.binary(max_size=12))
def test_the_changed_range_explains_the_change(a: bytes, b: bytes, c: bytes, d: bytes) -> None:
    before, after = a + b + d, a + c + d
    start, old_end, new_end = changed_range(before, after)
    assert before[:start] == after[:start]
    assert before[old_end:] == after[new_end:]
    assert 0 <= start <= min(old_end, new_end)
    assert before[:start] + after[start:new_end] + before[old_end:] == after
