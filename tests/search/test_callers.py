"""Which folder is searched for launches of a kernel, and what is found in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from optiml_core.search.callers import files_that_launch, workspace_root
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
