"""All proof variants through quick gates and full verdicts: what is refused, what is accepted, how long it takes.

    python benchmarks/measure_verification.py [--write benchmarks/results/verification.md]

``first`` is the first verdict on an original, with all of the original's own runs; the medians are of further candidates,
compiling included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from optiml_core.device.emulator import EmulatorDevice
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
        "| kernel | wrong refused by the full verdict | by the quick gate | correct accepted | first quick, s | first full, s "
        "| quick, median s | full, median s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    quick_all: list[float] = []
    full_all: list[float] = []
    firsts: list[float] = []
    everything = variants()
    # A cache of its own, so that compiling is timed.
    with tempfile.TemporaryDirectory() as cache, EmulatorDevice(Path(cache)) as device:
        for kernel in kernel_names():
            workload = workload_of(original_text(kernel), kernel)
            original = variant_of(original_text(kernel), kernel)
            verifier = verifier_of(kernel, device)
            started = time.perf_counter()
            verifier.verify(original, "quick")
            first_quick = time.perf_counter() - started
            verifier.verify(original, "full")
            first = time.perf_counter() - started
            firsts.append(first)
            quick: list[float] = []
            full: list[float] = []
            told = {"wrong": [0, 0, 0], "correct": [0, 0, 0]}
            for one in everything:
                if one.kernel != kernel:
                    continue
                candidate = variant_of(edited(one), kernel, workload)
                gate = verifier.verify(candidate, "quick")
                verdict = verifier.verify(candidate, "full")
                quick.append(gate.seconds)
                full.append(verdict.seconds)
                right = one.kind == "correct"
                told[one.kind][0] += (verdict.equivalent is True) == right
                told[one.kind][1] += (gate.equivalent is True) == right
                told[one.kind][2] += 1
            quick_all += quick
            full_all += full
            wrong, correct = told["wrong"], told["correct"]
            lines.append(
                f"| {kernel} | {wrong[0]} of {wrong[2]} | {wrong[1]} | {correct[0]} of {correct[2]} | {first_quick:.2f} "
                f"| {first:.2f} | {statistics.median(quick):.2f} | {statistics.median(full):.2f} |"
            )
            print(lines[-1], flush=True)
    lines.append("")
    lines.append(
        f"{len(quick_all)} variants: quick gate median {statistics.median(quick_all):.2f} s, longest {max(quick_all):.2f} s; "
        f"full verdict median {statistics.median(full_all):.2f} s, longest {max(full_all):.2f} s; first full verdict on an "
        f"original median {statistics.median(firsts):.2f} s, longest {max(firsts):.2f} s."
    )
    print(lines[-1])
    if arguments.write:
        arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
