"""Predicts every launch that was timed on an H200 and writes benchmarks/results/prediction.md.

Usage: python benchmarks/prediction/compare.py            (needs g++ and the extra `cuda`; no GPU)
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import time
from pathlib import Path

import numpy as np
from attrs import frozen

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.measurement import speedup_prediction
from optiml_core.profiling import Profiler
from optiml_core.profiling.profiler import Reading
from optiml_core.profiling.time_model import resource_times
from optiml_core.records import Failure, Measurement, Profile, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import CompilePool, GpuFacts, discover, gpu_facts
from optiml_core.workload import find_workload

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"

READINGS: tuple[Reading, ...] = ("sass", "ptx")

# Kernels that compute the same function: what a search would compare.
FAMILIES = (
    "transpose_naive transpose_padded", "transpose16", "softmax", "layernorm", "column_sums_block column_sums_split",
    "gelu", "sgemm", "attention_scores", "attention_values", "histogram_global histogram_shared", "histogram256",
    "polygon", "copy", "reduce", "matvec", "convolution", "residual_layernorm", "sum_of_squares",
)  # fmt: skip


@frozen
class Compared:
    """One launch: what was measured, what each reading predicts (seconds), and the resource that binds."""

    kernel: str
    names: dict[str, int]
    measured: float
    predicted: dict[str, float]
    bound_by: str
    profiles: dict[str, Profile]
    seconds: float

    @property
    def label(self) -> str:
        return self.kernel + (f", {self.names['threads']} threads" if self.names else "")


def compare(launches: list[dict[str, object]], gpu: GpuFacts, warm: bool) -> tuple[list[Compared], list[str]]:
    """Predictions of all launches in the state of the caches that ``warm`` says, and what could not be predicted."""
    toolchain = discover()
    found, problems = [], []
    with EmulatorDevice() as device, CompilePool(toolchain, 2) as pool:
        for row in launches:
            path = HERE / "kernels" / f"{row['kernel']}.cu"
            names: dict[str, int] = row["names"]  # type: ignore[assignment]
            text = path.read_text()
            if "threads" in names:
                text = re.sub(r"threads = \d+", f"threads = {names['threads']}", text)
            unit = parse(SourceFile(path.name, text.encode()))
            kernel = unit.kernels[-1]
            workload = find_workload(unit, kernel)
            predicted: dict[str, float] = {}
            profiles: dict[str, Profile] = {}
            began = time.monotonic()
            for reading in READINGS if warm else READINGS[:1]:
                with Profiler(device, gpu, toolchain, pool, reading=reading) as profiler:
                    variant = Variant(path.name, text.encode(), kernel.qualified)
                    profile = profiler.profile(variant, workload, warm=warm)
                if isinstance(profile, Failure):
                    problems.append(f"{row['kernel']}: {profile.message}")
                    break
                assert profile.time is not None
                predicted[reading], profiles[reading] = profile.time, profile
            else:
                times = resource_times(profiles["sass"].metrics, gpu)
                bound = max(times, key=lambda name: times[name])
                measured = float(row["warm" if warm else "cold"])  # type: ignore[arg-type]
                seconds = time.monotonic() - began
                found.append(Compared(path.stem, names, measured, predicted, bound, profiles, seconds))
                print(f"{found[-1].label:48} {measured * 1e6:10.1f} {predicted['sass'] * 1e6:10.1f}", file=sys.stderr)
    return found, sorted(set(problems))


def spearman(one: list[float], other: list[float]) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def summary(rows: list[Compared], reading: str) -> dict[str, float]:
    """Rank correlation and errors over all launches."""
    logs = np.array([math.log(row.predicted[reading] / row.measured) for row in rows])
    return {
        "launches": len(rows),
        "Spearman": spearman([row.predicted[reading] for row in rows], [row.measured for row in rows]),
        "median error": math.exp(float(np.median(np.abs(logs)))),
        "within 1.5x": float(np.mean(np.abs(logs) < math.log(1.5))),
        "within 2x": float(np.mean(np.abs(logs) < math.log(2.0))),
        "deviation of ln": float(np.std(logs)),
    }


def pairs(rows: list[Compared], reading: str, gpu: GpuFacts) -> tuple[list[tuple[str, float, Measurement]], float]:
    """Speedups within families: (label, measured, predicted), and the share whose interval holds the truth."""
    found = []
    for family in FAMILIES:
        members = [row for row in rows if any(row.kernel.startswith(prefix) for prefix in family.split())]
        for one, other in itertools.combinations(members, 2):
            if one.measured < other.measured:
                one, other = other, one
            predicted = speedup_prediction(one.profiles[reading], other.profiles[reading], gpu)
            assert isinstance(predicted, Measurement)
            found.append((f"{one.label} → {other.label}", one.measured / other.measured, predicted))
    held = [predicted.low <= measured <= predicted.high for _, measured, predicted in found]
    return found, float(np.mean(held))


def report(gpu: GpuFacts) -> str:
    data = json.loads((RESULTS / "prediction_h200.json").read_text())
    lines = [(HERE / "report_head.md").read_text().rstrip(), ""]
    for warm in (True, False):
        rows, problems = compare(data["launches"], gpu, warm)
        state = "warm (a loop of launches)" if warm else "cold (L2 cleared before each launch)"
        lines += [f"## Caches {state}", "", "| reading | " + " | ".join(summary(rows, "sass")) + " |", "|---" * 7 + "|"]
        for reading in READINGS if warm else READINGS[:1]:
            numbers = summary(rows, reading)
            digits = {"launches": 0, "Spearman": 3}
            cells = [f"{value:.{digits.get(name, 2)}f}" for name, value in numbers.items()]
            lines.append(f"| {reading} | " + " | ".join(cells) + " |")
        lines += [f"- Not predicted: {problem}" for problem in problems]
        for reading in READINGS if warm else READINGS[:1]:
            speedups, held = pairs(rows, reading, gpu)
            logs = [math.log(p.speedup / m) for _, m, p in speedups]
            apart = [(m, p) for _, m, p in speedups if m > 1.1]
            right = np.mean([p.speedup > 1.0 for _, p in apart])
            lines.append(
                f"- Speedups between kernels of one family ({reading}): {len(speedups)} pairs, deviation of ln "
                f"{np.std(logs):.2f}; {100 * held:.0f} % lie inside the stated interval; of {len(apart)} pairs that "
                f"differ by more than 1.1x, {100 * right:.0f} % are put in the right order."
            )
        lines += [
            "",
            "| launch | measured us | predicted us (sass) | ratio |"
            + (" predicted us (ptx) |" if warm else "")
            + " bound by |",
            "|---|---:|---:|---:|" + ("---:|" if warm else "") + "---|",
        ]
        for row in rows:
            ratio = row.predicted["sass"] / row.measured
            lines.append(
                f"| {row.label} | {row.measured * 1e6:.1f} | {row.predicted['sass'] * 1e6:.1f} | {ratio:.2f} "
                + (f"| {row.predicted['ptx'] * 1e6:.1f} " if warm else "")
                + f"| {row.bound_by} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    facts = gpu_facts("H200")
    if isinstance(facts, Failure):
        raise SystemExit(facts.message)
    (RESULTS / "prediction.md").write_text(report(facts))
