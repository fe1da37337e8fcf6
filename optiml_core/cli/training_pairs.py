"""``optiml training-pairs``: makes verified training pairs from our own rewrites and recipes; prints its rate."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from types import FrameType

from optiml_core.bench.training_pairs.generate import Generated, Progress, generate
from optiml_core.cli.failure import DONE, NEGATIVE, CommandFailure, bad_input
from optiml_core.cli.output import messages, print_json, results
from optiml_core.records import Failure

EVERY = 20  # units between two lines of progress


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 when the file holds as many pairs as asked, 1 when cancelled: the same command goes on."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    console = messages()

    def show(progress: Progress, added: int, seconds: float) -> None:
        if arguments.progress != "none" and progress.units % EVERY == 0:
            rate = f"{added / seconds:.2f} a second ({arguments.workers} workers)"
            console.print(f"{progress.pairs} of {arguments.pairs} pairs, {rate}")

    try:
        found = generate(
            Path(arguments.output), arguments.pairs, seed=arguments.seed, workers=arguments.workers, on_unit=show,
            cancelled=lambda: bool(stopped),
        )  # fmt: skip
    except OSError as error:
        raise bad_input(f"cannot write: {error}", file=arguments.output) from None
    if isinstance(found, Failure):
        raise CommandFailure(found)
    if arguments.json:
        print_json(_facts(found, arguments.workers))
    else:
        results().print(_text(found), markup=False)
    return DONE if found.finished else NEGATIVE


def _facts(found: Generated, workers: int) -> dict[str, object]:
    progress = found.progress
    return {
        "pairs": progress.pairs, "added": found.added, "seconds": found.seconds, "workers": workers,
        "rate": found.added / found.seconds if found.seconds else None, "units": progress.units,
        "duplicates": progress.duplicates, "written": progress.written, "refused": progress.refused,
        "full_verdicts": {"passed": progress.proved, "failed": progress.disproved}, "reasons": progress.reasons,
        "stopped": "finished" if found.finished else "cancelled",
    }  # fmt: skip


def _text(found: Generated) -> str:
    progress = found.progress
    rate = f", {found.added / found.seconds:.2f} a second" if found.seconds else ""
    lines = [f"{progress.pairs} pairs, {found.added} of them new{rate}; {progress.duplicates} duplicates left out", ""]
    lines.append(f"{'generator':<40} {'pairs':>7} {'refused':>8} {'full: passed':>13} {'failed':>7}")
    for name in sorted({*progress.written, *progress.refused, *progress.disproved}):
        counts = [one.get(name, 0) for one in (progress.written, progress.refused, progress.proved, progress.disproved)]
        lines.append(f"{name:<40} {counts[0]:>7} {counts[1]:>8} {counts[2]:>13} {counts[3]:>7}")
    return "\n".join(lines)
