"""Files that nobody should have: one message with the file, the line and the cure, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from optiml_core.cli.main import main
from optiml_core.cli.target import split_target
from optiml_core.report.patch import write_whole

GOOD = (
    "// optiml: n = 100, x[n]: normal, block = 32, grid = ceil_div(n, 32)\n"
    "__global__ void f(float* x, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i < n) x[i] *= 2; }\n"
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("int main() {}", None, "no kernel"),
        ("#define MAKE(name) \\\n  __global__ void name(float* x) { x[0] = 1; }\nMAKE(f)\n", 2, "made by a macro"),
        ("int a;\n__global__ void f(float* x,\n  int n);\nint main() { return 0; }\n", 2, "`f` is only declared here"),
        ("/* two\nlines */ // __global__\n__global__ void fü(float* x) {}\n", 3, "begins no kernel"),
    ],
)
def test_why_there_is_no_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int | None, message: str
) -> None:
    file = tmp_path / "a.cu"
    file.write_text(text, "utf-8")
    status, said = answer(capsys, "optimize", str(file))
    assert status == 2
    assert message in said
    assert (f"a.cu:{line}:" in said) == (line is not None)
    status, said = answer(capsys, "kernels", str(file))
    assert status == 0
    assert message in said


def test_a_path_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a[bold]b[" / "bold].cu"
    file.parent.mkdir()
    assert answer(capsys, "kernels", str(file))[0] == 2
    file.write_text(GOOD)
    status, said = answer(capsys, "kernels", str(file))
    assert status == 0
    assert "a[bold]b[" in said.replace(" ", "")


def test_types_nested_beyond_what_a_parser_bears(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.cu"
    file.write_text(f"template <class T> struct S {{}};\n__global__ void f({'S<' * 3000}int{'>' * 3000}* x) {{}}\n")
    status, said = answer(capsys, "kernels", str(file))
    assert status == 0
    assert "a.cu:2" in said


def test_a_workload_file_is_named_as_it_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, workload = tmp_path / "a.cu", tmp_path / "mine.toml"
    file.write_text(GOOD)
    workload.write_text("[f]\nn = = 3\n")
    status, said = answer(capsys, "verify", str(file), str(file), "--workload", str(workload))
    assert status == 2
    assert "mine.toml:2" in said.replace(" ", "")


def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, pipe = tmp_path / "a.cu", tmp_path / "pipe"
    file.write_text(GOOD)
    os.mkfifo(pipe)
    assert "not a regular file" in answer(capsys, "kernels", str(pipe))[1]
    assert "not a regular file" in answer(capsys, "kernels", str(file), "--workload", str(pipe))[1]


def test_a_long_description_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert split_target("sum " * 20000) == ("sum " * 20000, None)
    assert "internal" not in answer(capsys, "kernels", "sum " * 20000)[1]


@pytest.mark.parametrize("option", ["--seconds", "--evaluations"])
@pytest.mark.parametrize("value", ["nan", "inf", "-3", "0"])
def test_a_budget_is_a_number_above_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    file = tmp_path / "a.cu"
    file.write_text(GOOD)
    if option == "--evaluations" and value in ("nan", "inf"):
        return
    status, said = answer(capsys, "optimize", str(file), option, value)
    assert status == 2
    assert "must be a number above 0" in said


@pytest.mark.parametrize("option", ["--patch", "--report"])
def test_the_source_is_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    file, link = tmp_path / "a.cu", tmp_path / "link.cu"
    file.write_text(GOOD)
    link.symlink_to(file)
    for output in (file, link):
        status, said = answer(capsys, "optimize", str(file), option, str(output))
        assert status == 2
        assert "is the source itself" in said
    assert file.read_text() == GOOD


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    failed = write_whole(pipe, b"patch")
    assert failed is not None, "nobody reads the pipe"
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_whole(pipe, b"patch") is None
    assert os.read(reader, 100) == b"patch"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_bytes_that_are_no_text_are_printed_all_the_same(tmp_path: Path, encoding: str) -> None:
    """They stand in what is said of a file, as in the patch of a source in Latin 1."""
    file = tmp_path / os.fsdecode(b"caf\xe9 \xf0\x9f\x9a\x80.cu")
    file.write_text(GOOD)
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "optiml_core", "kernels", os.fspath(file)]
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (b"caf\xe9" if encoding == "utf-8" else b"caf\\udce9") in ended.stdout.replace(b"\n", b"")


@pytest.mark.parametrize("command", [("verify", "{0}", "{0}"), ("optimize", "{0}"), ("synthesize", "dot product")])
def test_a_missing_compiler_is_the_machines_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    file = tmp_path / "a.cu"
    file.write_text(GOOD)
    monkeypatch.setenv("PATH", str(tmp_path))
    status, said = answer(capsys, *(part.format(file) for part in command), "--device", "emulator")
    assert status == 3
    assert "g++" in said
    assert "cure" in said
    assert answer(capsys, "profile", str(file), "--device", "emulator")[0] == 0


def test_an_empty_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = answer(capsys, "optimize", "")
    assert status == 2
    assert "no file is named" in said
