"""Reuse curves against a plain simulation of least-recently-used lists."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np
import pytest

from tests.device.runtime_harness import BuiltKernel

GATHER = (
    "__global__ void k(const int* index, const float* x, float* y, int n) {\n"
    "  float s = 0;\n"
    "  for (int i = 0; i < n; i++) {\n"
    "    int j = index[i];\n"
    "    s += x[j];\n"
    "  }\n"
    "  y[blockIdx.x] = s;\n"
    "}"
)


def curve_of(touches: list[tuple[str, int]], watched: str) -> list[int]:
    """Sectors of ``watched`` at each distance: a list of (array, byte address) touches by one lane."""
    order: list[tuple[str, int]] = []  # lines, the latest last
    sector_at: dict[tuple[str, int], list[tuple[str, int]]] = {}
    curve = [0] * 21
    for array, address in touches:
        line, sector = (array, address // 128), (array, address // 32)
        if sector not in sector_at:
            distance = None
        else:
            since = sector_at[sector]
            # Distinct other lines whose latest touch came after this sector's.
            distance = len({other for other in since if other != line})
        for marks in sector_at.values():
            marks.append(line)
        sector_at[sector] = []
        order.append(line)
        if array == watched:
            for exponent in range(20):
                curve[exponent] += distance is None or distance >= 2**exponent
            curve[20] += distance is None
    return curve


@pytest.mark.parametrize(
    "index",
    [
        np.arange(96),
        np.tile(np.arange(0, 320, 8), 3),
        np.random.default_rng(0).integers(0, 512, 200),
        np.repeat(np.arange(0, 640, 32), 4),
        np.array([0, 8, 16, 0, 32, 64, 96, 0, 24, 8]),
    ],
)
def test_one_lane_follows_the_list(index: np.ndarray[Any, Any]) -> None:
    x = np.ones(640, np.float32)
    y = np.zeros(1, np.float32)
    out = BuiltKernel(GATHER, "k").launch(
        1, 1, index.astype(np.int32), x, y, C.c_int(len(index)), races=0, initialisation=0, traffic=1
    )
    touches = [touch for i, j in enumerate(index) for touch in (("index", 4 * i), ("x", 4 * int(j)))]
    rows = [site for site in out.sites if out.lines.get(int(site["pc"])) == 5]
    assert len(rows) == 1
    assert rows[0]["sector_reuse"].tolist() == curve_of(touches, "x")
    assert rows[0]["request_reuse"].tolist() == curve_of(touches, "x")
    assert rows[0]["distinct_sectors"] == len(set((4 * index // 32).tolist()))
    assert rows[0]["lines"] == len(index)


ROWS = (
    "__global__ void k(const float* x, float* y, int columns) {\n"
    "  int r = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  float s = 0;\n"
    "  for (int c = 0; c < columns; c++)\n"
    "    s += x[r * columns + c];\n"
    "  y[r] = s;\n"
    "}"
)


@pytest.mark.parametrize(("threads", "misses_with_32_lines"), [(32, False), (128, True)])
def test_a_row_a_thread_thrashes_once_the_warps_take_turns(threads: int, misses_with_32_lines: bool) -> None:
    """Each warp touches 32 lines an iteration; four warps that alternate need 128."""
    columns = 64
    x = np.ones((threads, columns), np.float32)
    y = np.zeros(threads, np.float32)
    out = BuiltKernel(ROWS, "k").launch(1, threads, x, y, C.c_int(columns), races=0, initialisation=0, traffic=1)
    site = next(s for s in out.sites if out.lines.get(int(s["pc"])) == 5)
    sectors = threads * columns // 8
    assert site["sectors"] == threads * columns
    assert site["lines"] == threads * columns
    assert site["distinct_sectors"] == sectors
    assert site["sector_reuse"][20] == sectors
    assert site["sector_reuse"][9] == sectors
    assert (site["sector_reuse"][5] > sectors) == misses_with_32_lines
    assert site["other_warp"] == 0
    assert out.statistics["longest_warp"] == columns + 1
    # All lanes miss together: one request of eight.
    assert site["request_reuse"][9] == threads // 32 * columns // 8


def test_lines_that_warps_share_are_told_from_their_own() -> None:
    source = (
        "__global__ void k(const float* x, float* y, int n) {\n"
        "  float s = 0;\n"
        "  for (int i = 0; i < n; i++)\n"
        "    s += x[i];\n"
        "  y[threadIdx.x] = s;\n"
        "}"
    )
    x, y = np.ones(64, np.float32), np.zeros(128, np.float32)
    out = BuiltKernel(source, "k").launch(1, 128, x, y, C.c_int(64), races=0, initialisation=0, traffic=1)
    site = next(s for s in out.sites if out.lines.get(int(s["pc"])) == 4)
    # Four warps take turns at the same element: all but the first touch of a line come after another warp.
    assert site["requests"] == 4 * 64
    assert site["other_warp"] == 4 * 64 - 2


def test_the_longest_warp_is_known_where_others_leave_early() -> None:
    x = np.ones((64, 64), np.float32)
    y = np.zeros(64, np.float32)
    source = ROWS.replace("  float s = 0;", "  if (r >= 32) return; float s = 0;")
    out = BuiltKernel(source, "k").launch(1, 64, x, y, C.c_int(64), races=0, initialisation=0, traffic=1)
    assert out.statistics["longest_warp"] == 65
    assert out.statistics["warp_steps"] == 65


@pytest.mark.parametrize(("stride", "warps"), [(0, 4), (1, 4), (2, 2), (3, 2), (4, 1), (100, 1)])
def test_a_stride_runs_a_part_of_the_warps_through_barriers(stride: int, warps: int) -> None:
    x, y = np.ones((128, 8), np.float32), np.zeros(128, np.float32)
    source = ROWS.replace("  y[r] = s;", "  __syncthreads(); y[r] = s;")
    out = BuiltKernel(source, "k").launch(
        1, 128, x, y, C.c_int(8), races=0, initialisation=0, traffic=1, warp_stride=stride
    )
    assert out.status == "done"
    assert out.faults == ()
    assert out.statistics["warp_steps"] == warps * 9
    assert int(np.sum(y != 0)) == warps * 32


def test_the_longest_warps_of_all_blocks_add_up() -> None:
    x, y = np.ones((64, 4), np.float32), np.zeros(64, np.float32)
    source = ROWS.replace("c < columns", "c < columns && (r < 32 || c < blockIdx.x * 2)")
    out = BuiltKernel(source, "k").launch(2, 32, x, y, C.c_int(4), races=0, initialisation=0, traffic=1)
    assert out.statistics["longest_warp"] == 5
    assert out.statistics["longest_in_block"] == 5 + 3


def test_blocks_start_with_cold_caches_but_share_what_the_launch_touched() -> None:
    index = np.arange(64)
    x = np.ones(64, np.float32)
    y = np.zeros(3, np.float32)
    out = BuiltKernel(GATHER, "k").launch(
        3, 1, index.astype(np.int32), x, y, C.c_int(64), races=0, initialisation=0, traffic=1
    )
    site = next(s for s in out.sites if out.lines.get(int(s["pc"])) == 5)
    assert site["sector_reuse"][20] == 3 * 8
    assert site["distinct_sectors"] == 8


def test_without_traffic_nothing_is_watched() -> None:
    index = np.arange(64)
    x = np.ones(64, np.float32)
    y = np.zeros(1, np.float32)
    out = BuiltKernel(GATHER, "k").launch(1, 1, index.astype(np.int32), x, y, C.c_int(64))
    site = next(s for s in out.sites if out.lines.get(int(s["pc"])) == 5)
    assert site["lines"] == 64
    assert site["distinct_sectors"] == 0
    assert site["sector_reuse"].sum() == 0
