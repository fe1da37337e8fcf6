"""From a reported kernel to a Profile: ncu's counters under our names, per kernel and per source line.

The names mean what they mean in a profile of the emulator, so that findings, rewards and reports read both alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal

from attrs import frozen

from optiml_core.profiling.machine_code.sass import access_of, unit_of
from optiml_core.profiling.nsight.report import InstructionCounters, ReportedKernel
from optiml_core.records import AccessCounts, Profile, ResourceUsage

DURATION = "gpu__time_duration.sum"  # nanoseconds
SECTOR = 32
# Our name -> ncu's names of the same count, the first that the report has.
COUNTS: Mapping[str, tuple[str, ...]] = {
    "blocks": ("launch__grid_size",),
    "threads_per_block": ("launch__block_size",),
    "waves": ("launch__waves_per_multiprocessor",),
    "warp_instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum", "inst_executed"),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "l1_cycles": ("memory_l1_tag_requests_global",),
    "shared_wavefronts": ("memory_l1_wavefronts_shared", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    "shared_ideal_wavefronts": ("memory_l1_wavefronts_shared_ideal",),
    "global_sectors": ("memory_l2_theoretical_sectors_global",),
    "global_ideal_sectors": ("memory_l2_theoretical_sectors_global_ideal",),
}
PERCENTAGES: Mapping[str, tuple[str, ...]] = {
    "dram_share": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "sm_share": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "l1_hit_rate": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct",),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "theoretical_occupancy": ("sm__maximum_warps_per_active_cycle_pct",),
}
L2_READ = ("lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_op_read.sum")
L2_WRITE = ("lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_op_write.sum")
LIMITS = "launch__occupancy_limit_"
LOAD_HIT_RATE = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"  # cycles a warp takes for one of its instructions
STALL = "smsp__pcsamp_warps_issue_stalled_"
SAMPLES = "smsp__pcsamp_sample_count"
# A sampled warp that issues does not wait; one that was ready and not chosen waits for its neighbours only.
NOT_STALLED = frozenset({"selected"})
UNITS = ("fp32", "fp64", "fp16", "integer", "special", "conversion", "shuffle", "tensor", "barrier")
# ncu's codes in memory_type and memory_access_type, for code that its reader no longer disassembles.
SPACE_CODES: Mapping[int, Literal["global", "shared"]] = {4: "global", 16: "shared"}
KIND_CODES: Mapping[int, Literal["load", "store", "atomic"]] = {2: "load", 4: "store", 8: "atomic"}


@frozen
class LineFilter:
    """Which of a report's files are the file in question: ``file`` as the report spells it, None for all of them."""

    file: str | None

    def line_of(self, instruction: InstructionCounters) -> int:
        """The line in the file in question; 0 for an instruction from elsewhere."""
        return instruction.line if self.file is None or instruction.file == self.file else 0


def file_in_report(kernel: ReportedKernel, wanted: str) -> str | None:
    """The report's spelling of a file: the same name, and of several the one whose folders agree furthest.

    Reports travel and paths move, so folders need not agree at all. None: no instruction comes from such a file.
    """
    parts = path_parts(wanted)
    best: tuple[int, str] | None = None
    for file in sorted({instruction.file for instruction in kernel.instructions if instruction.file}):
        common = 0
        for one, other in zip(reversed(parts), reversed(path_parts(file)), strict=False):
            if one != other:
                break
            common += 1
        if common and (best is None or common > best[0]):
            best = (common, file)
    return best[1] if best is not None else None


def path_parts(path: str) -> tuple[str, ...]:
    """The parts of a path of either kind of system: reports travel between them."""
    return PureWindowsPath(path).parts if "\\" in path else PurePosixPath(path).parts


def profile_of(
    kernel: ReportedKernel, file: str | None, name: str, origin: Literal["ncu", "imported"] = "imported"
) -> Profile:
    """The profile of one reported launch. ``file``: whose lines are meant (None: all instructions' lines are kept).

    Its time is the profiled launch's own, which replays and clocks distort: for orientation, never a reported speedup.
    """
    spelled = file_in_report(kernel, file) if file is not None else None
    # A file that no instruction comes from has no lines; None would keep those of all others.
    lines = LineFilter(spelled if file is None or spelled is not None else "")
    accesses = access_counts(kernel.instructions, lines)
    metrics = launch_metrics(kernel, accesses)
    duration = kernel.number(DURATION)
    registers = kernel.number("launch__registers_per_thread")
    shared = kernel.number("launch__shared_mem_per_block_static")
    local = sum(i.values.get("memory_l2_theoretical_sectors_local", 0.0) for i in kernel.instructions)
    if local:
        metrics["local_memory_lines"] = local / 4
    return Profile(
        kernel=name,
        target=kernel.gpu,
        origin=origin,
        time=duration * 1e-9 if duration else None,
        time_kind="measured" if duration else None,
        metrics=metrics,
        line_metrics=line_metrics(kernel, lines, metrics),
        accesses=accesses,
        resources=ResourceUsage(int(registers), int(shared or 0), 0, 0, 0) if registers is not None else None,
    )


def launch_metrics(kernel: ReportedKernel, accesses: Iterable[AccessCounts]) -> dict[str, float]:
    """Metrics of the launch. What the report lacks is absent, never 0."""
    metrics: dict[str, float] = {}
    for ours, theirs in COUNTS.items():
        value = kernel.number(*theirs)
        if value is not None:
            metrics[ours] = value
    for ours, theirs in PERCENTAGES.items():
        value = kernel.number(*theirs)
        if value is not None:
            metrics[ours] = value / 100
    if "dram_read_bytes" in metrics and "dram_write_bytes" in metrics:
        metrics["dram_bytes"] = metrics["dram_read_bytes"] + metrics["dram_write_bytes"]
    for ours, theirs in (("l2_read_bytes", L2_READ), ("l2_write_bytes", L2_WRITE)):
        value = kernel.number(*theirs)
        if value is not None:
            metrics[ours] = SECTOR * value
    if "shared_wavefronts" in metrics:
        metrics["shared_cycles"] = metrics["shared_wavefronts"]
    if "blocks" in metrics and "threads_per_block" in metrics:
        metrics["warps"] = metrics["blocks"] * math.ceil(metrics["threads_per_block"] / 32)
    limits = [
        float(value)
        for name, value in kernel.metrics.items()
        if name.startswith(LIMITS) and isinstance(value, (int, float))
    ]
    if limits:
        metrics["resident_blocks"] = min(limits)
    on_global = [access for access in accesses if access.space == "global"]
    if on_global:
        metrics["global_requests"] = float(sum(access.requests for access in on_global))
    for opcode, count in kernel.opcodes.items():
        unit = unit_of(opcode)
        if unit in UNITS:
            metrics[f"{unit}_warp_instructions"] = metrics.get(f"{unit}_warp_instructions", 0.0) + count
    latency = kernel.number(WARP_LATENCY)
    if latency is not None and metrics.get("warps") and "warp_instructions" in metrics:
        metrics["warp_cycles"] = latency * metrics["warp_instructions"] / metrics["warps"]
    for reason, share in stall_shares(kernel.instructions).items():
        metrics[f"stall_share_{reason}"] = share
    return metrics


def stall_shares(instructions: Iterable[InstructionCounters]) -> dict[str, float]:
    """Reason -> its part of all samples of warps, 0..1, by ncu's names of the reasons."""
    totals: dict[str, float] = defaultdict(float)
    for instruction in instructions:
        for name, value in instruction.values.items():
            if name.startswith(STALL) and not name.endswith("_not_issued"):
                totals[name.removeprefix(STALL)] += value
    everything = sum(totals.values())
    return {reason: value / everything for reason, value in totals.items()} if everything else {}


def access_counts(instructions: Iterable[InstructionCounters], lines: LineFilter) -> tuple[AccessCounts, ...]:
    """Memory accesses by line, kind, space and width, summed over the instructions of each."""
    sums: dict[tuple[int, str, str, int], dict[str, float]] = {}
    for instruction in instructions:
        for kind, space, size in accesses_of(instruction):
            row = sums.setdefault((lines.line_of(instruction), kind, space, size), defaultdict(float))
            values = instruction.values
            lanes = values.get("thread_inst_executed_true", values.get("thread_inst_executed", 0.0))
            row["requests"] += values.get("inst_executed", 0.0)
            row["lanes"] += lanes
            row["bytes"] += lanes * size
            if space == "global":
                row["sectors"] += values.get("memory_l2_theoretical_sectors_global", 0.0)
                row["ideal_sectors"] += values.get("memory_l2_theoretical_sectors_global_ideal", 0.0)
                row["lines"] += values.get("memory_l1_tag_requests_global", 0.0)
            elif space == "shared":
                row["wavefronts"] += values.get("memory_l1_wavefronts_shared", 0.0)
                row["ideal_wavefronts"] += values.get("memory_l1_wavefronts_shared_ideal", 0.0)
    return tuple(
        AccessCounts(line, kind, space, size, **{name: round(value) for name, value in row.items()})  # type: ignore[arg-type]
        for (line, kind, space, size), row in sorted(sums.items())
        if row["requests"] > 0
    )


def accesses_of(instruction: InstructionCounters) -> list[tuple[str, str, int]]:
    """(kind, space, bytes a lane) of an instruction: from its text, else from ncu's codes; empty for no access."""
    opcode = next((word for word in instruction.text.split() if not word.startswith("@")), "")
    values = instruction.values
    found = access_of(opcode.rstrip(";"))
    if found is not None:
        accesses = [(str(found[0]), str(found[1]), found[2])]
        if opcode.startswith("LDGSTS"):
            accesses.append(("store", "shared", found[2]))
        return accesses
    if opcode and not opcode.startswith("?"):
        return []
    kind = KIND_CODES.get(int(values.get("memory_access_type", 0)))
    space = SPACE_CODES.get(int(values.get("memory_type", 0)))
    bits = int(values.get("memory_access_size_type", 0))
    return [(kind, space, max(1, bits // 8))] if kind and space else []


def line_metrics(
    kernel: ReportedKernel, lines: LineFilter, metrics: Mapping[str, float]
) -> dict[int, dict[str, float]]:
    """Per source line: instructions, waiting (``stall_share`` of the launch's samples, and cycles), memory traffic."""
    found: dict[int, dict[str, float]] = {}

    def add(line: int, name: str, value: float) -> None:
        if value and line > 0:
            row = found.setdefault(line, {})
            row[name] = row.get(name, 0.0) + value

    samples = sum(i.values.get(SAMPLES, 0.0) for i in kernel.instructions)
    waiting = metrics.get("warp_cycles", 0.0) * metrics.get("warps", 0.0)
    for instruction in kernel.instructions:
        line = lines.line_of(instruction)
        values = instruction.values
        add(line, "warp_instructions", values.get("inst_executed", 0.0))
        reasons = {
            name.removeprefix(STALL): value
            for name, value in values.items()
            if name.startswith(STALL) and not name.endswith("_not_issued")
        }
        for reason, value in reasons.items():
            if samples and reason not in NOT_STALLED:
                add(line, "stall_share", value / samples)
                add(line, f"stall_share_{reason}", value / samples)
                add(line, "stall_cycles", waiting * value / samples)
        unit = unit_of(next((word for word in instruction.text.split() if not word.startswith("@")), "?"))
        if unit in UNITS and not instruction.text.startswith("?"):
            add(line, f"{unit}_warp_instructions", values.get("inst_executed", 0.0))
    hit_rate = kernel.number(LOAD_HIT_RATE)
    missed = 1.0 - hit_rate / 100 if hit_rate is not None else 1.0
    for access in access_counts(kernel.instructions, lines):
        add(access.line, "sectors", access.sectors)
        add(access.line, "ideal_sectors", access.ideal_sectors)
        add(access.line, "wavefronts", access.wavefronts)
        add(access.line, "ideal_wavefronts", access.ideal_wavefronts)
        if access.space == "global":
            add(access.line, "requests", access.requests)
            add(access.line, "l1_cycles", access.lines)
            add(access.line, "l2_bytes", SECTOR * access.sectors * (missed if access.kind == "load" else 1.0))
    for row in found.values():
        if row.get("requests") and row.get("sectors"):
            row["sectors_per_request"] = row["sectors"] / row["requests"]
    return found
