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


def test_lanes_meet_behind_an_inner_loop() -> None:
    """A tile with a halo: half the lanes leave the inner loop early. ncu counts what each turn of the outer loop asks
    for; before lanes met there, those that were ahead were counted with those still in the turn before."""
    source = (
        "__global__ void k(const float* a, float* b, int n) {\n"
        "  for (int j = threadIdx.y; j < 24; j += 16)\n"
        "    for (int i = threadIdx.x; i < 24; i += 16)\n"
        "      b[j * n + i + 4] = a[j * n + i + 4];\n"
        "}"
    )
    n = 64
    given, out = np.ones((24, n), np.float32), np.zeros((24, n), np.float32)
    result = BuiltKernel(source, "k").launch((1, 1), (16, 16), given, out, C.c_int(n))
    counts = result.at(4)
    # Each warp has two rows of 16 lanes: 8 warps in rows 0 to 15, 4 of them again in rows 16 to 23. A turn of the
    # inner loop reads 64 and then 32 bytes of each row, from the middle of a sector on.
    assert counts["requests"] == (8 + 4) * 2 * 2  # loads and stores
    assert counts["sectors"] == (8 + 4) * 2 * 2 * (3 + 2)


@pytest.mark.parametrize(
    ("update", "passes"),
    [
        ("atomicAdd(&bins[i / 8], 1)", 1.0),  # a counter: lanes of one address count as one
        ("atomicAdd(&bins[i / 8], n)", 8.0),  # one after the other
        ("atomicAdd(&bins[i / 8 * 32], 1)", 4.0),  # four addresses of one bank
    ],
)
def test_passes_of_shared_atomics(update: str, passes: float) -> None:
    source = (
        "__global__ void k(int* out, int n) {\n"
        "  __shared__ int bins[256];\n"
        "  int i = threadIdx.x;\n"
        "  for (int k = i; k < 256; k += 32) bins[k] = 0;\n"
        "  __syncthreads();\n"
        f"  {update};\n"
        "  __syncthreads();\n"
        "  out[i] = bins[i];\n"
        "}"
    )
    result = BuiltKernel(source, "k").launch((1, 1), (32, 1), np.zeros(32, np.int32), C.c_int(3))
    counts = result.at(6)
    assert counts["wavefronts"] / counts["requests"] == passes
