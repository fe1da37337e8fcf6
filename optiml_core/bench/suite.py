"""``optiml bench kernels``: original, best found, expert and library for every kernel of the suite."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from optiml_core.bench.experts import expert_time
from optiml_core.bench.library_times import library_seconds
from optiml_core.bench.searches import SearchRequest, searched
from optiml_core.bench.suite_kernels import SuiteKernel, kernel_file
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Device
from optiml_core.profiling.profiler import Profiler
from optiml_core.records import Failure
from optiml_core.report.patch import write_whole
from optiml_core.search.devices import open_device
from optiml_core.toolchain import CompilePool, GpuFacts, Toolchain


@frozen
class SuiteRow:
    """One kernel's line. Times in seconds, ``kind`` measured or predicted; ``gain`` 1.0 where nothing was found, with
    the reason in ``reason``. ``fraction`` of the roofline of the best (or of the original)."""

    name: str
    kind: str
    original: float | None
    best: float | None
    gain: float
    low: float | None
    high: float | None
    steps: tuple[str, ...]
    verdict: str
    fraction: float | None
    bound_by: str
    expert: float | None
    expert_verdict: str
    library: float | None
    library_call: str
    variants: int
    wall: float
    reason: str = ""


def run_suite(
    kernels: Sequence[SuiteKernel],
    toolchain: Toolchain,
    device: str,
    gpu: GpuFacts,
    seconds: float,
    output: Path | None,
    on_row: Callable[[SuiteRow], None] = lambda row: None,
) -> tuple[SuiteRow, ...] | Failure:
    """Runs the kernels one after another. ``output``: a JSON file that is written anew after every kernel, whole or
    not at all, so that a crash loses one kernel at most."""
    rows: list[SuiteRow] = []
    for one in kernels:
        value = searched(SearchRequest(kernel_file(one.naive), one.naive, device, seconds, gpu.name, more=_MORE))
        rows.append(_row(one, value, _expert(one, toolchain, device, gpu), _library(one, device)))
        if output is not None:
            text = json.dumps(as_json(rows, device, gpu.name, seconds), indent=1)
            problem = write_whole(output, text.encode())
            if problem is not None:
                return problem
        on_row(rows[-1])
    return tuple(rows)


# No host code launches the suite's kernels, and none passes a buffer twice.
_MORE = ("--allow", "launch,no-alias", "--rewrites-only")


def _expert(one: SuiteKernel, toolchain: Toolchain, name: str, gpu: GpuFacts) -> tuple[float | None, str]:
    device: Device | Failure = open_device(name, toolchain)
    if isinstance(device, Failure):
        return None, device.message
    pool = CompilePool(toolchain, 1)
    try:
        profiler = Profiler(device, gpu, toolchain, pool) if isinstance(device, EmulatorDevice) else None
        found = expert_time(one, device, profiler, gpu)
    finally:
        pool.close()
        device.close()
    return found.seconds, found.problem or found.verdict


def _library(one: SuiteKernel, device: str) -> tuple[float | None, str]:
    if not device.startswith("cuda:"):
        return None, "only a GPU runs it"
    return library_seconds(one.library, int(device.removeprefix("cuda:")))


def _row(
    one: SuiteKernel, value: dict[str, Any], expert: tuple[float | None, str], library: tuple[float | None, str]
) -> SuiteRow:
    baseline, best, speedup = value.get("baseline"), value.get("best"), value.get("speedup")
    roofline, verdict = value.get("roofline"), value.get("verdict")
    error = value.get("error")
    reason = error["message"] if error else "" if best else f"no verified gain ({value.get('stopped')})"
    return SuiteRow(
        one.name,
        baseline["kind"] if baseline else "",
        baseline["time_us"] * 1e-6 if baseline else None,
        best["time_us"] * 1e-6 if best else None,
        speedup["value"] if best and speedup else 1.0,
        speedup["low"] if best and speedup else None,
        speedup["high"] if best and speedup else None,
        tuple(step["name"] for step in value.get("steps", ())),
        verdict["level"] if best and verdict else "",
        roofline["fraction"] if roofline else None,
        roofline["bound_by"] if roofline else "",
        *expert,
        *library,
        int(value.get("evaluations", 0)),
        float(value["wall"]),
        reason,
    )


def geometric_mean(rows: Sequence[SuiteRow]) -> float:
    """Of the gains; what failed or found nothing counts as 1.00x."""
    return math.exp(sum(math.log(row.gain) for row in rows) / len(rows)) if rows else 1.0


def as_json(rows: Sequence[SuiteRow], device: str, gpu: str, seconds: float) -> dict[str, Any]:
    """The result file: plain, with everything that a plot needs."""
    return {
        "schema": 1,
        "suite": "kernels",
        "device": device,
        "gpu": gpu,
        "seconds_a_kernel": seconds,
        "geometric_mean": geometric_mean(rows),
        "kernels": [asdict(row) for row in rows],
    }


HEADINGS = ("kernel", "original", "best", "gain", "roofline", "expert", "library", "steps", "s")


def cells(row: SuiteRow) -> tuple[str, ...]:
    """One line of the table, for people."""
    gain = f"{row.gain:.2f}x"
    if row.low is not None and row.high is not None and row.kind == "measured":
        gain += f" ({row.low:.2f} to {row.high:.2f})"
    elif row.best is not None:
        gain += " predicted"
    expert = _time(row.expert) if row.expert is not None else "-"
    if row.expert is not None and not row.expert_verdict.startswith("equivalent"):
        expert += f" [{row.expert_verdict.partition(':')[0]}]"
    return (
        row.name,
        _time(row.original),
        _time(row.best),
        gain,
        "-" if row.fraction is None else f"{row.fraction:.0%} of {row.bound_by}",
        expert,
        "-" if row.library is None else _time(row.library),
        " + ".join(row.steps) or row.reason,
        f"{row.wall:.0f}",
    )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def markdown(rows: Sequence[SuiteRow]) -> str:
    """The table of a results page."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + f"\n\ngeometric mean of the gains, failures as 1.00x: {geometric_mean(rows):.2f}x\n"
