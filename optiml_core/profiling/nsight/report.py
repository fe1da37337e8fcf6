"""Reads Nsight Compute reports (`.ncu-rep`) with NVIDIA's own `ncu-report` package, never its CSV.

A report is a file from elsewhere that a native library opens, so that happens in a limited child process (and, by the
callers, only in trusted workspaces). Paths inside a report are compared with files in question; they are never opened.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from optiml_core.records import Failure
from optiml_core.toolchain import ProcessLimits, run_limited

LARGEST_REPORT = 256 << 20
LIMITS = ProcessLimits(cpu_seconds=60.0, seconds=60.0, memory=8 << 30, output=256 << 20)
CHILD = Path(__file__).parent / "child.py"
# Of ncu-report's enumerations MsgType and SpeedupType.
OPTIMIZATION, WARNING = 2, 3
GLOBAL = 2


@frozen
class InstructionCounters:
    """One machine instruction of a kernel: where it comes from, its text, and ncu's counters by ncu's names."""

    file: str
    line: int
    text: str
    values: Mapping[str, float]


@frozen
class RuleResult:
    """What one of ncu's rules said. ``speedup`` in percent of the run time (None: no estimate); ``is_global`` says that
    it is of the whole kernel, else of the use of one unit."""

    identifier: str
    title: str
    message: str
    is_finding: bool  # an optimization or a warning, and not a remark that all is well
    speedup: float | None = None
    is_global: bool = False
    focus: Mapping[str, float] = field(factory=dict)


@frozen
class ReportedKernel:
    """One profiled launch as a report has it. ``metrics``: numbers and texts by ncu's names."""

    function: str
    demangled: str
    mangled: str
    metrics: Mapping[str, float | str]
    instructions: tuple[InstructionCounters, ...]
    rules: tuple[RuleResult, ...]
    opcodes: Mapping[str, float]  # executed warp instructions
    sources: Mapping[str, str]  # path -> text of the files that the report carries

    def number(self, *names: str) -> float | None:
        """The first of these metrics that the report has; None if it has none of them. 0 would be a measurement."""
        for name in names:
            value = self.metrics.get(name)
            if isinstance(value, (int, float)):
                return float(value)
        return None

    @property
    def gpu(self) -> str:
        name = self.metrics.get("device__attribute_display_name")
        return str(name) if name else "unknown GPU"


def read_report(path: Path) -> tuple[ReportedKernel, ...] | Failure:
    """Every kernel of a report, in the order of the launches.

    A file that is none, is damaged, too large or holds no kernel is a Failure ``bad-input`` that says so; without
    ncu-report it is ``missing-package``.
    """
    package = importlib.util.find_spec("ncu_report")
    if package is None or package.origin is None:
        return Failure("missing-package", "the package ncu-report is not installed", cure="pip install 'optiml[gpu]'")
    unreadable = _why_unreadable(path)
    if unreadable:
        return Failure("bad-input", unreadable, str(path))
    library = str(Path(package.origin).parents[1])
    with tempfile.TemporaryDirectory(prefix="optiml-report-") as folder:
        done = run_limited(
            [sys.executable, "-I", "-S", str(CHILD), os.path.abspath(path), library],
            folder,
            read=[os.path.abspath(path), str(CHILD), library, sys.prefix, sys.base_prefix],
            execute=[sys.prefix, sys.base_prefix],
            limits=LIMITS,
        )
    if isinstance(done, Failure):
        # The native reader has brought its process down: that is what a damaged report can do.
        return Failure("bad-input", f"not a readable Nsight Compute report: {done.message}", str(path))
    answer = _answer_of(done.output)
    if "kernels" not in answer:
        reason = str(answer.get("error", "the reader ended without an answer")).strip()
        return Failure("bad-input", f"not a readable Nsight Compute report: {reason}", str(path))
    kernels = tuple(_kernel(entry) for entry in answer["kernels"] if entry["is_kernel"])
    if not kernels:
        cure = "profile kernels, not ranges: ncu --replay-mode kernel"
        return Failure("bad-input", "the report holds no kernel", str(path), cure=cure)
    return kernels


def _why_unreadable(path: Path) -> str:
    try:
        if not path.exists():
            return "no such report"
        if not path.is_file():
            return "this is no file"
        size = path.stat().st_size
        if size == 0:
            return "the file is empty"
        if size > LARGEST_REPORT:
            return f"larger than {LARGEST_REPORT >> 20} MiB; profile fewer kernels or sections"
        with path.open("rb") as opened:
            if opened.read(3) != b"NVR":
                return "not an Nsight Compute report (.ncu-rep): it does not begin as one"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def _answer_of(output: str) -> dict[str, Any]:
    """The child's last line; whatever the native library printed before it does not matter."""
    lines = output.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _kernel(entry: Mapping[str, Any]) -> ReportedKernel:
    return ReportedKernel(
        function=entry["function"],
        demangled=entry["demangled"],
        mangled=entry["mangled"],
        metrics={name: value for name, value in entry["metrics"].items() if isinstance(value, (int, float, str))},
        instructions=tuple(
            InstructionCounters(file, int(line), text, values) for file, line, text, values in entry["instructions"]
        ),
        rules=tuple(_rule(rule) for rule in entry["rules"]),
        opcodes=entry["opcodes"],
        sources=entry["sources"],
    )


def _rule(entry: Mapping[str, Any]) -> RuleResult:
    message = entry.get("rule_message") or {}
    estimate = entry.get("speedup_estimation") or {}
    speedup = estimate.get("speedup")
    return RuleResult(
        identifier=str(entry.get("rule_identifier", "")),
        title=str(message.get("title", "")),
        message=str(message.get("message", "")),
        is_finding=message.get("type") in (OPTIMIZATION, WARNING),
        speedup=float(speedup) if isinstance(speedup, (int, float)) else None,
        is_global=estimate.get("type") == GLOBAL,
        focus={
            str(metric.get("name", "")): float(metric["value"])
            for metric in entry.get("focus_metrics") or ()
            if isinstance(metric.get("value"), (int, float))
        },
    )
