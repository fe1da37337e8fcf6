"""Measures the toolchain: variants compiled a second, slices a second, what headers cost, tools, the store.

    python benchmarks/toolchain.py [--seconds 5] [--rates] > table.md

Needs the extra `cuda`. The kernels are ours; each variant differs in a constant, so that nothing is compiled twice.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse
from optiml_core.store import Store
from optiml_core.toolchain import CompiledKernel, CompilePool, CompileRequest, compile_request, discover, sass_by_line

SAXPY = """
__global__ void k(float* x, const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = VALUE.0f * y[i] + x[i];
}
"""
TRANSPOSE = """
__global__ void k(float* out, const float* in, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x] + VALUE;
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""
MATMUL = """
__global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][128], bs[16][128];
  float sum[8][8] = {};
  int t = threadIdx.x, row = blockIdx.y * 128, col = blockIdx.x * 128, r = t / 16 * 8, s = t % 16 * 8;
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = t; i < 2048; i += 256) as[i % 16][i / 16] = a[(row + i / 16) * n + k0 + i % 16];
    for (int i = t; i < 2048; i += 256) bs[i / 128][i % 128] = b[(k0 + i / 128) * n + col + i % 128] + VALUE;
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; kk++)
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += as[kk][r + i] * bs[kk][s + j];
    __syncthreads();
  }
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) c[(row + r + i) * n + col + s + j] = sum[i][j];
}
"""
GROUPS = """#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
__global__ void k(half* x) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  x[threadIdx.x] = __float2half(tile.shfl_xor(float(threadIdx.x), 1) + VALUE);
}
"""
KERNELS = {"saxpy": SAXPY, "tiled transpose": TRANSPOSE, "matrix product, 8 x 8 in registers": MATMUL}


def requests_for(text: str, count: int, start: int) -> list[CompileRequest]:
    made = []
    for number in range(start, start + count):
        unit = parse(SourceFile("file.cu", text.replace("VALUE", str(number)).encode()))
        request = compile_request(unit, unit.kernels[0], "sm_90")
        assert not isinstance(request, Failure), request
        made.append(request)
    return made


def variants_a_second(text: str, workers: int, seconds: float) -> tuple[float, float]:
    """From the text of a variant to machine code, parsing and slicing included; and processor seconds for each."""
    with CompilePool(discover(), workers) as pool:
        pool.compile_many(requests_for(text, 2 * workers, 0))
        done, began, before = 0, time.monotonic(), sum(os.times()[:2])
        children = 0.0
        while time.monotonic() - began < seconds:
            results = pool.compile_many(requests_for(text, 4 * workers, 1000 + done))
            assert all(isinstance(result, CompiledKernel) for result in results), results
            done += len(results)
        rate, own = done / (time.monotonic() - began), sum(os.times()[:2]) - before
        children = sum(os.times()[2:4])
    # The server and all its children count as ours once the pool has waited for it.
    return rate, (own + sum(os.times()[2:4]) - children) / done


def row(name: str, value: float) -> None:
    print(f"| {name} | {value:.{0 if value > 20 else 2}f} |", flush=True)


def milliseconds(action: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        began = time.monotonic()
        action()
        times.append(time.monotonic() - began)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rates", action="store_true", help="only the variants compiled a second")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    toolchain = discover()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, ", end="")
    print(f"NVRTC {toolchain.tool('nvrtc').version}, nvcc {toolchain.tool('nvcc').version}; ", end="")
    print(f"load {os.getloadavg()[0]:.1f} when this began\n")
    print(
        "| variants a second, text to machine code | 1 worker | 2 workers | processor ms each |\n|---|---:|---:|---:|"
    )
    for name, text in KERNELS.items():
        (one, _), (two, each) = variants_a_second(text, 1, seconds), variants_a_second(text, 2, seconds)
        print(f"| {name} | {one:.1f} | {two:.1f} | {1000 * each:.0f} |", flush=True)
    if arguments.rates:
        return
    print("\n| one thing | ms (median of 5) |\n|---|---:|")
    row("discover()", milliseconds(discover))
    unit = parse(SourceFile("file.cu", MATMUL.replace("VALUE", "1").encode()))
    row(
        "compile_request (device slice), 27 lines",
        milliseconds(lambda: compile_request(unit, unit.kernels[0], "sm_90")),
    )
    with CompilePool(toolchain, 2) as pool:
        waiting = iter(requests_for(GROUPS, 8, 0))
        compile_next = lambda: pool.compile(next(waiting))  # noqa: E731
        row("fp16 + cooperative_groups: first variant, with the start of the server", milliseconds(compile_next, 1))
        row("the second, which precompiles the headers", milliseconds(compile_next, 1))
        row("every later one", milliseconds(compile_next))
        row("nvcc, saxpy", milliseconds(lambda: pool.compile_with_nvcc(requests_for(SAXPY, 1, 3)[0]), 3))
        (request,) = requests_for(MATMUL, 1, 7)
        row("nvcc, matrix product", milliseconds(lambda: pool.compile_with_nvcc(request), 3))
        compiled = pool.compile(request)
        assert isinstance(compiled, CompiledKernel)
        row("sass_by_line, matrix product", milliseconds(lambda: sass_by_line(compiled.cubin, toolchain), 3))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder, "s.sqlite"), secret_path=Path(folder, "key")) as store,
    ):
        numbers = iter(range(10**6))
        write = lambda: store.put("compiled", str(next(numbers)), {"registers": 8}, bytes(8192))  # noqa: E731
        row("store: one write of 8 KiB", milliseconds(write, 200))
        row("store: one read of 8 KiB", milliseconds(lambda: store.get_entry("compiled", "0"), 200))


if __name__ == "__main__":
    main()
