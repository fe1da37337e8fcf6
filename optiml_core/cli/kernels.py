"""``optiml kernels FILE``: the kernels of a file, their parameters, launches and workloads."""

from __future__ import annotations

import argparse
from typing import Any

from rich.markup import escape

from optiml_core.cli.failure import DONE
from optiml_core.cli.output import print_json, range_json, results
from optiml_core.cli.target import no_kernels, open_target
from optiml_core.cli.workload_file import read_workload_file
from optiml_core.records import Kernel, LaunchSite
from optiml_core.source import TranslationUnit
from optiml_core.workload import Workload, find_workload


def run(arguments: argparse.Namespace) -> int:
    """Prints the kernels; exit status 0 also when there are none."""
    target = open_target(arguments.file, None, needs_kernel=False)
    toml = read_workload_file(arguments.workload)
    kernels = [target.kernel] if target.kernel is not None else list(target.unit.kernels)
    found = [(kernel, find_workload(target.unit, kernel, toml)) for kernel in kernels]
    if arguments.json:
        print_json({"kernels": [kernel_json(target.unit, kernel, workload) for kernel, workload in found]})
    else:
        _print(target.unit, found)
    return DONE


def kernel_json(unit: TranslationUnit, kernel: Kernel, workload: Workload) -> dict[str, Any]:
    """One kernel as design.md section 6 has it."""
    return {
        "name": kernel.name,
        "qualified": kernel.qualified,
        "file": kernel.file,
        "range": range_json(kernel.range),
        "parameters": [
            {"name": parameter.name, "type": parameter.type, "role": _role(parameter.is_pointer, parameter.is_const)}
            for parameter in kernel.parameters
        ],
        "instantiations": [list(arguments) for arguments in kernel.instantiations],
        "launch_sites": [_launch_site_json(site) for site in unit.launches_of(kernel)],
        "workload": {
            "origin": workload.origin,
            "text": workload.text,
            "problems": [
                {"message": p.message, "line": p.line, "column": p.column, "cure": p.cure} for p in workload.problems
            ],
        },
    }


def _role(is_pointer: bool, is_const: bool) -> str:
    """What the declaration allows: whether a buffer is read, written or both is known only from a run."""
    if not is_pointer:
        return "scalar"
    return "in" if is_const else "in-or-out"


def _launch_site_json(site: LaunchSite) -> dict[str, Any]:
    return {
        "file": site.range.file,
        "range": range_json(site.range),
        "grid": site.grid,
        "block": site.block,
        "shared": site.shared,
    }


def _print(unit: TranslationUnit, found: list[tuple[Kernel, Workload]]) -> None:
    console = results()
    if not found:
        line_number, message, _ = no_kernels(unit)
        console.print(f"{unit.source.path}{f':{line_number}' if line_number else ''}: {message}", markup=False)
        return
    for kernel, workload in found:
        place = f"{kernel.file}:{kernel.range.start_line}"
        console.print(f"[bold]{escape(kernel.qualified)}[/]  {escape(place)}")
        for parameter in kernel.parameters:
            console.print(f"  {parameter.type} {parameter.name}", markup=False)
        for site in unit.launches_of(kernel):
            console.print(f"  launched in line {site.range.start_line}: <<<{site.grid}, {site.block}>>>", markup=False)
        console.print(f"  workload ({workload.origin}):")
        for line in workload.text.splitlines():
            console.print(f"    {line}", markup=False)
        for problem in workload.problems:
            where = f" (line {problem.line})" if problem.line else ""
            console.print(f"  note{where}: {problem.message}", markup=False)
            if problem.cure:
                console.print(f"    cure: {problem.cure}", markup=False)
