"""``optiml verify ORIGINAL CANDIDATE``: is the candidate the same function as the original?"""

from __future__ import annotations

import argparse

from optiml_core.cli.compile_flags import choose_flags
from optiml_core.cli.failure import BAD_INPUT, DONE, NEGATIVE, CommandFailure
from optiml_core.cli.output import print_json, results
from optiml_core.cli.target import choose_kernel, open_target
from optiml_core.cli.target_device import choose_running_device
from optiml_core.cli.verdict_text import print_verdict, verdict_json
from optiml_core.cli.workload_file import read_workload_file
from optiml_core.records import Failure, Variant
from optiml_core.search.devices import compiler_for_gpu, open_device
from optiml_core.search.freedoms import parse_allow
from optiml_core.store import Store
from optiml_core.toolchain import CompilePool, discover
from optiml_core.verification import verify
from optiml_core.workload import find_workload, launch_change_of


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 equivalent, 1 not equivalent or could not tell, 2 bad input, 3 something missing."""
    original = open_target(arguments.original, arguments.kernel, needs_kernel=True)
    assert original.kernel is not None
    candidate = open_target(arguments.candidate, None, needs_kernel=False)
    candidate_kernel = choose_kernel(candidate.unit, original.kernel.qualified, True)
    assert candidate_kernel is not None
    flags = choose_flags(arguments, original.path)
    toolchain = discover()
    workload = find_workload(original.unit, original.kernel, read_workload_file(arguments.workload))
    if workload.failures:
        raise CommandFailure(workload.failures[0], BAD_INPUT)
    change = launch_change_of(workload, candidate.unit, candidate_kernel)
    if isinstance(change, Failure):
        raise CommandFailure(change, BAD_INPUT)
    device = open_device(choose_running_device(arguments.device), toolchain)
    if isinstance(device, Failure):
        raise CommandFailure(device)
    pool = CompilePool(toolchain, 1, Store.open())
    try:
        verdict = verify(
            Variant(original.unit.source.path, original.unit.source.data, original.kernel.qualified, flags),
            Variant(
                candidate.unit.source.path,
                candidate.unit.source.data,
                candidate_kernel.qualified,
                flags,
                launch_change=change,
            ),
            workload,
            device,
            "quick" if arguments.quick else "full",
            allow=parse_allow(arguments.allow),
            seed=arguments.seed,
            gpu_compiler=compiler_for_gpu(pool),
        )
    finally:
        pool.close()
        device.close()
    if arguments.json:
        print_json({"equivalent": verdict.equivalent, "verdict": verdict_json(verdict)})
    else:
        console = results()
        words = {
            True: "[bold green]equivalent[/]",
            False: "[bold red]not equivalent[/]",
            None: "[bold]could not tell[/]",
        }
        console.print(f"{words[verdict.equivalent]} ({verdict.level}, {verdict.seconds:.1f} s)", end="")
        console.print(f": {verdict.reason}" if verdict.reason else "", markup=False)
        print_verdict(console, verdict)
    return DONE if verdict.equivalent is True else NEGATIVE
