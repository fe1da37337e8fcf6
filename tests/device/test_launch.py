"""One launch's limits, orders and by-products."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np
import pytest

from tests.device.runtime_harness import BuiltKernel

EMPTY = "__global__ void k() {}"
LIMITS: list[tuple[str, Any, Any, int, tuple[int, int, int]]] = [
    # source, grid, block, dynamic shared memory -> the limit's number, what was asked for, what is allowed
    (EMPTY, 1, (32, 33), 0, (1, 1056, 1024)),
    (EMPTY, 1, 2048, 0, (2, 2048, 1024)),
    (EMPTY, 1, (1, 1, 65), 0, (2, 65, 64)),
    (EMPTY, (1, 65536), 32, 0, (3, 65536, 65535)),
    (EMPTY, 0, 32, 0, (6, 0, 1)),
    (EMPTY, 1, 32, 227 * 1024 + 1, (4, 227 * 1024 + 1, 227 * 1024)),
    ("__global__ void k() { __shared__ char s[49153]; s[threadIdx.x] = 1; }", 1, 32, 0, (4, 49153, 48 * 1024)),
    ("__global__ void k() { cooperative_groups::this_grid().sync(); }", 9, 1024, 0, (5, 9216, 8192)),
]


@pytest.mark.parametrize(("source", "grid", "block", "shared", "limit"), LIMITS)
def test_launch_limits(source: str, grid: Any, block: Any, shared: int, limit: tuple[int, int, int]) -> None:
    result = BuiltKernel(source, "k").launch(grid, block, shared=shared)
    assert result.status == "refused"
    (fault,) = result.faults
    assert fault.what == "launch-limit"
    assert (fault.record["size"], fault.record["address"], fault.record["detail"]) == limit


ORDER = (
    "__device__ int next;\n"
    "__global__ void k(int* o) { if ((threadIdx.x & 31) == 0)"
    " o[atomicAdd(&next, 1)] = blockIdx.x * 100 + threadIdx.x / 32; }"
)


def order(schedule: int) -> list[int]:
    out = np.zeros(16, np.int32)
    result = BuiltKernel(ORDER, "k").launch(4, 128, out, schedule=schedule)
    assert result.faults == ()
    return [int(v) for v in out]


def test_the_seed_orders_blocks_and_warps() -> None:
    natural = [b * 100 + w for b in range(4) for w in range(4)]
    assert order(0) == natural
    seeded = {tuple(order(s)) for s in range(1, 6)}
    assert len(seeded) == 5
    assert all(sorted(s) == natural for s in seeded)
    assert order(3) == order(3)
    assert any([v // 100 for v in s] != sorted(v // 100 for v in s) for s in seeded)
    assert any([v % 100 for v in s[:4]] != [0, 1, 2, 3] for s in seeded)


RACE = (
    "__global__ void k(volatile int* flag, int* data, int* o) {\n"
    "  if (threadIdx.x == 0 && blockIdx.x == 0) { data[0] = 1; flag[0] = 1; }\n"
    "  if (threadIdx.x == 0 && blockIdx.x == 1 && flag[0]) o[0] = data[0];\n"
    "}"
)


def test_another_order_finds_what_one_hides() -> None:
    """The second block reads the data only if the first ran before it."""
    found = []
    for schedule in range(6):
        arguments = [np.zeros(1, np.int32) for _ in range(3)]
        result = BuiltKernel(RACE, "k").launch(2, 32, *arguments, schedule=schedule)
        found.append(result.kinds() == {"race-read-write"})
    assert any(found)
    assert not all(found)


def test_chosen_blocks_only() -> None:
    out = np.zeros(8, np.int32)
    source = "__global__ void k(int* o) { if (threadIdx.x == 0) o[blockIdx.x] = 1; }"
    result = BuiltKernel(source, "k").launch(8, 32, out, blocks=[1, 6])
    np.testing.assert_array_equal(np.flatnonzero(out), [1, 6])
    assert result.statistics["blocks"] == 2


def test_distinct_sectors_of_each_buffer() -> None:
    source = (
        "__global__ void k(const float* a, float* o) {\n"
        "  o[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x] + a[threadIdx.x + 32];\n"
        "}"
    )
    result = BuiltKernel(source, "k").launch(4, 32, np.ones(64, np.float32), np.zeros(128, np.float32), traffic=1)
    rows = {int(r["buffer"]): r for r in result.traffic}
    assert (rows[0]["sectors_read"], rows[0]["block_sectors_read"], rows[0]["sectors_written"]) == (8, 32, 0)
    assert (rows[1]["sectors_written"], rows[1]["block_sectors_written"], rows[1]["sectors_read"]) == (16, 16, 0)


@pytest.mark.parametrize("poison", [0x00, 0x7F, 0xFF])
def test_shared_memory_starts_poisoned(poison: int) -> None:
    source = "__global__ void k(unsigned* o) { __shared__ unsigned s[4]; o[threadIdx.x] = s[threadIdx.x]; }"
    out = np.ones(4, np.uint32)
    BuiltKernel(source, "k").launch(1, 4, out, poison=poison, races=0)
    assert (out == poison * 0x01010101).all()


def test_output_is_limited() -> None:
    source = '__global__ void k() { printf("0123456789\\n"); }'
    result = BuiltKernel(source, "k").launch(1, 32, output_limit=25)
    assert result.output == "0123456789\n0123456789\n012"
    assert result.statistics["output_dropped"] == 32 * 11 - 25


def test_memory_is_limited() -> None:
    source = "__global__ void k(float* o) { o[threadIdx.x] = 1; }"
    result = BuiltKernel(source, "k").launch(1, 32, np.zeros(1 << 20, np.float32), memory_limit=1 << 20)
    assert result.status == "no-memory"


def test_atomics_that_meet_one_address_are_counted() -> None:
    source = "__global__ void k(int* o, int n) {\n  atomicAdd(o + threadIdx.x % n, 1);\n}"
    for distinct in (1, 4, 32):
        result = BuiltKernel(source, "k").launch(1, 32, np.zeros(32, np.int32), C.c_int(distinct))
        assert result.at(2)["same_address"] == 32 - distinct


# float4 loads and strided loads: sectors a request (NVIDIA Nsight Compute, "Memory Tables").
SECTORS = [
    ("((float4*)a)[t].x", 16.0),
    ("a[t]", 4.0),
    ("a[2 * t]", 8.0),
    ("a[32 * t]", 32.0),
    ("a[0]", 1.0),
    ("a[t + 1]", 5.0),
    ("((char*)a)[t]", 1.0),
    ("((double*)a)[t]", 8.0),
]


@pytest.mark.parametrize(("load", "sectors"), SECTORS)
def test_sectors_a_request(load: str, sectors: float) -> None:
    source = (
        f"__global__ void k(const float* a, float* o) {{ int t = threadIdx.x;\n  float v = {load};\n  o[t] = v;\n}}"
    )
    result = BuiltKernel(source, "k").launch(1, 32, np.ones(1025, np.float32), np.zeros(32, np.float32))
    counts = result.at(2)
    assert counts["requests"] == 1
    assert counts["sectors"] == sectors


WAVEFRONTS = [("t", 1), ("2 * t", 2), ("32 * t % 1024", 32), ("0", 1), ("t * 33 % 1024", 1), ("t / 2", 1)]


@pytest.mark.parametrize(("index", "waves"), WAVEFRONTS)
def test_wavefronts_of_shared_loads(index: str, waves: int) -> None:
    source = (
        "__global__ void k(float* o) { __shared__ float s[1024]; int t = threadIdx.x;\n"
        f"  for (int i = t; i < 1024; i += 32) s[i] = i;\n  __syncwarp();\n  o[t] = s[{index}];\n}}"
    )
    counts = BuiltKernel(source, "k").launch(1, 32, np.zeros(32, np.float32)).at(4)
    assert (counts["wavefronts"], counts["ideal_wavefronts"]) == (waves, 1)
