"""``optiml bench``: measures what is claimed."""

from __future__ import annotations

import argparse
from pathlib import Path

from optiml_core.bench.synthesis import PromptResult, report, run_prompts, scores
from optiml_core.bench.synthesis_library import speeds_of
from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.cli import bench_kernels
from optiml_core.cli.configured import open_models
from optiml_core.cli.failure import DONE, CommandFailure, bad_input
from optiml_core.cli.output import messages, print_json, results
from optiml_core.cli.output_file import check_writable
from optiml_core.cli.target_device import choose_device
from optiml_core.device.cuda import CudaDevice
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover


def run(arguments: argparse.Namespace) -> int:
    """``kernels``: see ``bench_kernels``.

    ``synthesis``: prints build@1, pass@1 and pass@k of the recipes and of every configured model, with one line a
    prompt; on a GPU the speed against torch where it is installed. Writes the same to ``--output``.
    """
    if arguments.suite == "kernels":
        return bench_kernels.run(arguments)
    if arguments.output:
        check_writable(arguments.output)
    wanted = [one for one in arguments.only.split(",") if one]
    unknown = sorted(set(wanted) - {one.name for one in PROMPTS})
    if unknown:
        raise bad_input(f"no prompt is named {', '.join(unknown)}", cure=f"one of {', '.join(p.name for p in PROMPTS)}")
    prompts = [one for one in PROMPTS if not wanted or one.name in wanted]
    models = [] if arguments.recipes_only else open_models()
    name = choose_device(arguments.device)
    device = open_device(name, discover())
    if isinstance(device, Failure):
        raise CommandFailure(device)
    try:
        found = run_prompts(device, prompts, models=models, samples=max(arguments.samples, 1), on_result=_progress)
        speeds = speeds_of(found, device, int(name[5:])) if isinstance(device, CudaDevice) else ()
    finally:
        device.close()
    text = report(found, device.name, speeds, "the emulator has no clock")
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    if arguments.json:
        rows = [
            {"name": one.name, "type": one.problem_type, "source": one.source, "samples": one.samples,
             "built": one.built, "passed": one.passed, "detail": one.detail}
            for one in found
        ]  # fmt: skip
        times = [
            {"name": one.name, "sizes": one.sizes, "seconds": one.seconds, "library_seconds": one.library_seconds,
             "library": one.what}
            for one in speeds
        ]  # fmt: skip
        print_json({"scores": scores(found), "prompts": rows, "speeds": times})
    else:
        results().print(text, markup=False)
    return DONE


def _progress(result: PromptResult) -> None:
    said = f"{result.source}: {result.name}: {result.passed} of {result.samples} passed"
    messages().print(said + (f" ({result.detail[:120]})" if result.detail else ""), markup=False)
