"""``optiml bench``: measures what is claimed."""

from __future__ import annotations

import argparse
from pathlib import Path

from optiml_core.bench.synthesis import report, run_prompts
from optiml_core.cli import bench_kernels
from optiml_core.cli.failure import DONE, CommandFailure, bad_input
from optiml_core.cli.output import print_json, results
from optiml_core.cli.target_device import choose_device
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover


def run(arguments: argparse.Namespace) -> int:
    """``kernels``: see ``bench_kernels``.

    ``synthesis``: prints build@1 and pass@1 with one line a prompt; writes the same to ``--output``.
    """
    if arguments.suite == "kernels":
        return bench_kernels.run(arguments)
    device = open_device(choose_device(arguments.device), discover())
    if isinstance(device, Failure):
        raise CommandFailure(device)
    try:
        found = run_prompts(device)
    finally:
        device.close()
    text = report(found, device.name)
    if arguments.output:
        try:
            Path(arguments.output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise bad_input(f"cannot be written: {error.strerror}", file=arguments.output) from error
    if arguments.json:
        rows = [
            {"name": one.name, "type": one.problem_type, "built": one.built, "passed": one.passed, "detail": one.detail}
            for one in found
        ]
        count = len(found)
        print_json({
            "build@1": sum(one.built for one in found) / count, "pass@1": sum(one.passed for one in found) / count,
            "prompts": rows,
        })  # fmt: skip
    else:
        results().print(text, markup=False)
    return DONE
