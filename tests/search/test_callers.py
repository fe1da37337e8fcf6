"""Which folder is searched for launches of a kernel, and what is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from optiml_core.records import Failure
from optiml_core.search.callers import files_that_launch, launches_of, workspace_root
from optiml_core.source import SourceFile, parse

KERNEL = "__global__ void f(float* y) { y[0] = 1; }\n"
LAUNCH = '#include "kernels/f.cuh"\nvoid g(float* y) { f<<<1, 32>>>(y); }\n'


def found(tmp_path: Path, files: dict[str, str], file: str) -> tuple[str, set[str]]:
    """The root relative to the folder, and the files that launch ``f``."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    path = str(tmp_path / file)
    unit = parse(SourceFile(path, KERNEL.encode()))
    root = workspace_root(unit.kernels[0], path)
    names = {str(Path(one).relative_to(tmp_path)) for one in files_that_launch(unit.kernels[0], path, root)}
    return str(Path(root).relative_to(tmp_path)), names


@pytest.mark.parametrize(
    ("files", "root", "names"),
    [
        ({"src/kernels/f.cuh": KERNEL, "src/run.cu": LAUNCH, "Makefile": ""}, ".", {"src/run.cu"}),
        ({"src/kernels/f.cuh": KERNEL, "src/run.cu": LAUNCH}, "src", {"src/run.cu"}),
        ({"src/kernels/f.cuh": KERNEL, "src/run.cu": LAUNCH.replace("f<<<", "h<<<")}, "src/kernels", set()),
        ({"src/f.cuh": KERNEL, "src/kernels/f.cuh": KERNEL, "x/x.cu": LAUNCH}, "src/kernels", set()),
        ({"src/kernels/f.cuh": KERNEL, ".git/HEAD": "", "app/run.cu": LAUNCH}, ".", {"app/run.cu"}),
        ({"src/kernels/f.cuh": KERNEL, "CMakeLists.txt": "", "app/run.cu": LAUNCH}, ".", {"app/run.cu"}),
    ],
)  # fmt: skip
def test_the_folder_and_the_launches(tmp_path: Path, files: dict[str, str], root: str, names: set[str]) -> None:
    folder = tmp_path / "deep" / "enough"  # nothing above the test's own folder is looked at
    assert found(folder, files, "src/kernels/f.cuh") == (root, names)


PLAIN = "__global__ void turn(const float* in, float* out, int rows, int columns) {}\n"
IN_NAMESPACE = "namespace ours { __global__ void turn(float* x, int n) {} }\n"
TEMPLATE = "template <typename T, int N> __global__ void turn(const T* x, int n) {}\n"

# (the kernel's file, a call in another file, whether it may launch the kernel)
CALLS = [
    (PLAIN, "turn<<<g, b>>>(x, y, 4, 5);", True),
    (PLAIN, "turn <<< g, b, 0, stream >>> (x, y, 4, 5);", True),
    (PLAIN, "::turn<<<g, b>>>(x, y, 4, 5);", True),
    (PLAIN, "turn<<<g, b>>>(x, y, 4);", True),  # a default in a declaration over there
    (PLAIN, "cudaLaunchKernel(turn, g, b, arguments, 0, 0);", True),
    (PLAIN, "turn<float, 8><<<g, b>>>(x, y, 4);", False),
    (PLAIN, "turn<<<g, b>>>(x, y, 4, 5, 6);", False),
    (PLAIN, "return_all<<<g, b>>>(x, y, 4, 5);", False),
    (PLAIN, "// turn<<<g, b>>>(x, y, 4, 5);", False),
    (IN_NAMESPACE, "ours::turn<<<g, b>>>(x, 4);", True),
    (IN_NAMESPACE, "turn<<<g, b>>>(x, 4);", True),  # using namespace ours
    (IN_NAMESPACE, "theirs::turn<<<g, b>>>(x, 4);", False),
    (TEMPLATE, "turn<Pair<int>, 8><<<g, b>>>(x, 4);", True),
    (TEMPLATE, "turn<<<g, b>>>(x, 4);", True),
]


@pytest.mark.parametrize(("kernel_file", "call", "expected"), CALLS)
def test_launches_in_another_file(tmp_path: Path, kernel_file: str, call: str, expected: bool) -> None:
    own, other = tmp_path / "kernel.cu", tmp_path / "app" / "main.cu"
    other.parent.mkdir()
    own.write_text(kernel_file)
    other.write_text(f'#include "../kernel.cu"\nvoid run(dim3 g, dim3 b, float* x, float* y) {{\n  {call}\n}}\n')
    source = SourceFile.read(str(own))
    assert not isinstance(source, Failure)
    (kernel,) = parse(source).kernels
    found = files_that_launch(kernel, str(own), str(tmp_path))
    assert (str(other) in found) == expected
    for path, data in found.items():
        assert len(launches_of(kernel, parse(SourceFile(path, data)))) == 1


def test_the_own_file_is_left_out(tmp_path: Path) -> None:
    own = tmp_path / "kernel.cu"
    own.write_text(PLAIN + "void run() { turn<<<1, 32>>>(a, b, 4, 5); }\n")
    source = SourceFile.read(str(own))
    assert not isinstance(source, Failure)
    assert files_that_launch(parse(source).kernels[0], str(own), str(tmp_path)) == {}
