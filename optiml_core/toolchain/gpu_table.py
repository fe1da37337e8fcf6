"""The table behind ``gpu_facts``: one entry per GPU model, with where each number is from.

Sources, by short name:
- CCn: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability" (limits) and
  table "Throughput of Native Arithmetic Instructions" (results per clock and multiprocessor).
- OCC: cuda_occupancy.h of the CUDA 13.0 runtime (allocation granularities, reserved shared memory).
- The documents named at each GPU: NVIDIA's architecture whitepapers and data sheets.
- H200 lab: measured by us on one NVIDIA H200, benchmarks/results/toolchain.md.

NVIDIA publishes no L2 bandwidth but for A100 (5,120 bytes a clock, "NVIDIA A100 Tensor Core GPU Architecture",
table of L2 caches) and no latencies: where ``estimated`` names a field, its number is ours.

V100 (7.0) is left out: CUDA 13 no longer compiles for it (CUDA 13.0 release notes, "dropped architectures").
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from optiml_core.toolchain.gpu_record import GpuFacts

_KIB, _MIB, _GB = 1 << 10, 1 << 20, 10**9
_NEVER_PUBLISHED = frozenset({"l2_bandwidth", "l2_latency", "dram_latency", "launch_overhead"})


def _model(
    limits: GpuFacts,
    name: str,
    *,
    multiprocessors: int,
    clock_mhz: float,
    memory_gb: int,
    dram_gb_per_s: float,
    l2_mib: int,
    l2_bytes_per_cycle: float,
    tensor_tera: Mapping[str, float],
    estimated: frozenset[str] = _NEVER_PUBLISHED,
    latency_cycles: tuple[float, float],
) -> GpuFacts:
    clock = clock_mhz * 1e6
    return evolve(
        limits,
        name=name,
        multiprocessors=multiprocessors,
        clock=clock,
        memory_bytes=memory_gb * _GB,
        dram_bandwidth=dram_gb_per_s * 1e9,
        l2_bytes=l2_mib * _MIB,
        l2_bandwidth=l2_bytes_per_cycle * clock,
        tensor_rates={kind: rate * 1e12 for kind, rate in tensor_tera.items()},
        l2_latency=latency_cycles[0] / clock,
        dram_latency=latency_cycles[1] / clock,
        estimated=estimated,
    )


# Limits: CC; reserved shared memory: OCC. Lanes: CC; fp16 lanes of 8.6, 8.9 and 12.0 follow from the non-tensor FP16
# rates of the GA102, Ada and RTX Blackwell whitepapers (equal to FP32). int32 of 12.0: the RTX Blackwell whitepaper
# ("INT32 ... doubled"). L1 width of 7.5: 64 bytes a clock (Turing whitepaper, SM section).
_CC75 = GpuFacts(
    name="",
    architecture="sm_75",
    multiprocessors=0,
    clock=0.0,
    memory_bytes=0,
    dram_bandwidth=0.0,
    l2_bytes=0,
    l2_bandwidth=0.0,
    tensor_rates={},
    fp32_lanes=64,
    fp64_lanes=2,
    fp16_lanes=128,
    int32_lanes=64,
    special_lanes=16,
    threads_per_multiprocessor=1024,
    blocks_per_multiprocessor=16,
    shared_per_multiprocessor=65536,
    shared_per_block_opt_in=65536,
    reserved_shared_per_block=0,
    l1_bytes=96 * _KIB,
    l1_bytes_per_cycle=64,
)
_CC80 = evolve(
    _CC75,
    architecture="sm_80",
    fp64_lanes=32,
    fp16_lanes=256,
    threads_per_multiprocessor=2048,
    blocks_per_multiprocessor=32,
    shared_per_multiprocessor=167936,
    shared_per_block_opt_in=166912,
    reserved_shared_per_block=1024,
    l1_bytes=192 * _KIB,
    l1_bytes_per_cycle=128,
)
_CC86 = evolve(
    _CC80,
    architecture="sm_86",
    fp32_lanes=128,
    fp64_lanes=2,
    fp16_lanes=128,
    threads_per_multiprocessor=1536,
    blocks_per_multiprocessor=16,
    shared_per_multiprocessor=102400,
    shared_per_block_opt_in=101376,
    l1_bytes=128 * _KIB,
)
_CC89 = evolve(_CC86, architecture="sm_89", blocks_per_multiprocessor=24)
_CC90 = evolve(
    _CC80,
    architecture="sm_90",
    fp32_lanes=128,
    fp64_lanes=64,
    shared_per_multiprocessor=233472,
    shared_per_block_opt_in=232448,
    l1_bytes=256 * _KIB,
)
_CC100 = evolve(_CC90, architecture="sm_100")
_CC120 = evolve(_CC89, architecture="sm_120", int32_lanes=128)

# Latencies in cycles, L2 hit and DRAM: A100 261.5 and 466.3, RTX 4090 273.0 and 541.5, H100 263.0 and 478.8 from W. Luo
# et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (IPDPS 2024); T4 188
# and 616 from Z. Jia et al., "Dissecting the NVidia Turing T4 GPU via Microbenchmarking" (2019). The rest of a
# generation takes the same cycles. H200 lab, random lines over 8 MiB and 2 GiB, the far half of L2 and address
# translation included: 350 and 654.
# L2 bytes a clock are the width of its slices, which no kernel reaches: where not published, scaled from A100's by the
# number of slices (an estimate); T4 from the 1,270 GB/s that Jia et al. measured. H200 lab: 7.9 to 8.8 TB/s read from
# 16 to 48 MiB, 0.78 to 0.87 of the width. DRAM, H200 lab: 4.5 TB/s read, 4.0 copied, of 4.8.
MODELS: tuple[GpuFacts, ...] = (
    # NVIDIA T4 data sheet (320 GB/s, 8.1 TFLOP/s, FP16 tensor 65, INT8 130, 16 GB); Turing whitepaper, appendix on
    # Tesla T4 (40 SMs, 1590 MHz boost, 4 MiB L2).
    _model(
        _CC75,
        "NVIDIA T4",
        multiprocessors=40,
        clock_mhz=1590,
        memory_gb=16,
        dram_gb_per_s=320,
        l2_mib=4,
        l2_bytes_per_cycle=800,
        tensor_tera={"float16": 65, "int8": 130},
        latency_cycles=(188, 616),
    ),
    # A100 data sheet, SXM 80 GB (2,039 GB/s; FP64 9.7, FP64 tensor 19.5, FP32 19.5, TF32 156, BF16 and FP16 312, INT8
    # 624); A100 whitepaper (108 SMs, 1410 MHz boost, 40 MiB L2, 5,120 bytes a clock).
    _model(
        _CC80,
        "NVIDIA A100",
        multiprocessors=108,
        clock_mhz=1410,
        memory_gb=80,
        dram_gb_per_s=2039,
        l2_mib=40,
        l2_bytes_per_cycle=5120,
        tensor_tera={"float64": 19.5, "tf32": 156, "bfloat16": 312, "float16": 312, "int8": 624},
        estimated=_NEVER_PUBLISHED - {"l2_bandwidth"},
        latency_cycles=(261.5, 466.3),
    ),
    # Ampere GA102 whitepaper, appendix A, GeForce RTX 3090 (82 SMs, 1695 MHz, 936 GB/s, 6 MiB L2, FP32 35.6, TF32 35.6
    # dense, FP16 with FP32 accumulate 71, INT8 284).
    _model(
        _CC86,
        "NVIDIA GeForce RTX 3090",
        multiprocessors=82,
        clock_mhz=1695,
        memory_gb=24,
        dram_gb_per_s=936.2,
        l2_mib=6,
        l2_bytes_per_cycle=1536,
        tensor_tera={"tf32": 35.6, "bfloat16": 71.2, "float16": 71.2, "int8": 284},
        latency_cycles=(273.0, 541.5),
    ),
    # L4 data sheet (300 GB/s, FP32 30.3; with sparsity TF32 120, FP16 242, FP8 and INT8 485: half of that dense); Ada
    # whitepaper (58 SMs, 2040 MHz boost, 48 MiB L2).
    _model(
        _CC89,
        "NVIDIA L4",
        multiprocessors=58,
        clock_mhz=2040,
        memory_gb=24,
        dram_gb_per_s=300,
        l2_mib=48,
        l2_bytes_per_cycle=1536,
        tensor_tera={"tf32": 60, "bfloat16": 121, "float16": 121, "float8": 242, "int8": 242},
        latency_cycles=(273.0, 541.5),
    ),
    # L40S data sheet (864 GB/s, FP32 91.6, dense TF32 183, FP16 362, FP8 and INT8 733, 48 GB); Ada whitepaper, L40
    # (142 SMs, 96 MiB L2). 2520 MHz gives the data sheet's FP32 rate.
    _model(
        _CC89,
        "NVIDIA L40S",
        multiprocessors=142,
        clock_mhz=2520,
        memory_gb=48,
        dram_gb_per_s=864,
        l2_mib=96,
        l2_bytes_per_cycle=3072,
        tensor_tera={"tf32": 183, "bfloat16": 362, "float16": 362, "float8": 733, "int8": 733},
        latency_cycles=(273.0, 541.5),
    ),
    # Ada whitepaper, appendix A, GeForce RTX 4090 (128 SMs, 2520 MHz, 1,008 GB/s, 72 MiB L2, FP32 82.6, TF32 82.6,
    # FP16 with FP32 accumulate 165.2, FP8 with FP32 accumulate 330.3, INT8 660.6).
    _model(
        _CC89,
        "NVIDIA GeForce RTX 4090",
        multiprocessors=128,
        clock_mhz=2520,
        memory_gb=24,
        dram_gb_per_s=1008,
        l2_mib=72,
        l2_bytes_per_cycle=2304,
        tensor_tera={"tf32": 82.6, "bfloat16": 165.2, "float16": 165.2, "float8": 330.3, "int8": 660.6},
        latency_cycles=(273.0, 541.5),
    ),
    # H100 data sheet, SXM (3.35 TB/s, FP64 34, FP64 tensor 67, FP32 67; with sparsity TF32 989, FP16 1,979, FP8 and
    # INT8 3,958: half of that dense); H100 whitepaper (132 SMs, 50 MiB L2). 1980 MHz gives the data sheet's FP32 rate.
    _model(
        _CC90,
        "NVIDIA H100",
        multiprocessors=132,
        clock_mhz=1980,
        memory_gb=80,
        dram_gb_per_s=3350,
        l2_mib=50,
        l2_bytes_per_cycle=5120,
        tensor_tera={"float64": 67, "tf32": 494, "bfloat16": 989, "float16": 989, "float8": 1979, "int8": 1979},
        latency_cycles=(263.0, 478.8),
    ),
    # H200 data sheet, SXM (141 GB, 4.8 TB/s, rates as H100 SXM). SMs, clock and L2 as the driver reports (H200 lab).
    _model(
        _CC90,
        "NVIDIA H200",
        multiprocessors=132,
        clock_mhz=1980,
        memory_gb=141,
        dram_gb_per_s=4800,
        l2_mib=60,
        l2_bytes_per_cycle=5120,
        tensor_tera={"float64": 67, "tf32": 494, "bfloat16": 989, "float16": 989, "float8": 1979, "int8": 1979},
        latency_cycles=(263.0, 478.8),
    ),
    # Blackwell data sheet, HGX B200, a GPU (8 TB/s, 180 GB, FP64 37, FP32 75, FP64 tensor 37; with sparsity TF32 2,250,
    # FP16 4,500, FP8 9,000: half of that dense). SMs (148), clock and L2 as drivers report them, not from a data sheet.
    _model(
        _CC100,
        "NVIDIA B200",
        multiprocessors=148,
        clock_mhz=1965,
        memory_gb=180,
        dram_gb_per_s=8000,
        l2_mib=126,
        l2_bytes_per_cycle=10240,
        tensor_tera={"float64": 37, "tf32": 1125, "bfloat16": 2250, "float16": 2250, "float8": 4500, "int8": 4500},
        estimated=_NEVER_PUBLISHED | {"multiprocessors", "clock", "l2_bytes"},
        latency_cycles=(263.0, 478.8),
    ),
    # RTX Blackwell whitepaper, appendix A, GeForce RTX 5090 (170 SMs, 2407 MHz, 1,792 GB/s, 96 MiB L2, FP32 104.8, TF32
    # 104.8, FP16 with FP32 accumulate 209.5, FP8 with FP32 accumulate 419, INT8 838).
    _model(
        _CC120,
        "NVIDIA GeForce RTX 5090",
        multiprocessors=170,
        clock_mhz=2407,
        memory_gb=32,
        dram_gb_per_s=1792,
        l2_mib=96,
        l2_bytes_per_cycle=4096,
        tensor_tera={"tf32": 104.8, "bfloat16": 209.5, "float16": 209.5, "float8": 419, "int8": 838},
        latency_cycles=(273.0, 541.5),
    ),
)
