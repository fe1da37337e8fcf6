"""Which other files launch a kernel: those that can see it, and not those with a kernel of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from optiml_core.search.callers import files_that_launch
from optiml_core.source import SourceFile, parse

OWN = "__global__ void turn(float* y, int n) { y[0] = n; }\n"
LAUNCH = "void run(float* y) { turn<<<1, 1>>>(y, 1); }\n"
DECLARED = "__global__ void turn(float* y, int n = f(2));\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.cu": '#include "own.cu"\n' + LAUNCH}, ["a.cu"]),
        ({"a.cu": '#include "deep/own.cu"\n' + LAUNCH}, ["a.cu"]),
        ({"a.cu": DECLARED + LAUNCH}, ["a.cu"]),
        ({"a.cu": '#include "own.cuh"\n' + LAUNCH, "own.cuh": DECLARED}, ["a.cu"]),
        ({"a.cu": '#include "b.h"\n' + LAUNCH, "b.h": "#include <c.h>\n", "c.h": '  #  include "own.cu"\n'}, ["a.cu"]),
        ({"a.cu": LAUNCH}, []),
        ({"a.cu": OWN + LAUNCH}, []),
        ({"a.cu": '#include "other.cuh"\n' + LAUNCH, "other.cuh": OWN}, []),
        ({"a.cu": '#include "b.h"\n' + LAUNCH, "b.h": '#include "b.h"\n'}, []),
        ({"a.cu": DECLARED + OWN + LAUNCH}, []),
        ({"a.cu": '#include "own.cu"\nvoid run(float* y) { turn<float><<<1, 1>>>(y, 1); }\n'}, []),
        ({"a.cu": '#include "own.cu"\nvoid f() { turned<<<1, 1>>>(); }\n'}, []),
    ],
)
def test_who_launches(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in {"own.cu": OWN, **files}.items():
        (tmp_path / name).write_text(text)
    file = str(tmp_path / "own.cu")
    kernel = parse(SourceFile(file, OWN.encode())).kernels[0]
    assert [Path(path).name for path in files_that_launch(kernel, file, str(tmp_path))] == found
