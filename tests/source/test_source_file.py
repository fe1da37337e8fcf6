"""Reading, and byte offsets against positions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.source import SourceFile


def test_reads_bytes_as_they_are(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfint\ta;\r\n// caf\xe9\r\n"
    (tmp_path / "k.cu").write_bytes(data)
    source = SourceFile.read(tmp_path / "k.cu")
    assert isinstance(source, SourceFile)
    assert source.data == data
    assert source.text == "int\ta;\r\n// caf\ufffd\r\n"
    assert source.newline == b"\r\n"


def test_what_is_no_file_is_a_failure(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cuh")
    (tmp_path / "wide.cu").write_bytes("int a;".encode("utf-16"))
    for name, message in [("none.cu", "not exist"), ("pipe.cuh", "regular"), (".", "regular"), ("wide.cu", "UTF-16")]:
        result = SourceFile.read(tmp_path / name)
        assert isinstance(result, Failure)
        assert message in result.message
    assert isinstance(SourceFile.read("a\0b"), Failure)


@pytest.mark.parametrize(
    ("data", "byte", "position"),
    [
        (b"abc\ndef\n", 0, (1, 1)),
        (b"abc\ndef\n", 3, (1, 4)),
        (b"abc\ndef\n", 4, (2, 1)),
        (b"abc\ndef\n", 8, (3, 1)),
        (b"abc\ndef\n", 99, (3, 1)),
        (b"\tx", 1, (1, 2)),
        (b"a\r\nb", 3, (2, 1)),
        ("é€x".encode(), 5, (1, 3)),
        ("𝄞x".encode(), 4, (1, 2)),
        (b"\xff\xfex", 2, (1, 3)),
        (b"\xef\xbb\xbfx", 3, (1, 1)),
        (b"\xef\xbb\xbfx", 0, (1, 1)),
        (b"", 0, (1, 1)),
    ],
)
def test_positions(data: bytes, byte: int, position: tuple[int, int]) -> None:
    assert SourceFile("k.cu", data).position(byte) == position


def test_protocol_positions_count_utf16_units() -> None:
    source = SourceFile("k.cu", "a𝄞b\ncé".encode())
    assert source.utf16_position(5) == (0, 3)
    assert source.byte_at_utf16(0, 3) == 5
    assert source.byte_at_utf16(1, 2) == 10
    assert source.byte_at_utf16(0, 99) == 6


@given(st.text(alphabet="ab\t\r\né€𝄞", max_size=30))
def test_position_and_byte_are_inverse_at_characters(text: str) -> None:
    source = SourceFile("k.cu", text.encode())
    at = 0
    for character in [*text, ""]:
        line, column = source.position(at)
        if character not in ("\r", "\n"):
            assert source.byte_at(line, column) == at
            assert source.byte_at_utf16(*source.utf16_position(at)) == at
        at += len(character.encode())


@given(st.binary(max_size=40))
def test_no_bytes_break_positions(data: bytes) -> None:
    source = SourceFile("k.cu", data)
    last = (0, 0)
    for byte in range(len(data) + 1):
        position = source.position(byte)
        assert position >= last or data.startswith(b"\xef\xbb\xbf")
        last = position
        assert 0 <= source.byte_at(*position) <= len(data)
