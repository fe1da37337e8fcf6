"""Which sources count as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.source import normalised_source


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a = b + c;", "a=b+c ;"),
        ("a; // why\nb;", "a; b;"),
        ("a/* x */b", "a b"),
        ("a;\r\nb;\r\n", "a;\nb;"),
        ("#define  N   3\na", "#define N 3 // three\n  a"),
        ("# pragma unroll\nfor", "#pragma unroll\nfor"),
        ("#define A \\\n  3\n", "#define A 3\n"),
    ],
)
def test_the_same(a: str, b: str) -> None:
    assert normalised_source(a.encode()) == normalised_source(b.encode())


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a + +b", "a++b"),
        ("a - -1", "a--1"),
        ("int a", "inta"),
        ('"a b"', '"a  b"'),
        ('"// x"', '"// y"'),
        ("1.5f", "1. 5f"),
        ("a / *p", "a /*p"),
        ("#define N 3\na", "#define N 3 a\n"),
        ("a < b", "a << b"),
        ("#pragma unroll 4\nf", "#pragma unroll 8\nf"),
        ("'a'", "'b'"),
        ("a", "\xe9"),
    ],
)
def test_not_the_same(a: str, b: str) -> None:
    assert normalised_source(a.encode("latin-1")) != normalised_source(b.encode("latin-1"))


@given(st.binary(max_size=60))
def test_any_bytes_have_a_hash(data: bytes) -> None:
    assert len(normalised_source(data)) == 64


@given(
    st.lists(
        st.sampled_from(["a", "b1", "+", "++", "-", "<", "<<", "=", "(", ")", "3.5e-3", '"s"', "'c'"]), max_size=12
    )
)
def test_white_space_between_tokens_does_not_count(tokens: list[str]) -> None:
    assert normalised_source(" ".join(tokens).encode()) == normalised_source("\n\t ".join(tokens).encode())
