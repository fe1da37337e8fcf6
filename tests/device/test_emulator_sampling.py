"""Sampled runs: real sizes without real memory, counts that equal those of a full run."""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pytest
from attrs import evolve

from optiml_core.device.emulator import EmulatorDevice, worker_reserved
from optiml_core.device.protocol import Built, Contents, RunOptions, RunResult
from optiml_core.records import (
    Argument,
    BufferArgument,
    BufferContent,
    ElementType,
    Failure,
    Launch,
    ScalarArgument,
    Variant,
)
from optiml_core.source import element_type_of
from optiml_core.workload import make_contents

SOFTMAX = """
__global__ void softmax(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  const float* x = in + (long long)row * cols;
  float* y = out + (long long)row * cols;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, x[i]);
  for (int s = 16; s; s >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, s));
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += __expf(x[i] - top);
  for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = __expf(x[i] - top) / sum;
}
"""
GATHER = """
__global__ void gather(const float* x, const int* where, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[where[i]];
}
"""


def element(spelling: str) -> ElementType:
    found = element_type_of(spelling)
    assert found is not None
    return found


def softmax_launch(rows: int, cols: int) -> Launch:
    real, whole = element("float"), element("int")
    arguments: tuple[Argument, ...] = (
        BufferArgument("in", real, rows * cols, BufferContent("normal")),
        BufferArgument("out", real, rows * cols, BufferContent("poison")),
        ScalarArgument("rows", whole, rows),
        ScalarArgument("cols", whole, cols),
    )
    return Launch((rows, 1, 1), (32, 1, 1), 0, arguments)


def gather_launch(n: int, kind: str) -> Launch:
    arguments: tuple[Argument, ...] = (
        BufferArgument("x", element("float"), n, BufferContent("normal")),
        BufferArgument("where", element("int"), n, BufferContent(kind, (n,))),
        BufferArgument("y", element("float"), n, BufferContent("poison")),
        ScalarArgument("n", element("int"), n),
    )
    return Launch((-(-n // 256), 1, 1), (256, 1, 1), 0, arguments)


def built(device: EmulatorDevice, text: str, kernel: str) -> Built:
    result = device.build(Variant("kernel.cu", text.encode(), kernel))
    assert isinstance(result, Built), result
    return result


def sampled(device: EmulatorDevice, build: Built, launch: Launch, **options: object) -> RunResult:
    result = device.run_sampled(build, launch, RunOptions(**options))  # type: ignore[arg-type]
    assert isinstance(result, RunResult), result
    return result


@pytest.mark.parametrize(
    ("text", "kernel", "launch"),
    [
        (SOFTMAX, "softmax", softmax_launch(3, 1001)),
        (GATHER, "gather", gather_launch(5000, "index")),
        (GATHER, "gather", gather_launch(4096, "permutation")),
    ],
)
def test_a_sample_of_everything_is_the_full_run(device: EmulatorDevice, text: str, kernel: str, launch: Launch) -> None:
    build = built(device, text, kernel)
    arrays = make_contents(launch, 0)
    assert not isinstance(arrays, Failure)
    whole = device.run(build, launch, Contents(arrays), RunOptions(checks=False, counts=True))
    assert isinstance(whole, RunResult), whole
    result = sampled(device, build, launch)
    assert result.accesses == whole.accesses
    assert result.faults == ()
    assert result.metrics["blocks_completed"] == result.metrics["blocks_total"] == launch.grid[0]
    assert result.metrics["stopped"] == 0


def test_a_large_launch_costs_neither_memory_nor_much_time(device: EmulatorDevice) -> None:
    """1.6 GB in, 1.6 GB out, four rows of them run."""
    build = built(device, SOFTMAX, "softmax")
    launch = softmax_launch(8192, 50257)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    result = sampled(device, build, launch, blocks=(0, 4000, 8191))
    assert time.monotonic() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert result.faults == ()
    stores = [a for a in result.accesses if a.kind == "store" and a.buffer == "out"]
    assert sum(a.bytes for a in stores) == 3 * 50257 * 4
    assert result.metrics["blocks_total"] == 8192
    assert result.metrics["blocks_completed"] == 3


def test_the_cap_on_accesses_stops_cleanly(device: EmulatorDevice) -> None:
    build = built(device, SOFTMAX, "softmax")
    launch = softmax_launch(64, 2000)
    whole = sampled(device, build, launch, blocks=(0,)).metrics["accesses"]
    result = sampled(device, build, launch, steps=int(2.5 * whole))
    assert result.metrics["stopped"] == 1
    assert result.metrics["blocks_completed"] == 2
    assert result.metrics["blocks_total"] == 64
    assert [fault.kind for fault in result.faults] == ["step-limit"]
    assert result.accesses


def test_bounds_hold_in_reserved_buffers(device: EmulatorDevice) -> None:
    build = built(device, GATHER, "gather")
    launch = gather_launch(1 << 20, "index")
    short = evolve(launch.arguments[2], length=(1 << 20) - 1)
    launch = evolve(launch, arguments=(*launch.arguments[:2], short, launch.arguments[3]))
    result = sampled(device, build, launch, blocks=(0, launch.grid[0] - 1))
    assert [(fault.kind, fault.buffer, fault.count) for fault in result.faults] == [("out-of-bounds", "y", 1)]


def test_contents_are_drawn_once_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__global__ void k(float* x, float* y) { y[0] = x[0]; x[0] = 12345.f; x[1] = y[0] == 12345.f ? 1 : 0; }"
    arguments = (
        BufferArgument("x", element("float"), 100, BufferContent("normal")),
        BufferArgument("y", element("float"), 1, BufferContent("poison")),
    )
    launch = Launch((1, 1, 1), (1, 1, 1), 0, arguments)
    drawn = []
    real = worker_reserved.buffer_contents
    monkeypatch.setattr(worker_reserved, "buffer_contents", lambda *a: drawn.append(a[0].name) or real(*a))
    with EmulatorDevice() as device:
        build = built(device, text, "k")
        for _ in range(3):
            assert sampled(device, build, launch).faults == ()
        assert drawn == ["x"]
        other = evolve(launch, arguments=(evolve(arguments[0], length=101), arguments[1]))
        assert sampled(device, build, other).faults == ()
        assert drawn == ["x", "x"]
        (kept, _) = device._reserved._known.values()
        values = np.frombuffer(os.pread(kept.tile, 400, int(kept.pieces["tile_offset"][0])), np.float32)
        assert values[0] != 12345, "the kernel wrote its own copy"


def test_too_much_to_generate_is_said(device: EmulatorDevice) -> None:
    build = built(device, GATHER, "gather")
    result = device.run_sampled(build, gather_launch(1 << 30, "permutation"))
    assert isinstance(result, Failure)
    assert result.kind == "out-of-memory"
    assert "where" in result.message
