"""Counts per source line against theory: what Nsight Compute reports for the same access."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from optiml_core.device.emulator.compile_plan import RUNTIME_DIRECTORY
from optiml_core.device.emulator.reading import REPORT, SITE, STATISTICS, TRAFFIC
from tests.device.runtime_harness import BuiltKernel

N = 64
SQUARE = np.arange(N * N, dtype=np.float32).reshape(N, N)

# source, launch (grid, block), line -> (requests a warp of 32, sectors a request, wavefronts a request)
CASES = [
    (
        "__global__ void k(const float* a, float* b, int n) {\n"
        "  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;\n"
        "  float v = a[y * n + x];\n"
        "  b[x * n + y] = v;\n"
        "}",
        {3: (4.0, 0.0), 4: (32.0, 0.0)},
    ),
    (
        "__global__ void k(const float* a, float* b, int n) {\n"
        "  __shared__ float t[32][32];\n"
        "  t[threadIdx.y][threadIdx.x] = a[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];\n"
        "  __syncthreads();\n"
        "  float v = t[threadIdx.x][threadIdx.y];\n"
        "  b[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = v;\n"
        "}",
        {5: (0.0, 32.0), 6: (4.0, 0.0)},
    ),
    (
        "__global__ void k(const float* a, float* b, int n) {\n"
        "  __shared__ float t[32][33];\n"
        "  t[threadIdx.y][threadIdx.x] = a[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];\n"
        "  __syncthreads();\n"
        "  float v = t[threadIdx.x][threadIdx.y];\n"
        "  b[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = v;\n"
        "}",
        {5: (0.0, 1.0), 6: (4.0, 0.0)},
    ),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_requests_of_a_transpose(source: str, expected: dict[int, tuple[float, float]]) -> None:
    out = np.zeros_like(SQUARE)
    result = BuiltKernel(source, "k").launch((N // 32, N // 32), (32, 32), SQUARE.copy(), out, C.c_int(N))
    assert result.status == "done"
    assert result.faults == ()
    np.testing.assert_array_equal(out, SQUARE.T)
    for line, (sectors, wavefronts) in expected.items():
        counts = result.at(line)
        assert counts["requests"] == N * N // 32
        assert counts["sectors"] / counts["requests"] == sectors
        assert counts["wavefronts"] / counts["requests"] == wavefronts


def test_records_have_the_size_of_their_structs() -> None:
    header = (RUNTIME_DIRECTORY / "interface.h").read_text()
    stated = dict(re.findall(r"static_assert\(sizeof\((\w+)\) == (\d+)\)", header))
    for name, dtype in [("Site", SITE), ("Report", REPORT), ("Statistics", STATISTICS), ("Traffic", TRAFFIC)]:
        assert int(stated[f"Optiml{name}"]) == dtype.itemsize
