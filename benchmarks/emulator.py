"""What the emulator costs: building, starting, launching, and accesses per second.

    PYTHONPATH=. python benchmarks/emulator.py [--write]

Prints the tables; ``--write`` puts them into benchmarks/results/emulator.md. Times are medians by the clock, the
rates are per second of the worker's CPU time.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Built, Contents, RunOptions, RunResult
from optiml_core.records import Argument, BufferArgument, BufferContent, Failure, Launch, ScalarArgument, Variant
from optiml_core.source import element_type_of
from optiml_core.workload import make_contents

RESULTS = Path(__file__).parent / "results" / "emulator.md"

ADD = """
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i] + NONCE;
}"""
TRANSPOSE = """
__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x] + NONCE;
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}"""
MATMUL = """
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = NONCE;
  for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}"""
FORTY = (
    "\n__global__ void forty(const float* a, float* b) {\n  int i = threadIdx.x;\n"
    + "".join(f"  b[i + {k}] = a[i * {k + 2}] * {k}.5f + NONCE;\n" for k in range(20))
    + "}"
)
TILE = """
__global__ void tile8(const float* a, const float* b, float* c, int n) {
  __shared__ float as[8][128], bs[8][128];
  float sum[8][8] = {}, ra[8], rb[8];
  int t = threadIdx.x, tx = t % 16, ty = t / 16;
  for (int k0 = 0; k0 < n; k0 += 8) {
    for (int j = 0; j < 4; j++) {
      int e = t + 256 * j;
      as[e % 8][e / 8] = a[(blockIdx.y * 128 + e / 8) * n + k0 + e % 8] + NONCE;
      bs[e / 128][e % 128] = b[(k0 + e / 128) * n + blockIdx.x * 128 + e % 128];
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      #pragma unroll
      for (int i = 0; i < 8; i++) { ra[i] = as[k][ty * 8 + i]; rb[i] = bs[k][tx * 8 + i]; }
      #pragma unroll
      for (int i = 0; i < 8; i++)
        #pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += ra[i] * rb[j];
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 8; i++)
    #pragma unroll
    for (int j = 0; j < 8; j++) c[(blockIdx.y * 128 + ty * 8 + i) * n + blockIdx.x * 128 + tx * 8 + j] = sum[i][j];
}"""
SOFTMAX = """
__global__ void softmax(const float* in, float* out, int cols) {
  const float* x = in + (long long)blockIdx.x * cols;
  float* y = out + (long long)blockIdx.x * cols;
  float top = -INFINITY, sum = NONCE;
  for (int i = threadIdx.x; i < cols; i += 32) top = fmaxf(top, x[i]);
  for (int s = 16; s; s >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, s));
  for (int i = threadIdx.x; i < cols; i += 32) sum += __expf(x[i] - top);
  for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  for (int i = threadIdx.x; i < cols; i += 32) y[i] = __expf(x[i] - top) / sum;
}"""


@frozen
class Case:
    name: str
    text: str
    kernel: str
    launch: Launch


def buffer(name: str, length: int, kind: str = "normal") -> BufferArgument:
    element = element_type_of("float")
    assert element is not None
    return BufferArgument(name, element, length, BufferContent(kind))


def whole(name: str, value: int) -> ScalarArgument:
    element = element_type_of("int")
    assert element is not None
    return ScalarArgument(name, element, value)


def case(
    name: str, text: str, kernel: str, grid: tuple[int, int], block: tuple[int, int], *arguments: Argument
) -> Case:
    return Case(name, text, kernel, Launch((*grid, 1), (*block, 1), 0, arguments))


def square(n: int, count: int) -> list[BufferArgument]:
    return [*(buffer("ab"[i], n * n) for i in range(count)), buffer("c", n * n, "poison")]


CASES = [
    case("vector add, 1 Mi", ADD, "add", (4096, 1), (256, 1), *square(1024, 2), whole("n", 1 << 20)),
    case("tiled transpose, 1024", TRANSPOSE, "transpose", (32, 32), (32, 8), *square(1024, 1), whole("n", 1024)),
    case("naive matmul, 256", MATMUL, "matmul", (16, 16), (16, 16), *square(256, 2), whole("n", 256)),
    case("8 x 8 register tile, 256", TILE, "tile8", (2, 2), (256, 1), *square(256, 2), whole("n", 256)),
]
MODES = {
    "everything": RunOptions(checks=True, counts=True, seconds=120, steps=1 << 40),
    "checks": RunOptions(checks=True, counts=False, seconds=120, steps=1 << 40),
    "counts and reuse": RunOptions(checks=False, counts=True, seconds=120, steps=1 << 40),
    "bounds only": RunOptions(checks=False, counts=False, seconds=120, steps=1 << 40),
}


def build(device: EmulatorDevice, text: str, kernel: str, nonce: int = 0) -> Built:
    built = device.build(Variant("k.cu", text.replace("NONCE", f"{nonce}.0f").encode(), kernel))
    assert isinstance(built, Built), built
    return built


def median_of(action: Callable[[int], object], times: int) -> float:
    taken = []
    for i in range(times):
        start = time.perf_counter()
        action(i)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def build_table(device: EmulatorDevice) -> list[str]:
    """By the clock, and the compilers' CPU time, which other work on the machine does not stretch."""
    start = time.time_ns() % 1_000_000
    lines = ["| build, nothing cached | seconds | CPU seconds of compilers |", "|---|---|---|"]
    texts = {"vector add, 3 accesses": (ADD, "add"), "tiled transpose": (TRANSPOSE, "transpose")}
    texts |= {"40 accesses": (FORTY, "forty"), "8 x 8 register tile": (TILE, "tile8")}
    for name, (text, kernel) in texts.items():
        clock, cpu = [], []
        for i in range(7):
            before, used = time.perf_counter(), cpu_of_children()
            build(device, text, kernel, start + i)
            clock.append(time.perf_counter() - before)
            cpu.append(cpu_of_children() - used)
        lines.append(f"| {name} | {statistics.median(clock):.3f} | {statistics.median(cpu):.3f} |")
    again = median_of(lambda _: build(device, ADD, "add", start), 20)
    lines.append(f"| the same again, from memory | {again:.4f} | |")
    return lines


def overhead_table(device: EmulatorDevice) -> list[str]:
    launch = Launch(
        (4, 1, 1), (256, 1, 1), 0, (*(buffer(n, 1000) for n in "ab"), buffer("c", 1000, "poison"), whole("n", 1000))
    )
    arrays = make_contents(launch, 0)
    assert not isinstance(arrays, Failure)
    contents = Contents(arrays)
    built = build(device, ADD, "add")

    def first(_: int) -> None:
        device.forget(built)
        device.run(built, launch, contents)

    device.run(built, launch, contents)
    lines = ["| a launch of 1,000 threads | ms |", "|---|---|"]
    lines.append(f"| in a new worker | {1000 * median_of(first, 21):.2f} |")
    again = median_of(lambda _: device.run(built, launch, contents), 101)
    lines.append(f"| in a worker that has the object | {1000 * again:.2f} |")
    return lines


def rate_table(device: EmulatorDevice) -> list[str]:
    lines = [f"| million accesses a second | accesses | {' | '.join(MODES)} |", "|---" * (2 + len(MODES)) + "|"]
    for one in CASES:
        built = build(device, one.text, one.kernel)
        arrays = make_contents(one.launch, 0)
        assert not isinstance(arrays, Failure)
        rates, accesses = [], 0.0
        for options in MODES.values():
            best = 0.0
            for _ in range(3):
                result = device.run(built, one.launch, Contents(arrays), options)
                assert isinstance(result, RunResult), result
                assert not result.faults, result.faults
                accesses = result.metrics["accesses"]
                best = max(best, accesses / result.seconds)
            rates.append(f"{best / 1e6:.0f}")
        lines.append(f"| {one.name} | {accesses:,.0f} | {' | '.join(rates)} |")
    return lines


def sampling_table(device: EmulatorDevice) -> list[str]:
    rows, cols = 8192, 50257
    launch = Launch(
        (rows, 1, 1),
        (32, 1, 1),
        0,
        (buffer("in", rows * cols), buffer("out", rows * cols, "poison"), whole("cols", cols)),
    )
    built = build(device, SOFTMAX, "softmax")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [f"| softmax of {rows:,} rows of {cols:,} floats, sampled | seconds |", "|---|---|"]
    for blocks in ((4096,), (0, 1170, 2340, 3511, 4681, 5851, 7021, 8191)):
        options = RunOptions(blocks=blocks, seconds=60)
        seconds = median_of(lambda _, options=options: device.run_sampled(built, launch, options), 3)  # type: ignore[misc]
        lines.append(f"| {len(blocks)} rows | {seconds:.2f} |")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    lines.append(
        f"\nThe caller's memory grew by {max(0, grown):.0f} MiB; the buffers have {rows * cols * 8 >> 20:,} MiB."
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    with EmulatorDevice() as device:
        toolbox = device.toolbox()
        assert not isinstance(toolbox, Failure), toolbox
        load = os.getloadavg()[0]
        tables = [f(device) for f in (build_table, overhead_table, rate_table, sampling_table)]
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].split(":", 1)[1].strip() if names else platform.machine()
    head = [
        "# The emulator's costs",
        "",
        "Made by `PYTHONPATH=. python benchmarks/emulator.py --write`.",
        f"{cpu}, {os.cpu_count()} cores, one used; load average {load:.1f} at the start; g++ {toolbox.version}.",
    ]
    text = "\n\n".join("\n".join(lines) for lines in (head, *tables)) + "\n"
    print(text)
    if write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
