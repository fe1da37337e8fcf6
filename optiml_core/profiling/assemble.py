"""Puts one Profile together from sampled counts, machine code, resource usage and GPU facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen

from optiml_core.profiling.machine_code.execution import block_executions
from optiml_core.profiling.machine_code.instructions import MachineCode
from optiml_core.profiling.time_model import predict_from_metrics
from optiml_core.profiling.traffic import (
    LINE,
    SECTOR,
    SiteTraffic,
    buffer_sharing,
    cache_shares,
    cache_traffic,
    first_touches,
    lines_of,
    scaled,
    written_back,
)
from optiml_core.profiling.warp_time import WarpTime, memory_by_line, warp_time
from optiml_core.profiling.without_code import estimated_units, estimated_warp_time
from optiml_core.records import AccessCounts, BufferArgument, Launch, Profile, ResourceUsage
from optiml_core.toolchain import GpuFacts, Occupancy, occupancy

UNITS = ("fp32", "fp64", "fp16", "integer", "special", "conversion", "shuffle", "tensor", "barrier")
# Without a compiler's answer: what small kernels use.
ASSUMED_REGISTERS = 32
# A 16 x 8 x 16 product of a warp, the most common HMMA shape.
TENSOR_FLOPS = 2 * 16 * 8 * 16
# A float atomic in shared memory is a compare-and-swap loop: a load, an add, a swap and a branch a turn.
SWAP_LOOP_COST = 8.0
# Memory whose pages the translation buffers hold: more than the 0.5 GB that measured kernels with rows of their own
# span without harm, less than the 3.3 GB at which one is slow. A guess between.
TRANSLATED_BYTES = 1.0e9


@frozen
class SampledCounts:
    """What a run of some blocks of a launch counted.

    ``accesses`` and ``metrics`` are sums over ``blocks_run`` blocks. ``warp_share`` is the part of each block's
    warps that ran: the counts were scaled to whole blocks, but distances of reuse are those of fewer warps.
    """

    accesses: tuple[AccessCounts, ...]
    metrics: Mapping[str, float]
    blocks_run: int
    warp_share: float = 1.0


@frozen
class ModelInputs:
    """Everything else that a prediction needs to know."""

    kernel: str
    gpu: GpuFacts
    launch: Launch
    resources: ResourceUsage | None = None
    code: MachineCode | None = None
    warm: bool = True
    loop_trips: Mapping[int, float] = field(factory=dict)
    origin: Literal["emulator", "static"] = "emulator"
    # Bytes of each buffer over which the blocks that run at the same time are spread; see live_span.py.
    spans: Mapping[str, float] = field(factory=dict)


def total_blocks(launch: Launch) -> int:
    return launch.grid[0] * launch.grid[1] * launch.grid[2]


def threads_per_block(launch: Launch) -> int:
    return launch.block[0] * launch.block[1] * launch.block[2]


def launch_occupancy(inputs: ModelInputs) -> Occupancy:
    resources, launch = inputs.resources, inputs.launch
    registers = resources.registers if resources is not None else ASSUMED_REGISTERS
    static = resources.shared if resources is not None else 0
    return occupancy(inputs.gpu, threads_per_block(launch), registers, static + launch.shared)


def assemble_profile(counts: SampledCounts, inputs: ModelInputs) -> Profile:
    """The profile with its predicted time; counts are scaled from the blocks that ran to the whole launch."""
    gpu, launch = inputs.gpu, inputs.launch
    blocks = total_blocks(launch)
    warps = blocks * math.ceil(threads_per_block(launch) / gpu.warp_size)
    factor = blocks / max(1, counts.blocks_run)
    accesses = tuple(scaled(access, factor) for access in counts.accesses)
    fit = launch_occupancy(inputs)
    static_shared = inputs.resources.shared if inputs.resources is not None else 0
    shares = cache_shares(gpu, blocks, max(1, fit.blocks), static_shared + launch.shared)
    # A part of a block's warps sees that part of the block's cache.
    shares = evolve(shares, l1_lines=shares.l1_lines * counts.warp_share, l2_lines=shares.l2_lines * counts.warp_share)
    sharing = buffer_sharing(counts.accesses, first_touches(accesses), buffer_sizes(launch), shares, counts.blocks_run)
    sites = cache_traffic(accesses, sharing, shares, gpu, inputs.warm, warps / blocks)
    metrics = launch_metrics(launch, fit, gpu, blocks, warps)
    metrics |= memory_metrics(sites, accesses, counts, inputs)
    for name in ("barriers", "divergent_branches", "divergent_steps", "warp_steps"):
        if name in counts.metrics:
            metrics[name] = counts.metrics[name] * factor
    skew = warp_skew(counts, warps / blocks)
    memory = memory_by_line(sites, accesses)
    if inputs.code is not None:
        executions = block_executions(inputs.code, accesses, warps, inputs.loop_trips)
        timing = warp_time(inputs.code, executions, warps, memory, gpu, skew)
        metrics |= code_metrics(inputs.code, executions)
    else:
        timing = estimated_warp_time(accesses, memory, warps, gpu, skew)
        metrics |= estimated_units(accesses)
    spilled = inputs.resources.spill_stores + inputs.resources.spill_loads if inputs.resources is not None else 0
    if spilled and "local_memory_lines" not in metrics:
        # Not in the code that was read, so each spill is taken to run once a thread.
        metrics["local_memory_lines"] = warps * spilled / 4
        metrics["warp_instructions"] += warps * spilled / 4
    metrics["warp_cycles"] = timing.cycles
    metrics["block_cycles"] = timing.block_cycles
    metrics["longest_warp_cycles"] = timing.launch_cycles
    profile = Profile(
        kernel=inputs.kernel,
        target=gpu.name,
        origin=inputs.origin,
        time=None,
        time_kind=None,
        metrics=metrics,
        line_metrics=line_metrics(sites, accesses, timing, warps),
        accesses=accesses,
        resources=inputs.resources,
    )
    prediction = predict_from_metrics(profile, gpu)
    return evolve(profile, time=prediction.time, time_kind="predicted")


def warp_skew(counts: SampledCounts, warps_per_block: float) -> tuple[float, float]:
    """How much longer the longest warp of a block, and of the launch, is than the average one (at least 1)."""
    ran = counts.blocks_run * warps_per_block
    average = counts.metrics.get("warp_steps", 0.0) / max(1.0, ran)
    if average <= 0 or "longest_in_block" not in counts.metrics:
        return 1.0, 1.0
    in_block = counts.metrics["longest_in_block"] / counts.blocks_run / average
    return max(1.0, in_block), max(1.0, in_block, counts.metrics["longest_warp"] / average)


def buffer_sizes(launch: Launch) -> dict[str, int]:
    """Bytes of each pointer argument and global of the launch."""
    return {
        argument.name: argument.length * argument.element.size
        for argument in (*launch.arguments, *launch.globals)
        if isinstance(argument, BufferArgument)
    }


def launch_metrics(launch: Launch, fit: Occupancy, gpu: GpuFacts, blocks: int, warps: float) -> dict[str, float]:
    """Occupancy: what fits at once, and what the grid then reaches of it."""
    on_one = min(float(fit.blocks), blocks / gpu.multiprocessors)
    warps_per_block = warps / blocks
    return {
        "blocks": float(blocks),
        "threads_per_block": float(threads_per_block(launch)),
        "warps": float(warps),
        "resident_blocks": float(fit.blocks),
        "theoretical_occupancy": fit.fraction,
        "achieved_occupancy": min(fit.fraction, on_one * warps_per_block / gpu.warps_per_multiprocessor),
        "busy_multiprocessors": float(min(blocks, gpu.multiprocessors)),
    }


def memory_metrics(
    sites: Sequence[SiteTraffic], accesses: Sequence[AccessCounts], counts: SampledCounts, inputs: ModelInputs
) -> dict[str, float]:
    """Bytes and cycles of each memory level, summed over the launch."""
    loads = [site for site in sites if site.counts.kind == "load"]
    stores = [site for site in sites if site.counts.kind != "load"]
    # What stays in L2 is written back after the kernel has ended, if ever.
    late = max(0.0, SECTOR * written_back(sites) - 0.5 * inputs.gpu.l2_bytes)
    read = SECTOR * sum(site.dram_sectors for site in loads)
    sizes = buffer_sizes(inputs.launch)
    touched = {name: SECTOR * cold for name, cold in first_touches(accesses).items()}
    result = {
        "l1_cycles": sum(site.lines for site in sites),
        "shared_cycles": float(sum(a.wavefronts * _swap_cost(a, inputs.code) for a in accesses if a.space == "shared")),
        "l2_read_bytes": SECTOR * sum(site.l2_sectors for site in loads),
        "l2_write_bytes": SECTOR * sum(site.l2_sectors for site in stores if site.counts.kind == "store"),
        "l2_write_lines": sum(site.lines for site in stores if site.counts.kind == "store"),
        "dram_read_bytes": read,
        "dram_write_bytes": late,
        "dram_bytes": read + late,
        "compulsory_bytes": sum(min(total, sizes.get(name, total)) for name, total in touched.items()),
        "global_requests": float(sum(site.counts.requests for site in sites)),
        "global_sectors": float(sum(site.counts.sectors for site in sites)),
        "global_ideal_sectors": float(sum(site.counts.ideal_sectors for site in sites)),
        "shared_wavefronts": float(sum(a.wavefronts for a in accesses if a.space == "shared")),
        "shared_ideal_wavefronts": float(sum(a.ideal_wavefronts for a in accesses if a.space == "shared")),
    }
    live = sum(inputs.spans.values())
    if live > TRANSLATED_BYTES:
        # Lines that leave L1 for a page that the translation buffers no longer hold.
        leaving = sum(site.l2_sectors * SECTOR / LINE for site in sites if site.counts.buffer in inputs.spans)
        result["live_bytes"] = live
        result["untranslated_lines"] = leaving * (1.0 - TRANSLATED_BYTES / live)
    if any(site.counts.kind == "atomic" for site in sites):
        atomics = [site.counts for site in sites if site.counts.kind == "atomic"]
        result["global_atomics"] = float(sum(access.lanes for access in atomics))
        result["atomic_sectors"] = float(sum(access.sectors for access in atomics))
        spread = {name: atomic_spread(name, accesses, counts, sizes) for name in {a.buffer for a in atomics}}
        result["atomic_bytes"] = SECTOR * sum(spread.values())
        lanes = {name: sum(a.lanes for a in atomics if a.buffer == name) for name in spread}
        result["hottest_address_atomics"] = max(lanes[name] / spread[name] for name in spread)
    return result


def _swap_cost(access: AccessCounts, code: MachineCode | None) -> float:
    """Wavefronts of a shared atomic that the compiler made a compare-and-swap loop cost several times as much."""
    if access.kind != "atomic" or code is None:
        return 1.0
    swaps = any(
        instruction.line == access.line and instruction.opcode.startswith("ATOMS.CAS")
        for instruction in code.instructions
    )
    return SWAP_LOOP_COST if swaps else 1.0


def atomic_spread(
    name: str, accesses: Sequence[AccessCounts], counts: SampledCounts, sizes: Mapping[str, int]
) -> float:
    """Distinct sectors of buffer ``name`` that the launch touches (at least 1).

    Whether blocks share sectors shows in the sample: those that no earlier block touched against the
    sum of what each block touched.
    """

    own = first_touches(counts.accesses).get(name, 0.0)
    known = [a.distinct_sectors for a in counts.accesses if a.buffer == name and a.distinct_sectors >= 0]
    distinct = float(sum(known)) if known else own
    sectors = first_touches(accesses).get(name, 0.0)
    if counts.blocks_run > 1 and own > 0 and distinct > 0:
        shared = min(1.0, max(0.0, (own / distinct - 1) / (counts.blocks_run - 1)))
        sectors = max(1.0, sectors) ** (1 - shared) * distinct**shared
    return max(1.0, min(sectors, sizes.get(name, 1 << 62) / SECTOR))


def code_metrics(code: MachineCode, executions: Sequence[float]) -> dict[str, float]:
    """Warp instructions of the launch by pipe."""
    totals = dict.fromkeys(UNITS, 0.0)
    everything = local = 0.0
    for block, count in zip(code.blocks, executions, strict=True):
        for instruction in code.instructions[block.start : block.end]:
            everything += count * instruction.slots
            if instruction.unit in totals:
                totals[instruction.unit] += count * instruction.slots
            if instruction.space == "local":
                local += count * max(1.0, instruction.size / 4)
    metrics = {f"{unit}_warp_instructions": total for unit, total in totals.items()}
    metrics["warp_instructions"] = everything
    metrics["tensor_flops"] = totals["tensor"] * TENSOR_FLOPS
    if local:
        metrics["local_memory_lines"] = local
    return metrics


def line_metrics(
    sites: Sequence[SiteTraffic], accesses: Sequence[AccessCounts], timing: WarpTime, warps: float
) -> dict[int, dict[str, float]]:
    """Per source line: instructions, waiting cycles (both summed over warps) and memory traffic."""
    lines: dict[int, dict[str, float]] = {}

    def add(line: int, name: str, value: float) -> None:
        if value:
            entry = lines.setdefault(line, {})
            entry[name] = entry.get(name, 0.0) + value

    for line, count in timing.line_issued.items():
        add(line, "warp_instructions", count * warps)
    for line, cycles in timing.line_stalls.items():
        add(line, "stall_cycles", cycles * warps)
    for (line, unit), count in timing.line_units.items():
        add(line, "local_memory_lines" if unit == "local" else f"{unit}_warp_instructions", count * warps)
    for site in sites:
        line = site.counts.line
        add(line, "sectors", site.counts.sectors)
        add(line, "ideal_sectors", site.counts.ideal_sectors)
        add(line, "requests", site.counts.requests)
        add(line, "l1_cycles", lines_of(site.counts))
        add(line, "l2_bytes", site.l2_sectors * SECTOR)
        add(line, "dram_bytes", site.dram_sectors * SECTOR)
    for access in accesses:
        if access.space == "shared":
            add(access.line, "wavefronts", access.wavefronts)
            add(access.line, "ideal_wavefronts", access.ideal_wavefronts)
    lines.pop(0, None)
    return lines
