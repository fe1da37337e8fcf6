import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from optiml_core.records import Failure
from optiml_core.toolchain import discover, gpu_facts, known_gpus, occupancy
from optiml_core.toolchain.gpu_record import GpuFacts

# Our own driver of NVIDIA's header-only formula; the header comes from the CUDA runtime that is installed.
ORACLE = r"""
#include <climits>
#include <cstring>
#include "cuda_occupancy.h"
extern "C" int blocks(const int* device, int threads, int registers, int shared_static, int shared_dynamic,
                      int barriers) {
  cudaOccDeviceProp properties;
  std::memset(&properties, 0, sizeof properties);
  properties.computeMajor = device[0]; properties.computeMinor = device[1];
  properties.maxThreadsPerBlock = device[2]; properties.maxThreadsPerMultiprocessor = device[3];
  properties.regsPerBlock = device[4]; properties.regsPerMultiprocessor = device[5];
  properties.warpSize = 32; properties.sharedMemPerBlock = device[6];
  properties.sharedMemPerMultiprocessor = device[7]; properties.numSms = device[8];
  properties.sharedMemPerBlockOptin = device[9]; properties.reservedSharedMemPerBlock = device[10];
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX; attributes.numRegs = registers;
  attributes.sharedSizeBytes = shared_static; attributes.numBlockBarriers = barriers;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; attributes.maxDynamicSharedSizeBytes = shared_dynamic;
  cudaOccDeviceState state;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, threads, shared_dynamic) != 0)
    return -1;
  return result.activeBlocksPerMultiprocessor;
}
"""


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    include = discover().tool("cuda_headers")
    if include.path is None or not (Path(include.path) / "cuda_occupancy.h").exists():
        pytest.skip("needs cuda_occupancy.h of the CUDA runtime (extra `cuda`)")
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "oracle.cpp").write_text(ORACLE)
    library = folder / "oracle.so"
    command = [
        compiler,
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{include.path}",
        str(folder / "oracle.cpp"),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.cuda_toolchain
@pytest.mark.parametrize("gpu", known_gpus(), ids=lambda gpu: gpu.name)
def test_the_formula_is_nvidias(oracle: ctypes.CDLL, gpu: GpuFacts) -> None:
    device = (ctypes.c_int * 11)(
        *gpu.compute_capability,
        gpu.threads_per_block,
        gpu.threads_per_multiprocessor,
        gpu.registers_per_block,
        gpu.registers_per_multiprocessor,
        gpu.shared_per_block,
        gpu.shared_per_multiprocessor,
        gpu.multiprocessors,
        gpu.shared_per_block_opt_in,
        gpu.reserved_shared_per_block,
    )
    generator = random.Random(gpu.name)
    seen = set()
    for _ in range(3000):
        threads = generator.choice((generator.randint(1, 1100), 32 * generator.randint(1, 32)))
        registers = generator.randint(0, 256)
        static = generator.choice((0, generator.randint(0, 49152)))
        dynamic = generator.choice((0, generator.randint(0, gpu.shared_per_block_opt_in + 3000 - static)))
        barriers = generator.choice((0, 1, 1, 2, 16))
        expected = oracle.blocks(device, threads, registers, static, dynamic, barriers)
        assert expected >= 0
        found = occupancy(gpu, threads, registers, static + dynamic, barriers=barriers)
        assert found.blocks == expected, (threads, registers, static, dynamic, barriers, found)
        assert found.fraction == pytest.approx(found.warps / gpu.warps_per_multiprocessor)
        assert all(found.block_limits[name] == found.blocks for name in found.limited_by)
        seen.update(found.limited_by)
    assert seen >= {"warps", "registers", "shared", "blocks"} | (
        {"barriers"} if gpu.compute_capability[0] >= 9 else set()
    )


@pytest.mark.parametrize(
    ("gpu", "threads", "registers", "shared", "blocks", "fraction", "limited_by"),
    [
        ("H100", 256, 32, 0, 8, 1.0, ("warps", "registers")),
        ("H100", 256, 128, 0, 2, 0.25, ("registers",)),
        ("H100", 256, 32, 100_000, 2, 0.25, ("shared",)),
        ("H100", 32, 16, 0, 32, 0.5, ("blocks",)),
        ("T4", 1024, 64, 0, 1, 1.0, ("warps", "registers")),
        ("H100", 1024, 128, 0, 0, 0.0, ("registers",)),
        ("A100", 256, 32, 166_913, 0, 0.0, ("shared",)),
        ("RTX 4090", 512, 40, 0, 3, 1.0, ("warps", "registers")),
        ("H100", 1025, 32, 0, 0, 0.0, ("warps",)),
    ],
)
def test_known_launches(
    gpu: str, threads: int, registers: int, shared: int, blocks: int, fraction: float, limited_by: tuple[str, ...]
) -> None:
    facts = gpu_facts(gpu)
    assert not isinstance(facts, Failure)
    found = occupancy(facts, threads, registers, shared)
    assert (found.blocks, found.fraction, found.limited_by) == (blocks, fraction, limited_by)
