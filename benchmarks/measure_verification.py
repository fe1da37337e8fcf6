"""All proof variants through quick gates and full verdicts: what is refused, what is accepted, how long it takes.

    python benchmarks/measure_verification.py [--write benchmarks/results/verification.md]

``first`` is the first verdict on an original, with all of the original's own runs; the medians are of further
candidates, compiling included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attrs import frozen

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.verification.verify import Level
from tests.verification.proof import (
    edited,
    kernel_names,
    original_text,
    variant_of,
    variants,
    verifier_of,
    workload_of,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="write the table to this file too")
    arguments = parser.parse_args()
    lines = [
        "| kernel | wrong refused | by the quick gate | correct accepted | first quick, s | first full, s "
        "| quick, median s | full of a correct one, median s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    times: dict[str, list[float]] = {"quick": [], "full": [], "first quick": [], "first full": []}
    # Caches of their own, so that compiling is timed in both passes.
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        EmulatorDevice(Path(one)) as for_quick,
        EmulatorDevice(Path(two)) as for_full,
    ):
        for device in (for_quick, for_full):
            # The emulator's own worker and its precompiled header are built once for all.
            device.build(variant_of(original_text("saxpy"), "saxpy"))
            device.sandbox_status()
        for kernel in kernel_names():
            quick = judged(kernel, "quick", for_quick)
            full = judged(kernel, "full", for_full)
            for level, result in (("quick", quick), ("full", full)):
                times[f"first {level}"].append(result.first)
                # A wrong variant ends at its first problem: the time of a verdict is that of a correct one.
                times[level] += result.correct_seconds if level == "full" else result.seconds
            lines.append(
                f"| {kernel} | {full.wrong[0]} of {full.wrong[1]} | {quick.wrong[0]} "
                f"| {full.correct[0]} of {full.correct[1]} | {quick.first:.2f} | {full.first:.2f} "
                f"| {statistics.median(quick.seconds):.2f} | {statistics.median(full.correct_seconds):.2f} |"
            )
            print(lines[-1], flush=True)
    lines += ["", "; ".join(summary(name, values) for name, values in times.items()) + "."]
    print(lines[-1])
    if arguments.write:
        arguments.write.write_text("# Verdicts on the proof kernels\n\n" + "\n".join(lines) + "\n")


@frozen
class Judged:
    """One kernel at one level: right answers of all, seconds of the first verdict and of each variant's."""

    wrong: tuple[int, int]
    correct: tuple[int, int]
    first: float
    seconds: list[float]
    correct_seconds: list[float]


def judged(kernel: str, level: Level, device: EmulatorDevice) -> Judged:
    workload = workload_of(original_text(kernel), kernel)
    verifier = verifier_of(kernel, device)
    first = verifier.verify(variant_of(original_text(kernel), kernel), level).seconds
    counts = {"wrong": [0, 0], "correct": [0, 0]}
    seconds: dict[str, list[float]] = {"wrong": [], "correct": []}
    for one in variants():
        if one.kernel == kernel:
            verdict = verifier.verify(variant_of(edited(one), kernel, workload), level)
            seconds[one.kind].append(verdict.seconds)
            counts[one.kind][0] += (verdict.equivalent is True) == (one.kind == "correct")
            counts[one.kind][1] += 1
    wrong, correct = (counts[kind] for kind in ("wrong", "correct"))
    return Judged(
        (wrong[0], wrong[1]),
        (correct[0], correct[1]),
        first,
        seconds["wrong"] + seconds["correct"],
        seconds["correct"],
    )


def summary(name: str, values: list[float]) -> str:
    return f"{name}: {len(values)} verdicts, median {statistics.median(values):.2f} s, longest {max(values):.2f} s"


if __name__ == "__main__":
    main()
