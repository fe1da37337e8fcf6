"""Kernels in headers that a file includes."""

from __future__ import annotations

from pathlib import Path

from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse_with_includes


def test_kernels_of_included_headers_are_found_once(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "main.cu").write_text(
        '#include <cuda.h>\n#include "inner/a.cuh"\n#include "far.h"\n#include "gone.h"\n'
        "__global__ void own() {}\nint main() { own<<<1, 1>>>(); ns::a<<<2, 2>>>(); }"
    )
    (tmp_path / "inner/a.cuh").write_text('#pragma once\n#include "b.h"\nnamespace ns { __global__ void a() {} }')
    (tmp_path / "inner/b.h").write_text('#include "a.cuh"\n#include "../main.cu"\n__global__ void b() { }')
    (tmp_path / "folder/far.h").write_text("__global__ void far() {}")
    found = parse_with_includes(tmp_path / "main.cu", [tmp_path / "folder"])
    assert not isinstance(found, Failure)
    assert [k.qualified for _, k in found.kernels] == ["own", "ns::a", "b", "far"]
    assert [Path(u.source.path).name for u in found.units] == ["main.cu", "a.cuh", "b.h", "far.h"]
    assert [(name, line) for name, _, line in found.missing] == [("gone.h", 4)]
    a = found.kernels[1][1]
    assert [s.grid for s in found.launches_of(a)] == ["2"]


def test_a_buffer_can_stand_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include "k.cuh"')
    (tmp_path / "k.cuh").write_text("")

    def read(path: str) -> SourceFile | Failure:
        return SourceFile(path, b"__global__ void typed() {}") if path.endswith(".cuh") else SourceFile.read(path)

    found = parse_with_includes(tmp_path / "k.cu", read=read)
    assert not isinstance(found, Failure)
    assert [k.name for _, k in found.kernels] == ["typed"]


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    assert isinstance(parse_with_includes(tmp_path / "none.cu"), Failure)
