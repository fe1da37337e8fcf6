"""Writing an inferred workload into the file: the text that results declares the same launches."""

from __future__ import annotations

import pytest

from optiml_core.records import Edit, Failure, Launch
from optiml_core.source import SourceFile, apply_edits, parse
from optiml_core.workload import declare_edit, find_workload, resolve_launch
from tests.workload.cases import unit_of

FILE = (
    "#include <cstdio>\n\n{doc}__global__ void add(const float* a, float* b, int n) {{\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) b[i] = a[i];\n}}\n"
    "int main() {{ int n = 1000; float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);\n"
    "add<<<(n + 255) / 256, 256>>>(x, y, n); add<<<n / 128, 128>>>(x, y, n); }}\n"
)


def declared(text: bytes) -> bytes:
    unit = parse(SourceFile("k.cu", text))
    edit = declare_edit(unit, find_workload(unit, unit.kernels[0]))
    assert isinstance(edit, Edit), edit
    result = apply_edits(text, [edit])
    assert isinstance(result, bytes)
    return result


@pytest.mark.parametrize(
    "text",
    [
        FILE.format(doc="").encode(),
        FILE.format(doc="// Adds one.\n").encode(),
        FILE.format(doc="").replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + FILE.format(doc="").encode(),
        FILE.format(doc="// optiml: n = 7\n").encode(),
        FILE.format(doc="// optiml: a: uniform\n// optiml: n = 7\n").encode(),
        FILE.format(doc="template <typename T>\n").replace("float*", "T*").replace("T *x", "float *x").encode(),
        ("namespace n {\n" + FILE.format(doc="").replace("__global__", "    __global__") + "}\n").encode(),
    ],
)
def test_the_written_text_declares_the_same_launches(text: bytes) -> None:
    before = parse(SourceFile("k.cu", text))
    after = parse(SourceFile("k.cu", declared(text)))
    inferred = find_workload(before, before.kernels[0])
    written = find_workload(after, after.kernels[0])
    assert written.origin == "declared"
    assert written.failures == ()
    assert written.problems == ()
    # A declaration says all the launches there are; without one the host code's second launch is found too.
    assert written.launch_count == inferred.launch_count == (1 if b"// optiml" in text else 2)
    for index in range(written.launch_count):
        one, other = resolve_launch(inferred, index), resolve_launch(written, index)
        assert isinstance(one, Launch)
        assert one == other
    assert written.text == inferred.text
    # Doing it twice changes nothing.
    assert declared(declared(text)) == declared(text)


def test_lines_are_indented_and_end_like_the_file() -> None:
    text = ("namespace n {\n" + FILE.format(doc="").replace("__global__", "\t__global__") + "}\n").encode()
    text = text.replace(b"\n", b"\r\n")
    lines = [line for line in declared(text).split(b"\n") if b"optiml" in line]
    assert lines
    assert all(line.startswith(b"\t// optiml") and line.endswith(b"\r") for line in lines)


def test_other_comments_between_the_lines_are_left_alone() -> None:
    unit = unit_of(FILE.format(doc="// optiml: n = 7\n// Why 7?\n// optiml: a: uniform\n"))
    failure = declare_edit(unit, find_workload(unit, unit.kernels[0]))
    assert isinstance(failure, Failure)
    assert failure.kind == "refused"


def test_another_files_kernel_is_refused() -> None:
    unit = unit_of(FILE.format(doc=""))
    workload = find_workload(unit, unit.kernels[0])
    assert isinstance(declare_edit(unit_of(FILE.format(doc=""), "other.cu"), workload), Failure)
