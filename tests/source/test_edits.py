"""Edits of bytes and patches that git takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.records import Edit, Failure
from optiml_core.source import apply_edits, unified_diff, unified_diff_bytes


def edit(start: int, end: int, replacement: bytes) -> Edit:
    return Edit("k.cu", start, end, replacement)


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        (b"abcdef", [], b"abcdef"),
        (b"abcdef", [edit(1, 2, b"XX")], b"aXXcdef"),
        (b"abcdef", [edit(4, 5, b""), edit(0, 1, b"__")], b"__bcdf"),
        (b"abcdef", [edit(3, 3, b"1"), edit(3, 3, b"2")], b"abc12def"),
        (b"abcdef", [edit(2, 2, b"<"), edit(2, 4, b"-"), edit(4, 4, b">")], b"ab<->ef"),
        (b"a\r\nb\xff\r\n", [edit(0, 1, b"c")], b"c\r\nb\xff\r\n"),
        (b"", [edit(0, 0, b"x")], b"x"),
    ],
)
def test_edits_are_applied_at_once(before: bytes, edits: list[Edit], after: bytes) -> None:
    assert apply_edits(before, edits) == after


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([edit(1, 4, b""), edit(3, 5, b"")], "overlap"),
        ([edit(1, 4, b""), edit(2, 2, b"x")], "overlap"),
        ([edit(5, 7, b"")], "outside"),
        ([edit(3, 2, b"")], "outside"),
        ([edit(-1, 2, b"")], "outside"),
    ],
)
def test_edits_that_cannot_be_applied_are_failures(edits: list[Edit], message: str) -> None:
    result = apply_edits(b"abcdef", edits)
    assert isinstance(result, Failure)
    assert result.kind == "bad-input"
    assert message in result.message
    assert result.file == "k.cu"


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git_apply(folder: Path, path: str, before: bytes, patch: bytes) -> bytes:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(before)
    (folder / "change.patch").write_bytes(patch)
    # In a folder that is no repository, so that no configuration of line ends has a say.
    command = ["git", "apply", "--whitespace=nowarn", "change.patch"]
    environment = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return target.read_bytes()


@needs_git
@pytest.mark.parametrize("path", ["k.cu", "src/a b.cu", 'src/"q".cu', "src/dürer.cu"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"A\nb"),
        (b"a\rb\nc\n", b"a\rb\nC\n"),
        (b"\xef\xbb\xbfa\n\xe9\xff\n", b"\xef\xbb\xbfa\n\xe9\xfe\n"),
        (b"\n" * 30 + b"x\n" + b"\n" * 30, b"\n" * 30 + b"y\nz\n" + b"\n" * 29 + b"end"),
        (b"x\n", b"x\ny\n"),
        (b"a\x0cb\n\x0b\nc\x1c\n", b"a\x0cb\n\x0b\nC\x1c\n"),
    ],
)
def test_git_applies_the_patch(tmp_path: Path, path: str, before: bytes, after: bytes) -> None:
    patch = unified_diff_bytes(before, after, path)
    assert patch == unified_diff(before, after, path).encode("utf-8", "surrogateescape")
    assert git_apply(tmp_path, path, before, patch) == after


def test_equal_files_have_an_empty_patch() -> None:
    assert unified_diff(b"a\r\n", b"a\r\n", "k.cu") == ""


def test_patch_reads_as_people_expect() -> None:
    assert unified_diff(b"a\nb\nc\n", b"a\nB\nc\n", "k.cu") == (
        "--- a/k.cu\n+++ b/k.cu\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


line = st.sampled_from([b"a", b"b", b"", b"\xff", b"x\r", b"  y"])
text = st.lists(line, max_size=25).map(b"\n".join)


@needs_git
@settings(max_examples=40, deadline=None)
@given(before=text.filter(bool), after=text.filter(bool))
def test_git_applies_any_patch(tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes) -> None:
    if before != after:
        folder = tmp_path_factory.mktemp("patch")
        assert git_apply(folder, "k.cu", before, unified_diff_bytes(before, after, "k.cu")) == after
