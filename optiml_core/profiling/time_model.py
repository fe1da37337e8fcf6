"""Predicted time: the largest of the times that each resource of a GPU needs for a launch's work.

A roofline with more than two roofs (Williams et al., "Roofline", 2009; per-level bandwidths as in Ilic
et al., 2014) and a latency roof from Little's law: blocks run in rounds of as many as fit, and a
round lasts at least as long as one of its warps. It ranks variants; it promises nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen

from optiml_core.records import Profile, Roofline
from optiml_core.toolchain import GpuFacts

# What a long copy reaches of the data sheet's bandwidth: 4.3 of 4.8 TB/s on an H200.
DRAM_EFFICIENCY = 0.9
# What L2 delivers of its slices' width when all multiprocessors read: 5.5 of 10.1 TB/s.
L2_EFFICIENCY = 0.55
# A stored sector, and a stored line however few of its sectors, against a sector that is read.
L2_WRITE_SECTOR_COST = 1.55
L2_WRITE_LINE_COST = 2.9
# An L2 slice is 64 bytes a cycle wide, takes an atomic every 1.5 cycles, and neighbours of 512 bytes share one.
L2_SLICE_BYTES_PER_CYCLE = 64.0
ATOMIC_CYCLES = 1.5
ATOMIC_INTERLEAVE_BYTES = 512.0
# Blocks that the whole chip starts a cycle.
BLOCKS_PER_CYCLE = 0.81
# Lines a cycle whose page is not in the translation buffers. From one measurement on an H200: a softmax with a warp for
# each row of 200 kB, which takes 9.6 ms where a block a row takes 3.4 (benchmarks/results/ladders.md, rewrites.md).
UNTRANSLATED_LINES_PER_CYCLE = 2.6
# Resources overlap, but not perfectly: two that need the same time need about 1.2 times it together.
OVERLAP_NORM = 4.0
# How much later the last of twice as many warps is.
WARP_SPREAD = 0.05
# Placing a block on a multiprocessor, loading its constants and parameters, and clearing it away.
BLOCK_START_CYCLES = 350.0


@frozen
class Prediction:
    """``time`` in seconds for the profile's target; ``per_resource`` seconds that each needs by itself.

    ``bound_by`` of the roofline is the resource that needs the most.
    """

    time: float
    roofline: Roofline
    per_resource: Mapping[str, float]


def resource_times(metrics: Mapping[str, float], gpu: GpuFacts) -> dict[str, float]:
    """Seconds by resource, from a profile's metrics. A resource whose metrics are absent is left out."""
    blocks = metrics.get("blocks", 0.0)
    spread = imbalance(blocks, gpu.multiprocessors)
    chip = gpu.multiprocessors * gpu.clock
    times: dict[str, float] = {}

    def per_multiprocessor(name: str, cycles: float) -> None:
        if cycles > 0:
            times[name] = spread * cycles / chip

    per_multiprocessor("issue", metrics.get("warp_instructions", 0.0) / gpu.issue_per_cycle)
    for name, unit, lanes in (
        ("fp32", "fp32", gpu.fp32_lanes),
        ("fp64", "fp64", gpu.fp64_lanes),
        ("integer", "integer", gpu.int32_lanes),
        ("special", "special", gpu.special_lanes),
        ("conversion", "conversion", gpu.special_lanes),
        ("fp16", "fp16", gpu.fp16_lanes / 2),
        ("shuffle", "shuffle", 32),
    ):
        per_multiprocessor(name, metrics.get(f"{unit}_warp_instructions", 0.0) * 32 / lanes)
    if flops := metrics.get("tensor_flops", 0.0):
        rate = max(gpu.tensor_rates.values(), default=0.0) / 2  # half precision inputs, the common case
        if rate:
            times["tensor"] = spread * flops / rate
    per_multiprocessor("l1", metrics.get("l1_cycles", 0.0) + metrics.get("local_memory_lines", 0.0))
    per_multiprocessor("shared", metrics.get("shared_cycles", 0.0))
    if "l1" in times and "shared" in times:
        # One data path serves both.
        times["l1"] += times["shared"]
    stored = max(
        L2_WRITE_SECTOR_COST * metrics.get("l2_write_bytes", 0.0),
        L2_WRITE_LINE_COST * 32.0 * metrics.get("l2_write_lines", 0.0),
    )
    if l2 := metrics.get("l2_read_bytes", 0.0) + stored:
        times["l2"] = l2 / (L2_EFFICIENCY * gpu.l2_bandwidth)
    if dram := metrics.get("dram_bytes", 0.0):
        times["dram"] = dram / (DRAM_EFFICIENCY * gpu.dram_bandwidth)
    if atomics := metrics.get("atomic_sectors", 0.0):
        slices = gpu.l2_bandwidth / gpu.clock / L2_SLICE_BYTES_PER_CYCLE
        reached = min(slices, max(1.0, metrics.get("atomic_bytes", 0.0) / ATOMIC_INTERLEAVE_BYTES))
        times["atomic"] = atomics * ATOMIC_CYCLES / reached / gpu.clock
    if lines := metrics.get("untranslated_lines", 0.0):
        times["translation"] = lines / (UNTRANSLATED_LINES_PER_CYCLE * gpu.clock)
    if blocks:
        times["block-start"] = blocks / (BLOCKS_PER_CYCLE * gpu.clock)
    if cycles := metrics.get("warp_cycles", 0.0):
        resident = max(1.0, metrics.get("resident_blocks", 1.0)) * gpu.multiprocessors
        warps_per_block = metrics.get("warps", blocks) / max(1.0, blocks)
        # A block's place becomes free when the last of its warps has got its data.
        spread = 1.0 + WARP_SPREAD * math.log2(max(1.0, warps_per_block))
        in_rounds = rounds(blocks, resident) * (metrics.get("block_cycles", cycles) * spread + BLOCK_START_CYCLES)
        longest = metrics.get("longest_warp_cycles", cycles) + BLOCK_START_CYCLES
        times["latency"] = max(in_rounds, longest) / gpu.clock
    return times


def imbalance(blocks: float, multiprocessors: int) -> float:
    """How much more the busiest multiprocessor has to do than the average one (at least 1)."""
    if blocks <= 0:
        return 1.0
    return math.ceil(blocks / multiprocessors) * multiprocessors / blocks


def rounds(blocks: float, resident: float) -> float:
    """Rounds of resident blocks. Few rounds end together; after many, blocks start as others finish."""
    exact = blocks / resident
    return float(math.ceil(exact)) if exact <= 4 else exact + 0.5


def combine(times: Mapping[str, float]) -> float:
    """One time from the times of all resources: their maximum, rounded at the corners."""
    largest = max(times.values(), default=0.0)
    if largest <= 0:
        return 0.0
    total = math.fsum((value / largest) ** OVERLAP_NORM for value in times.values())
    return float(largest * total ** (1 / OVERLAP_NORM))


def roofline(profile: Profile, gpu: GpuFacts, time: float | None = None) -> Roofline:
    """How close the launch comes to the floor that its compulsory work sets.

    ``time`` (seconds) replaces the profile's own. The floor counts each byte that the launch has to touch once, at the
    bandwidth of the level that can hold it; work that a better kernel could avoid does not enter it.
    """
    metrics = profile.metrics
    times = resource_times(metrics, gpu)
    bound_by = max(times, key=lambda name: times[name], default="latency")
    floor = compulsory_time(metrics, gpu)
    taken = profile.time if time is None else time
    ceiling = max([floor, *(times[name] for name in ("dram", "fp32", "fp64", "tensor") if name in times)])
    fraction = min(1.0, ceiling / taken) if taken else 0.0
    return Roofline(fraction, bound_by, floor)


def compulsory_time(metrics: Mapping[str, float], gpu: GpuFacts) -> float:
    """Seconds in which the launch's distinct bytes can be moved at best: all through L2, what L2 cannot hold
    through DRAM at the data sheet's rate."""
    touched = metrics.get("compulsory_bytes", 0.0)
    beyond = max(0.0, touched - gpu.l2_bytes)
    return max(touched / gpu.l2_bandwidth, beyond / gpu.dram_bandwidth)


def predict_from_metrics(profile: Profile, gpu: GpuFacts) -> Prediction:
    """The model on a profile's metrics; see ``measurement.predict`` for the public function."""
    times = resource_times(profile.metrics, gpu)
    time = combine(times) + gpu.launch_overhead
    return Prediction(time, roofline(profile, gpu, time), times)
