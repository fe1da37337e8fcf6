"""Measures what NVIDIA does not publish of a GPU: L2 bandwidth, latencies, launch overhead; and checks what it does.

    python3 benchmarks/measure_gpu.py

Needs only Python, the driver, and nvcc on PATH or in CUDA_HOME (a GPU machine has nothing else of ours).
Best of several runs, each long enough that the launch does not matter. Nothing else may use the GPU.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

KERNELS = r"""
extern "C" __global__ void read_all(const float4* x, float4* out, unsigned long long count, int repeats) {
  float4 sum = make_float4(0, 0, 0, 0);
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (int r = 0; r < repeats; r++)
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * step) {
      float4 v[4];
#pragma unroll
      for (int u = 0; u < 4; u++) {
        unsigned long long at = i + u * step;
        v[u] = at < count ? __ldcg(x + at) : make_float4(0, 0, 0, 0);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) { sum.x += v[u].x; sum.y += v[u].y; sum.z += v[u].z; sum.w += v[u].w; }
    }
  if (sum.x + sum.y + sum.z + sum.w == 12345.678f) out[threadIdx.x] = sum;
}
extern "C" __global__ void copy_all(const float4* x, float4* out, unsigned long long count, int repeats) {
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  for (int r = 0; r < repeats; r++)
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = x[i];
}
extern "C" __global__ void read_shared(const float4* x, float4* out, unsigned long long count, int repeats) {
  __shared__ float4 tile[1024];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float4 sum = make_float4(0, 0, 0, 0);
  for (int r = 0; r < repeats; r++) {
#pragma unroll
    for (int u = 0; u < 16; u++) {
      float4 v = tile[(threadIdx.x + 32 * u + r) & 1023];
      sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == 12345.678f) out[threadIdx.x] = sum;
}
extern "C" __global__ void multiply_add(const float4* x, float4* out, unsigned long long count, int repeats) {
  float a[8];
#pragma unroll
  for (int u = 0; u < 8; u++) a[u] = threadIdx.x + u;
  float b = count * 1e-9f;
  for (int r = 0; r < repeats; r++) {
#pragma unroll
    for (int u = 0; u < 32; u++) a[u % 8] = a[u % 8] * b + 1.0f;
  }
  float sum = 0;
#pragma unroll
  for (int u = 0; u < 8; u++) sum += a[u];
  if (sum == 12345.678f) out[threadIdx.x].x = sum;
}
extern "C" __global__ void fill_chain(unsigned* x, float4* out, unsigned long long count, int stride) {
  unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  unsigned lines = count / 32;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += step)
    x[32 * i] = 32 * ((i + stride) % lines);
}
extern "C" __global__ void chase(const unsigned* x, unsigned long long* out, unsigned long long count, int repeats) {
  unsigned at = 0;
  for (int r = 0; r < 2; r++) {
    long long began = clock64();
    for (int i = 0; i < repeats; i++) at = __ldcg(x + at);
    out[r] = clock64() - began;
  }
  out[2] = at;
}
extern "C" __global__ void nothing(const float4* x, float4* out, unsigned long long count, int repeats) {}
"""
NAMES = ("read_all", "copy_all", "read_shared", "multiply_add", "fill_chain", "chase", "nothing")


def compiled(architecture: str) -> bytes:
    nvcc = shutil.which("nvcc") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "k.cu"), pathlib.Path(folder, "k.cubin")
        source.write_text(KERNELS)
        subprocess.run([nvcc, "-cubin", f"-arch={architecture}", "-o", str(cubin), str(source)], check=True)
        return cubin.read_bytes()


class Gpu:
    """The least of the CUDA driver's interface that the measurements need."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        self.functions = {}
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), compiled(f"sm_{self.attribute(75)}{self.attribute(76)}"))
        for name in NAMES:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self.functions[name] = function
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: {result}")

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def allocate(self, size: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", pointer, 0, ctypes.c_size_t(size))
        return pointer

    def launch(
        self, name: str, blocks: int, threads: int, x: ctypes.c_void_p, out: ctypes.c_void_p, count: int, repeats: int
    ) -> None:
        arguments = [x, out, ctypes.c_ulonglong(count), ctypes.c_int(repeats)]
        pointers = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments])
        self.call("cuLaunchKernel", self.functions[name], blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def seconds(self, name: str, *arguments: object, runs: int = 12, launches: int = 1) -> float:
        best = float("inf")
        for _ in range(runs):
            self.call("cuEventRecord", self.events[0], None)
            for _ in range(launches):
                self.launch(name, *arguments)  # type: ignore[arg-type]
            self.call("cuEventRecord", self.events[1], None)
            self.call("cuEventSynchronize", self.events[1])
            elapsed = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
            best = min(best, elapsed.value / 1e3 / launches)
        return best

    def queued_seconds(self, name: str, *arguments: object, launches: int = 200) -> float:
        """Time of one of many launches that wait behind a long one, so that only the GPU's own pace counts."""
        best = float("inf")
        out = arguments[3]
        for _ in range(5):
            self.launch("read_shared", 132, 1024, arguments[2], out, 0, 400_000)  # type: ignore[arg-type]
            self.call("cuEventRecord", self.events[0], None)
            for _ in range(launches):
                self.launch(name, *arguments)  # type: ignore[arg-type]
            self.call("cuEventRecord", self.events[1], None)
            self.call("cuEventSynchronize", self.events[1])
            elapsed = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
            best = min(best, elapsed.value / 1e3 / launches)
        return best


def main() -> None:
    gpu = Gpu()
    name = ctypes.create_string_buffer(128)
    gpu.call("cuDeviceGetName", name, 128, gpu.device)
    total = ctypes.c_size_t()
    gpu.call("cuDeviceTotalMem_v2", ctypes.byref(total), gpu.device)
    processors, clock = gpu.attribute(16), gpu.attribute(13) * 1e3
    result: dict[str, object] = {
        "name": name.value.decode(),
        "multiprocessors": processors,
        "clock_hz": clock,
        "memory_bytes": total.value,
        "l2_bytes": gpu.attribute(38),
        "threads_per_multiprocessor": gpu.attribute(39),
        "shared_per_multiprocessor": gpu.attribute(81),
        "shared_per_block_opt_in": gpu.attribute(97),
        "reserved_shared_per_block": gpu.attribute(111),
        "registers_per_multiprocessor": gpu.attribute(82),
        "blocks_per_multiprocessor": gpu.attribute(106),
        "dram_bandwidth_by_clock": 2.0 * gpu.attribute(36) * 1e3 * gpu.attribute(37) / 8,
    }
    large, out = gpu.allocate(4 << 30), gpu.allocate(4 << 30)
    size = 4 << 30
    blocks = processors * 2
    result["dram_read"] = size / gpu.seconds("read_all", blocks, 1024, large, out, size // 16, 1)
    result["dram_copy_both_ways"] = 2 * size / gpu.seconds("copy_all", processors * 16, 512, large, out, size // 16, 1)
    for mib in (2, 4, 8, 16, 24, 32, 40, 48, 64):
        part = mib << 20
        taken = gpu.seconds("read_all", blocks, 1024, large, out, part // 16, 200)
        result[f"l2_read_{mib}_mib"] = 200 * part / taken
    taken = gpu.seconds("read_shared", processors * 2, 1024, large, out, 0, 4000)
    result["shared_read"] = processors * 2 * 1024 * 4000 * 16 * 16 / taken
    taken = gpu.seconds("multiply_add", processors * 2, 1024, large, out, 1, 20000)
    result["fp32_rate"] = processors * 2 * 1024 * 20000 * 32 * 2 / taken
    for name, blocks_of_it in (("one_block", 1), ("a_full_wave", processors * 2)):
        result[f"empty_kernel_{name}_seconds"] = gpu.queued_seconds("nothing", blocks_of_it, 1024, large, out, 0, 0)
    host = (ctypes.c_ulonglong * 3)()
    for label, part, stride in (("l2", 8 << 20, 8191), ("dram", 2 << 30, 4194301)):
        gpu.launch("fill_chain", processors * 4, 256, large, out, part // 4, stride)
        gpu.call("cuCtxSynchronize")
        steps = 50_000
        gpu.launch("chase", 1, 1, large, out, 0, steps)
        gpu.call("cuMemcpyDtoH_v2", host, out, ctypes.c_size_t(24))
        result[f"{label}_latency_cycles"] = host[1] / steps
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
