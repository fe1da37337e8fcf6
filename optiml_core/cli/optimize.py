"""``optiml optimize FILE[:KERNEL]``: search for a faster, verified variant."""

from __future__ import annotations

import argparse
import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from optiml_core.cli.compile_flags import choose_flags
from optiml_core.cli.configured import open_models
from optiml_core.cli.failure import BAD_INPUT, DONE, NEGATIVE, CommandFailure, bad_input
from optiml_core.cli.optimize_text import print_result
from optiml_core.cli.output import print_json
from optiml_core.cli.output_file import check_writable
from optiml_core.cli.progress import ProgressLine
from optiml_core.cli.target import Target, open_target
from optiml_core.cli.target_device import choose_gpu, choose_running_device
from optiml_core.cli.verdict_text import verdict_json
from optiml_core.cli.workload_file import read_workload_file
from optiml_core.records import Failure, Measurement, Variant
from optiml_core.report.patch import apply_to_file, write_whole
from optiml_core.rewrites import CATALOGUE
from optiml_core.search.budget import Budget
from optiml_core.search.callers import files_that_launch, workspace_root
from optiml_core.search.freedoms import UnknownFreedom, parse_allow
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import SearchResult
from optiml_core.search.run import optimize
from optiml_core.store import Store

DEFAULT_SECONDS = {"emulator": 60.0, "cuda": 120.0}


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 with a better verified variant, 1 without, 2 bad input, 3 something missing."""
    target = open_target(arguments.target, arguments.kernel, needs_kernel=True)
    problem = make_problem(arguments, target)
    budget = make_budget(arguments, problem.device)
    for output in (arguments.patch, arguments.report):
        check_writable(output, str(target.path))
    # Loading a local model takes long and cannot be told to stop: an interrupt ends it, as nothing is under way yet.
    models = [] if arguments.rewrites_only else open_models()
    stop = _StopOnSignal()
    progress = ProgressLine(arguments.progress, budget.seconds)
    with progress.shown(), stop:
        result = optimize(
            problem,
            budget,
            processes=arguments.jobs or min(8, os.cpu_count() or 1),
            store=Store.open(),
            fresh=arguments.fresh,
            models=models,
            on_event=progress,
            cancelled=stop.requested,
        )
    if isinstance(result, Failure):
        raise CommandFailure(result)
    try:
        written = _write_outputs(arguments, target, result, problem.other_files)
    except CommandFailure:
        # What was found is not lost with the file that could not be written.
        if not arguments.json:
            print_result(result, [])
        raise
    if arguments.json:
        print_json(result_json(result))
    else:
        print_result(result, written)
    return DONE if result.best is not None else NEGATIVE


def make_problem(arguments: argparse.Namespace, target: Target) -> SearchProblem:
    """The search problem that the arguments describe."""
    assert target.kernel is not None
    flags = choose_flags(arguments, target.path)
    device = choose_running_device(arguments.device)
    try:
        allow = parse_allow(arguments.allow)
    except UnknownFreedom as error:
        raise bad_input(str(error)) from error
    source = target.unit.source
    root = workspace_root(target.kernel, source.path)
    return SearchProblem(
        original=Variant(source.path, source.data, target.kernel.qualified, flags),
        device=device,
        gpu=choose_gpu(arguments.gpu, flags, device).name,
        toml=read_workload_file(arguments.workload),
        allow=allow,
        seed=arguments.seed,
        profile=arguments.profile,
        other_files=files_that_launch(target.kernel, source.path, root),
        root=root,
        template_arguments=target.template_arguments,
        rewrites=choose_rewrites(arguments.rewrite),
    )


def choose_rewrites(names: list[str]) -> tuple[str, ...]:
    """The rewrites that ``--rewrite`` names; raises for one that there is not."""
    known = [rewrite.name for rewrite in CATALOGUE]
    for name in names:
        if name not in known:
            raise bad_input(f"there is no rewrite called {name}", cure=f"rewrites: {', '.join(known)}")
    return tuple(names)


def make_budget(arguments: argparse.Namespace, device: str) -> Budget:
    """``--seconds`` and ``--evaluations``; with evaluations alone, no limit of time, so that runs repeat."""
    for name in ("seconds", "evaluations", "jobs"):
        value = getattr(arguments, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise bad_input(f"--{name} must be a number above 0")
    seconds = arguments.seconds
    if seconds is None and arguments.evaluations is None:
        # What was recorded replays in no time; it ends by itself where the record does.
        seconds = DEFAULT_SECONDS.get(device.partition(":")[0])
    return Budget(seconds=seconds, evaluations=arguments.evaluations)


class _StopOnSignal:
    """SIGINT and SIGTERM ask the search to stop with the best so far; a second one ends at once."""

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[int, Any] = {}

    def requested(self) -> bool:
        return self._requested

    def __enter__(self) -> _StopOnSignal:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True


def _write_outputs(
    arguments: argparse.Namespace, target: Target, result: SearchResult, other_files: Mapping[str, bytes]
) -> list[str]:
    written: list[str] = []
    if arguments.patch and result.patch:
        _raise_if_failed(write_whole(Path(arguments.patch), result.patch.encode("utf-8", "surrogateescape")))
        written.append(arguments.patch)
    if arguments.report:
        from optiml_core.report.html import html_report

        _raise_if_failed(write_whole(Path(arguments.report), html_report(result).encode()))
        written.append(arguments.report)
    if arguments.apply and result.best is not None:
        source = target.unit.source
        _raise_if_failed(apply_to_file(target.path, source.data, result.best.variant.data))
        written.append(str(target.path))
        for path, data in result.best.variant.companions:
            _raise_if_failed(apply_to_file(Path(path), other_files[path], data))
            written.append(path)
    return written


def _raise_if_failed(failure: Failure | None) -> None:
    if failure is not None:
        raise CommandFailure(failure, BAD_INPUT)


def _time_json(measurement: Measurement | None) -> dict[str, Any] | None:
    return None if measurement is None else {"time_us": measurement.time * 1e6, "kind": measurement.kind}


def result_json(result: SearchResult) -> dict[str, Any]:
    """The result as design.md section 6 has it."""
    best = result.best
    measurement = best.measurement if best else None
    roofline = best.roofline if best else result.baseline.roofline
    return {
        "kernel": result.kernel,
        "device": result.device,
        "target": result.target,
        "workload": {"origin": result.origin, "launches": list(result.launches)},
        "baseline": _time_json(result.baseline.measurement),
        "best": _time_json(measurement),
        "speedup": None
        if measurement is None
        else {
            "value": measurement.speedup,
            "low": measurement.low,
            "high": measurement.high,
            "kind": measurement.kind,
        },
        "roofline": None if roofline is None else {"fraction": roofline.fraction, "bound_by": roofline.bound_by},
        "verdict": verdict_json(best.verdict if best else result.baseline.verdict),
        "steps": [
            {
                "name": step.step.name,
                "parameters": dict(step.step.parameters),
                "rationale": step.step.rationale,
                "evidence": dict(step.evidence),
                "gain": step.gain,
            }
            for step in result.trajectory
        ],
        "patch": result.patch,
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "stopped": result.stopped,
        "notes": list(result.notes),
        "spent": dict(result.spent),
    }
