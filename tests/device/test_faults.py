"""Kernels with one fault each: what the checkers say, at which line; and their corrected twins."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np
import pytest

from tests.device.runtime_harness import BuiltKernel


def floats(n: int) -> Any:
    return np.arange(n, dtype=np.float32)


def ints(n: int) -> Any:
    return np.zeros(n, np.int32)


def name_of(value: Any) -> str:
    return value if isinstance(value, str) and "{" not in value else ""


# name, source, grid, block, arguments, faults as {(what, line)}, launch options
FAULTS: list[tuple[str, str, Any, Any, Any, set[tuple[str, int | None]], dict[str, Any]]] = [
    (
        "one past the end",
        "__global__ void k(const float* a, float* b, int n) {\n int i = threadIdx.x;\n if (i <= n) b[i] = a[i];\n}",
        1,
        64,
        lambda: [floats(50), floats(50), C.c_int(50)],
        {("out-of-bounds", 3)},
        {},
    ),
    (
        "null pointer",
        "__global__ void k(int* f) {\n int* p = nullptr;\n if (threadIdx.x == 3) p[5] = 1;\n f[threadIdx.x] = 1;\n}",
        1,
        32,
        lambda: [ints(32)],
        {("out-of-bounds", 3)},
        {},
    ),
    (
        "no __syncwarp",
        "__global__ void k(float* o) {\n __shared__ float s[32]; int t = threadIdx.x;\n s[t] = t;\n o[t] = s[31 - t];\n}",
        1,
        32,
        lambda: [floats(32)],
        {("race-in-warp", 4)},
        {},
    ),
    (
        "no barrier between warps",
        "__global__ void k(float* o) {\n __shared__ float s[64]; int t = threadIdx.x;\n s[t] = t;\n __syncwarp();\n"
        " o[t] = s[63 - t];\n}",
        1,
        64,
        lambda: [floats(64)],
        {("race-read-write", 5), ("race-read-write", 3), ("uninitialised-read", 5)},
        {},
    ),
    (
        "a write after others may still read",
        "__global__ void k(float* o) {\n __shared__ float s[64]; int t = threadIdx.x;\n s[t] = t;\n __syncthreads();\n"
        " float v = s[63 - t];\n s[t] = v;\n __syncthreads();\n o[t] = s[t];\n}",
        1,
        64,
        lambda: [floats(64)],
        {("race-read-write", 5), ("race-read-write", 6)},
        {},
    ),
    (
        "divergent barrier",
        "__global__ void k(float* o) {\n if (threadIdx.x < 40) {\n  o[threadIdx.x] = 1;\n  __syncthreads();\n } else {\n"
        "  o[threadIdx.x] = 2;\n  __syncthreads();\n }\n}",
        1,
        64,
        lambda: [floats(64)],
        {("divergent-barrier", 4)},
        {},
    ),
    (
        "a shuffle waits for lanes that wait at a barrier",
        "__global__ void k(int* f) {\n if (threadIdx.x < 16)\n  f[0] = __shfl_down_sync(0xffffffff, 1, 1);\n else\n"
        "  __syncthreads();\n}",
        1,
        32,
        lambda: [ints(1)],
        {("deadlock", 3)},
        {},
    ),
    (
        "shared memory nobody wrote",
        "__global__ void k(float* o) {\n __shared__ float s[64]; int t = threadIdx.x;\n if (t < 32) s[t] = 1;\n"
        " __syncthreads();\n o[t] = s[t];\n}",
        1,
        64,
        lambda: [floats(64)],
        {("uninitialised-read", 5)},
        {},
    ),
    (
        "an atomic on shared memory nobody cleared",
        "__global__ void k(int* o) {\n __shared__ int s[8]; int t = threadIdx.x;\n atomicAdd(&s[t % 8], 1);\n"
        " __syncthreads();\n if (t < 8) o[t] = s[t];\n}",
        1,
        64,
        lambda: [ints(8)],
        {("uninitialised-read", 3)},
        {},
    ),
    (
        "an output read before it is written",
        "__global__ void k(float* o) {\n int t = threadIdx.x;\n o[t] += 1;\n}",
        1,
        32,
        lambda: [floats(32)],
        {("uninitialised-read", 3)},
        {"uninitialised": [0]},
    ),
    (
        "misaligned float4",
        "__global__ void k(float* o) {\n float4 v = *(float4*)(o + 1);\n o[0] = v.x;\n}",
        1,
        1,
        lambda: [floats(8)],
        {("misaligned", 2)},
        {},
    ),
    (
        "a lane that is not in its own mask",
        "__global__ void k(int* o) {\n int t = threadIdx.x;\n if (t < 8)\n  o[t] = __shfl_sync(0xf, t, 0);\n}",
        1,
        32,
        lambda: [ints(32)],
        {("bad-warp-mask", 4), ("inactive-shuffle-source", 4)},
        {},
    ),
    (
        "a shuffle from a lane that takes no part",
        "__global__ void k(int* o) {\n int t = threadIdx.x;\n if (t < 8)\n  o[t] = __shfl_sync(0xff, t, 9);\n}",
        1,
        32,
        lambda: [ints(32)],
        {("inactive-shuffle-source", 4)},
        {},
    ),
    (
        "two lanes store to one address at once",
        "__global__ void k(int* o) {\n o[threadIdx.x / 2] = threadIdx.x;\n}",
        1,
        32,
        lambda: [ints(32)],
        {("race-same-instruction", 2)},
        {},
    ),
    (
        "blocks store to one address",
        "__global__ void k(int* o) {\n if (threadIdx.x == 0) o[0] = blockIdx.x;\n}",
        4,
        32,
        lambda: [ints(32)],
        {("race-write-write", 2)},
        {},
    ),
    (
        "a histogram without atomics",
        "__global__ void k(const int* a, int* h) {\n h[a[threadIdx.x] & 3] += 1;\n}",
        1,
        64,
        lambda: [np.arange(64, dtype=np.int32), ints(4)],
        {("race-in-warp", 2), ("race-same-instruction", 2), ("race-read-write", 2), ("race-write-write", 2)},
        {},
    ),
    (
        "a plain store before the block's own atomic",
        "__global__ void k(int* o) {\n if (threadIdx.x == 0) o[0] = 5;\n if (threadIdx.x == 0)\n  atomicAdd(o, 1);\n}",
        2,
        32,
        lambda: [ints(1)],
        {("race-write-write", 2)},
        {},
    ),
    (
        "halves of one word, then the whole word, without a barrier",
        "__global__ void k(short* o, int* p) {\n __shared__ short s[64]; int t = threadIdx.x;\n s[t] = t;\n __syncwarp();\n"
        " if (t == 0)\n  p[0] = *(int*)&s[62];\n}",
        1,
        64,
        lambda: [np.zeros(64, np.int16), ints(1)],
        {("race-read-write", 3), ("uninitialised-read", 6)},
        {},
    ),
    (
        "the last block without a fence",
        "__device__ unsigned count;\n__global__ void k(const float* a, float* part, float* out) {\n __shared__ bool last;\n"
        " if (threadIdx.x == 0) {\n  part[blockIdx.x] = a[blockIdx.x];\n"
        "  last = atomicAdd(&count, 1u) == gridDim.x - 1;\n }\n __syncthreads();\n if (last && threadIdx.x == 0) {\n"
        "  float s = 0;\n  for (int j = 0; j < gridDim.x; j++)\n   s += part[j];\n  *out = s;\n }\n}",
        8,
        32,
        lambda: [floats(8), floats(8), floats(1)],
        {("race-read-write", 12)},
        {},
    ),
    (
        "the fence before the store",
        "__device__ unsigned count;\n__global__ void k(const float* a, float* part, float* out) {\n __shared__ bool last;\n"
        " if (threadIdx.x == 0) {\n  __threadfence();\n  part[blockIdx.x] = a[blockIdx.x];\n"
        "  last = atomicAdd(&count, 1u) == gridDim.x - 1;\n }\n __syncthreads();\n if (last && threadIdx.x == 0) {\n"
        "  float s = 0;\n  for (int j = 0; j < gridDim.x; j++)\n   s += part[j];\n  *out = s;\n }\n}",
        8,
        32,
        lambda: [floats(8), floats(8), floats(1)],
        {("race-read-write", 13)},
        {},
    ),
    (
        "too many steps",
        "__global__ void k(volatile int* o) {\n while (o[0] == 0)\n  ;\n}",
        1,
        32,
        lambda: [ints(1)],
        {("step-limit", 2)},
        {"steps": 100000},
    ),
    (
        "a constant is written",
        "__constant__ int c[4];\n__device__ const int table[4] = {1, 2, 3, 4};\n__global__ void k(int* o) {\n"
        " int* p = (int*)table;\n p[threadIdx.x] = o[0];\n}",
        1,
        4,
        lambda: [ints(4)],
        {("read-only-write", 5)},
        {},
    ),
    (
        "memset past the end",
        "__global__ void k(char* o, int n) {\n memset(o, 0, n);\n}",
        1,
        1,
        lambda: [np.zeros(16, np.int8), C.c_int(17)],
        {("out-of-bounds", 2)},
        {},
    ),
    (
        "memcpy past the end",
        "__global__ void k(char* o, const char* a, int n) {\n memcpy(o, a, n);\n}",
        1,
        1,
        lambda: [np.zeros(32, np.int8), np.zeros(16, np.int8), C.c_int(20)],
        {("out-of-bounds", 2)},
        {},
    ),
]

# Correct kernels that a coarser checker would complain about. Same shape; the expected contents by argument number.
CLEAN: list[tuple[str, str, Any, Any, Any, dict[int, Any], dict[str, Any]]] = [
    (
        "with __syncwarp",
        "__global__ void k(float* o) { __shared__ float s[32]; int t = threadIdx.x; s[t] = t; __syncwarp(); o[t] = s[31 - t]; }",
        1,
        32,
        lambda: [floats(32)],
        {0: np.arange(32, dtype=np.float32)[::-1]},
        {},
    ),
    (
        "double buffer with one barrier a step",
        "__global__ void k(const float* a, float* o, int n) {\n __shared__ float s[2][64]; int t = threadIdx.x, c = 0;\n"
        " s[0][t] = a[t]; __syncthreads(); float v = 0;\n for (int k = 1; k < n; k++) {\n"
        "  s[c ^ 1][t] = a[k * 64 + t]; v += s[c][63 - t]; __syncthreads(); c ^= 1;\n }\n o[t] = v;\n}",
        1,
        64,
        lambda: [floats(640), floats(64), C.c_int(10)],
        {1: np.arange(576, dtype=np.float32).reshape(9, 64).sum(0)[::-1]},
        {},
    ),
    (
        "lanes with different trip counts",
        "__global__ void k(const int* a, int* o) { int t = threadIdx.x, n = a[t], s = 0;\n"
        " for (int j = 0; j < n; j++) s += a[j]; o[t] = s; }",
        1,
        32,
        lambda: [(np.arange(32) % 8).astype(np.int32), ints(32)],
        {1: np.array([sum(range(n)) for n in np.arange(32) % 8], np.int32)},
        {},
    ),
    (
        "the last block sums up",
        "__device__ unsigned count;\n__global__ void k(const float* a, float* part, float* out) {\n __shared__ bool last;\n"
        " if (threadIdx.x == 0) {\n  part[blockIdx.x] = a[blockIdx.x];\n  __threadfence();\n"
        "  last = atomicAdd(&count, 1u) == gridDim.x - 1;\n }\n __syncthreads();\n"
        " if (last && threadIdx.x == 0) {\n  float s = 0;\n"
        "  for (int j = 0; j < gridDim.x; j++) s += part[j];\n  *out = s; count = 0;\n }\n}",
        8,
        32,
        lambda: [floats(8), floats(8), floats(1)],
        {2: np.array([28], np.float32)},
        {},
    ),
    (
        "the last block, every thread fences, all threads of it sum up",
        "__device__ unsigned count;\n__global__ void k(const float* a, float* part, float* out) {\n __shared__ bool last;\n"
        " int i = blockIdx.x * blockDim.x + threadIdx.x;\n part[i] = a[i];\n __threadfence();\n __syncthreads();\n"
        " if (threadIdx.x == 0) last = atomicAdd(&count, 1u) == gridDim.x - 1;\n __syncthreads();\n if (last) {\n"
        "  float s = 0;\n  for (int j = threadIdx.x; j < gridDim.x * blockDim.x; j += blockDim.x) s += part[j];\n"
        "  out[threadIdx.x] = s;\n }\n}",
        4,
        64,
        lambda: [floats(256), floats(256), floats(64)],
        {2: np.arange(256, dtype=np.float32).reshape(4, 64).sum(0)},
        {},
    ),
    (
        "halves of one word by two threads",
        "__global__ void k(short* o) { __shared__ short s[64]; int t = threadIdx.x; s[t] = t; __syncthreads(); o[t] = s[63 - t]; }",
        1,
        64,
        lambda: [np.zeros(64, np.int16)],
        {0: np.arange(64, dtype=np.int16)[::-1]},
        {},
    ),
    (
        "three bytes copied as a struct",
        "__global__ void k(const uchar3* a, uchar3* o) { int t = threadIdx.x; o[t] = a[t]; }",
        1,
        32,
        lambda: [np.arange(96, dtype=np.uint8), np.zeros(96, np.uint8)],
        {1: np.arange(96, dtype=np.uint8)},
        {},
    ),
    (
        "a full mask after some lanes have exited",
        "__global__ void k(int* o) { int t = threadIdx.x; if (t >= 20) return; o[t] = __any_sync(0xffffffff, t == 19); }",
        1,
        32,
        lambda: [ints(32)],
        {0: np.array([1] * 20 + [0] * 12, np.int32)},
        {},
    ),
    (
        "a barrier that the compiler may duplicate",
        "__global__ void k(const float* a, float* o, int n) {\n __shared__ float s[64]; int t = threadIdx.x; float v = 0;\n"
        " if (n > 5) v = a[t]; else v = 2 * a[t];\n s[t] = v; __syncthreads();\n"
        " if (n > 5) o[t] = s[63 - t]; else o[t] = s[t];\n}",
        1,
        64,
        lambda: [floats(64), floats(64), C.c_int(7)],
        {1: np.arange(64, dtype=np.float32)[::-1]},
        {},
    ),
    (
        "early exit before a barrier",
        "__global__ void k(float* o, int n) { int t = threadIdx.x; if (t >= n) return; o[t] = t; __syncthreads(); o[t] += 1; }",
        1,
        64,
        lambda: [floats(64), C.c_int(40)],
        {0: np.array([i + 1 if i < 40 else i for i in range(64)], np.float32)},
        {},
    ),
    (
        "a lock inside one warp",
        "__device__ int lock;\n__global__ void k(int* o) {\n bool done = false;\n while (!done) {\n"
        "  if (atomicCAS(&lock, 0, 1) == 0) {\n   *(volatile int*)o = *(volatile int*)o + 1;\n   __threadfence();\n"
        "   atomicExch(&lock, 0);\n   done = true;\n  }\n }\n}",
        2,
        32,
        lambda: [ints(1)],
        {0: np.array([64], np.int32)},
        {},
    ),
    (
        "a block waits for a later one",
        "__global__ void k(volatile int* flag, int* data, int* o) {\n if (threadIdx.x) return;\n"
        " if (blockIdx.x == 0) { while (flag[0] == 0); __threadfence(); o[0] = data[0]; }\n"
        " else { data[0] = 7; __threadfence(); flag[0] = 1; }\n}",
        2,
        32,
        lambda: [ints(1), ints(1), ints(1)],
        {2: np.array([7], np.int32)},
        {},
    ),
]


@pytest.mark.parametrize(("name", "source", "grid", "block", "arguments", "faults", "options"), FAULTS, ids=name_of)
def test_fault_is_found_at_its_line(
    name: str, source: str, grid: Any, block: Any, arguments: Any, faults: set[tuple[str, int | None]], options: Any
) -> None:
    result = BuiltKernel(source, "k").launch(grid, block, *arguments(), **options)
    assert {(f.what, f.line) for f in result.faults} == faults


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("lockstep", [0, 1])
@pytest.mark.parametrize(("name", "source", "grid", "block", "arguments", "expected", "options"), CLEAN, ids=name_of)
def test_correct_kernel_has_no_fault(
    name: str,
    source: str,
    grid: Any,
    block: Any,
    arguments: Any,
    expected: Any,
    options: Any,
    lockstep: int,
    schedule: int,
) -> None:
    values = arguments()
    result = BuiltKernel(source, "k").launch(
        grid, block, *values, lockstep=lockstep, schedule=schedule, steps=10_000_000, **options
    )
    assert result.faults == ()
    assert result.status == "done"
    for number, contents in expected.items():
        np.testing.assert_array_equal(values[number], contents)
