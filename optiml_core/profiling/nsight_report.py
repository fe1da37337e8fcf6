"""Reads Nsight Compute reports (`.ncu-rep`) with NVIDIA's own `ncu-report` package, never its CSV.

A report is a file from elsewhere: it is opened by a native library, so callers read it in a child process and only
in trusted workspaces. Paths inside it are compared with the file in question by name; they are never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from optiml_core.records import Failure, Profile, ResourceUsage

LARGEST_REPORT = 256 << 20

# Our name -> Nsight Compute's (PerfWorks names, one kernel's sums or averages).
METRICS: dict[str, str] = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "warp_instructions": "sm__inst_executed.sum",
    "global_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "dram_share": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "blocks": "launch__grid_size",
    "threads_per_block": "launch__block_size",
}
PERCENT = frozenset({"dram_share", "sm_share", "achieved_occupancy"})
DURATION = "gpu__time_duration.sum"  # nanoseconds

# Metrics with one instance per instruction, mapped to lines by the report's own source information.
LINE_METRICS: dict[str, str] = {
    "stall_samples": "smsp__pcsamp_sample_count",
    "instructions": "inst_executed",
    "global_sectors": "memory_l2_theoretical_sectors_global",
    "global_ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}


def read_report(path: Path, file: str | None = None) -> tuple[Profile, ...] | Failure:
    """Every kernel of a report as a Profile, in the order of the launches.

    ``file``: only lines of sources with this file's name are kept (None: of all). Durations are the profiled
    kernel's own, which replays and fixed clocks distort: they are for orientation, never a reported speedup.
    """
    try:
        import ncu_report
    except ImportError:
        return Failure("missing-package", "the package ncu-report is not installed", cure="pip install 'optiml[gpu]'")
    try:
        if not path.is_file():
            return Failure("bad-input", "no such report", str(path))
        if path.stat().st_size > LARGEST_REPORT:
            return Failure("bad-input", f"larger than {LARGEST_REPORT} bytes", str(path))
        context = ncu_report.load_report(str(path))
    except Exception as error:  # noqa: BLE001 - the native reader raises its own types for damaged files
        return Failure("bad-input", f"not a readable Nsight Compute report: {error}", str(path))
    profiles = tuple(_profile(action, file) for action in _actions(context))
    if not profiles:
        return Failure("bad-input", "the report holds no kernel", str(path))
    return profiles


def _actions(context: Any) -> Iterator[Any]:
    for range_index in range(context.num_ranges()):
        found = context.range_by_idx(range_index)
        for index in range(found.num_actions()):
            yield found.action_by_idx(index)


def _profile(action: Any, file: str | None) -> Profile:
    names = set(action.metric_names())
    metrics: dict[str, float] = {}
    for ours, theirs in METRICS.items():
        # A counter that was not collected stays absent; 0 would be a measurement.
        value = action.metric_by_name(theirs).as_double() if theirs in names else None
        if value is not None:
            metrics[ours] = value / 100 if ours in PERCENT else value
    if "dram_read_bytes" in metrics and "dram_write_bytes" in metrics:
        metrics["dram_bytes"] = metrics["dram_read_bytes"] + metrics["dram_write_bytes"]
    duration = action.metric_by_name(DURATION).as_double() * 1e-9 if DURATION in names else None
    device = action.metric_by_name("device__attribute_display_name") if _has_device(names) else None
    registers = metrics.get("registers")
    return Profile(
        kernel=action.name(),
        target=str(device.value()) if device is not None else "unknown GPU",
        origin="imported",
        time=duration,
        time_kind="measured" if duration is not None else None,
        metrics=metrics,
        line_metrics=_line_metrics(action, names, file),
        resources=ResourceUsage(int(registers), 0, 0, 0, 0) if registers is not None else None,
    )


def _has_device(names: set[str]) -> bool:
    return "device__attribute_display_name" in names


def _line_metrics(action: Any, names: set[str], file: str | None) -> dict[int, dict[str, float]]:
    wanted = base_name(file) if file is not None else None
    lines: dict[int, dict[str, float]] = {}
    for ours, theirs in LINE_METRICS.items():
        if theirs not in names:
            continue
        metric = action.metric_by_name(theirs)
        places = metric.correlation_ids()
        for index in range(metric.num_instances()):
            source = action.source_info(places.as_uint64(index))
            if source is None or (wanted is not None and base_name(source.file_name()) != wanted):
                continue
            row = lines.setdefault(int(source.line()), {})
            row[ours] = row.get(ours, 0.0) + metric.as_double(index)
    return lines


def base_name(path: str) -> str:
    """The last part of a path of either kind of system: reports travel between them."""
    return PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name
