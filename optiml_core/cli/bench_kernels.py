"""``optiml bench kernels``: naive kernels, each optimized and set beside an expert's and a library's time."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

from optiml_core.bench.suite import HEADINGS, SuiteRow, as_json, cells, geometric_mean, run_suite
from optiml_core.bench.suite_kernels import chosen
from optiml_core.cli.failure import BAD_INPUT, DONE, NEGATIVE, CommandFailure, bad_input
from optiml_core.cli.output import messages, print_json, results
from optiml_core.cli.output_file import check_writable
from optiml_core.cli.target_device import choose_device, choose_gpu
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover


def run(arguments: argparse.Namespace) -> int:
    """A line a kernel as it is done, then the table. Exit status 1 if nothing was gained anywhere."""
    kernels = chosen(arguments.only)
    if isinstance(kernels, Failure):
        raise CommandFailure(kernels, BAD_INPUT)
    if arguments.seconds <= 0:
        raise bad_input("--seconds must be above 0")
    device = choose_device(arguments.device)
    gpu = choose_gpu(arguments.gpu, (), device)
    toolchain = discover()
    opened = open_device(device, toolchain)
    if isinstance(opened, Failure):
        raise CommandFailure(opened)
    opened.close()
    output = None if arguments.output is None else Path(arguments.output)
    check_writable(arguments.output)

    def tell(row: SuiteRow) -> None:
        line = dict(zip(HEADINGS, cells(row), strict=True))
        text = f"{row.name}: {line['original']} to {line['best']}, {line['gain']}, {line['steps']} ({line['s']} s)"
        messages().print(text, markup=False)

    rows = run_suite(kernels, toolchain, device, gpu, arguments.seconds, output, tell)
    if isinstance(rows, Failure):
        raise CommandFailure(rows)
    if arguments.json:
        print_json(as_json(rows, device, gpu.name, arguments.seconds))
    else:
        # The steps were told line by line; in the table they would leave no room for the times.
        shown = [index for index, heading in enumerate(HEADINGS) if heading != "steps"]
        table = Table(*(HEADINGS[index] for index in shown), box=None, pad_edge=False)
        for row in rows:
            table.add_row(*(Text(cells(row)[index]) for index in shown))
        results().print(table)
        results().print(f"geometric mean of the gains, failures as 1.00x: {geometric_mean(rows):.2f}x", markup=False)
    return DONE if any(row.gain > 1.0 for row in rows) else NEGATIVE
