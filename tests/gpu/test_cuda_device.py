"""The CUDA device: runs what it should, contains what it must, times honestly."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.protocol import Contents, RunOptions, RunResult
from optiml_core.measurement import PairPlan, PreparedRun, measure_prepared_pairs
from optiml_core.records import Argument, BufferArgument, BufferContent, Failure, Launch, ScalarArgument, Variant
from optiml_core.source import SourceFile, element_type_of, parse

pytestmark = pytest.mark.gpu


def element(spelling: str) -> Any:
    found = element_type_of(spelling)
    assert found is not None
    return found


def buffer(name: str, array: Any, spelling: str = "float") -> BufferArgument:
    return BufferArgument(name, element(spelling), len(array), BufferContent("normal"))


def scalar(name: str, value: float, spelling: str = "int") -> ScalarArgument:
    return ScalarArgument(name, element(spelling), value)


def build(gpu: CudaDevice, source: str) -> Any:
    unit = parse(SourceFile("k.cu", source.encode()))
    built = gpu.build(Variant("k.cu", source.encode(), unit.kernels[0].qualified))
    assert not isinstance(built, Failure), built
    return built


def run(
    gpu: CudaDevice,
    source: str,
    arguments: tuple[Argument, ...],
    arrays: dict[str, Any],
    *,
    grid: int = 2,
    block: int = 64,
    shared: int = 0,
    contents: Contents | None = None,
    options: RunOptions | None = None,
    globals_: tuple[Argument, ...] = (),
) -> RunResult | Failure:
    launch = Launch((grid, 1, 1), (block, 1, 1), shared, arguments, globals=globals_)
    return gpu.run(build(gpu, source), launch, contents or Contents(arrays), options)


SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""


def saxpy(gpu: CudaDevice, **more: Any) -> RunResult:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    arguments = (scalar("n", 100), scalar("a", 2.0, "float"), buffer("x", x), buffer("y", y))
    result = run(gpu, SAXPY, arguments, {"x": x, "y": y}, **more)
    assert isinstance(result, RunResult), result
    np.testing.assert_array_equal(result.buffers["y"], 2 * x + 1)
    np.testing.assert_array_equal(result.buffers["x"], x)
    assert result.guards_intact
    return result


def test_runs_and_leaves_guards_alone(gpu: CudaDevice) -> None:
    assert 0 < saxpy(gpu).seconds < 1


def test_shifted_addresses(gpu: CudaDevice) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    saxpy(gpu, contents=Contents({"x": x, "y": y}, offset_elements=1))


def test_in_equals_out(gpu: CudaDevice) -> None:
    x = np.arange(100, dtype=np.float32)
    arguments = (scalar("n", 100), scalar("a", 2.0, "float"), buffer("x", x), buffer("y", x))
    contents = Contents({"x": x, "y": x}, aliases={"y": "x"})
    result = run(gpu, SAXPY, arguments, {}, contents=contents)
    assert isinstance(result, RunResult)
    np.testing.assert_array_equal(result.buffers["x"], 3 * x)


def test_dynamic_shared_memory_beyond_the_default(gpu: CudaDevice) -> None:
    source = """
    __global__ void k(float* y, int n) {
      extern __shared__ float part[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = i;
      __syncthreads();
      if (threadIdx.x == 0) y[blockIdx.x] = part[n - 1];
    }"""
    n = 20000
    y = np.zeros(2, np.float32)
    result = run(gpu, source, (buffer("y", y), scalar("n", n)), {"y": y}, shared=4 * n)
    assert isinstance(result, RunResult), result
    np.testing.assert_array_equal(result.buffers["y"], [n - 1, n - 1])


def test_constants_and_globals(gpu: CudaDevice) -> None:
    source = """
    __constant__ float weights[4];
    __device__ int seen;
    __global__ void k(float* y) { y[threadIdx.x] = weights[threadIdx.x % 4]; if (threadIdx.x == 0) seen += 1; }
    """
    y = np.zeros(64, np.float32)
    weights, seen = np.arange(4, dtype=np.float32), np.asarray([5], np.int32)
    globals_ = (buffer("weights", weights), buffer("seen", seen, "int"))
    arrays = {"y": y, "weights": weights, "seen": seen}
    result = run(gpu, source, (buffer("y", y),), arrays, grid=1, globals_=globals_)
    assert isinstance(result, RunResult), result
    np.testing.assert_array_equal(result.buffers["y"], np.tile(weights, 16))
    assert result.buffers["seen"][0] == 6


def test_a_store_into_the_guard_zone_shows(gpu: CudaDevice) -> None:
    source = "__global__ void k(float* y, int n) { y[n] = 1.0f; }"
    y = np.zeros(64, np.float32)
    result = run(gpu, source, (buffer("y", y), scalar("n", 64)), {"y": y}, grid=1, block=1)
    assert isinstance(result, RunResult)
    assert not result.guards_intact


HOSTILE = {
    "an endless loop": "__global__ void k(volatile float* y) { while (true) y[0] += 1.0f; }",
    "a trap": '__global__ void k(float* y) { asm("trap;"); }',
    "a wild store": "__global__ void k(float* y) { *(float*)(8 + (size_t)threadIdx.x * 4) = 1.0f; }",
    "an assertion": "#include <cassert>\n__global__ void k(float* y) { assert(y == nullptr); }",
    "endless recursion": "__device__ int f(int n) { return n ? f(n + 1) + f(n + 2) : 1; }\n"
    "__global__ void k(float* y) { y[0] = f(1 + int(y[0])); }",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_contains_hostile_kernels_and_is_back_within_five_seconds(gpu: CudaDevice, name: str) -> None:
    y = np.ones(64, np.float32)
    result = run(gpu, HOSTILE[name], (buffer("y", y),), {"y": y}, options=RunOptions(seconds=1.0))
    if isinstance(result, RunResult):
        assert [fault.kind for fault in result.faults] == ["sticky-error"], name
    else:
        assert result.kind in ("timeout", "crash", "launch-error"), result
    began = time.monotonic()
    saxpy(gpu)
    assert time.monotonic() - began < 5


def test_a_launch_that_is_too_large_is_a_value(gpu: CudaDevice) -> None:
    y = np.zeros(64, np.float32)
    result = run(gpu, "__global__ void k(float* y) {}", (buffer("y", y),), {"y": y}, block=2000)
    assert isinstance(result, Failure)
    assert result.kind == "launch-error"
    saxpy(gpu)


STREAM = """
__global__ void copy(const float* __restrict__ x, float* __restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * 2.0f;
}"""
IN_PLACE = """
__global__ void grow(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 1.5f + 1.0f;
}"""


def prepared(gpu: CudaDevice, source: str, n: int) -> PreparedRun:
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    arrays = {"x": x, "y": np.zeros(n, np.float32)} if "y" in source.split("{")[0] else {"x": x}
    arguments = (*(buffer(name, array) for name, array in arrays.items()), scalar("n", n))
    launch = Launch((-(-n // 256), 1, 1), (256, 1, 1), 0, arguments)
    return PreparedRun(build(gpu, source), launch, Contents(arrays))


@pytest.mark.parametrize(("source", "n"), [(STREAM, 1 << 24), (IN_PLACE, 1 << 22), (STREAM, 1 << 12)])
@pytest.mark.parametrize("flush", [False, True])
def test_an_original_against_itself_is_one(gpu: CudaDevice, source: str, n: int, flush: bool) -> None:
    side = prepared(gpu, source, n)
    inside = 0
    for seed in range(5):
        found = measure_prepared_pairs(side, side, gpu, "GPU", PairPlan(seed=seed, flush=flush, seconds=5.0))
        assert not isinstance(found, Failure), found
        inside += found.low <= 1.0 <= found.high
    assert inside >= 4


def test_time_of_a_copy_is_plausible(gpu: CudaDevice) -> None:
    side = prepared(gpu, STREAM, 1 << 26)
    seconds = gpu.time_launches(side.built, side.launch, side.contents, 20, False)
    assert isinstance(seconds, float), seconds
    bandwidth = 2 * 4 * (1 << 26) / seconds
    assert 1e11 < bandwidth < 1e13
