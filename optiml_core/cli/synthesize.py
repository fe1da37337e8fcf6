"""``optiml synthesize "TEXT" | FILE:LINE``: a checked kernel from a description, or one question."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optiml_core.cli.configured import open_models
from optiml_core.cli.failure import BAD_INPUT, DONE, NEGATIVE, CommandFailure, bad_input
from optiml_core.cli.output import messages, print_json, results
from optiml_core.cli.output_file import check_writable
from optiml_core.cli.target import split_target
from optiml_core.cli.target_device import choose_gpu, choose_running_device
from optiml_core.device.cuda import CudaDevice
from optiml_core.device.protocol import Device
from optiml_core.language_models import SamplingSettings
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.source import SourceFile
from optiml_core.synthesis import Synthesized, synthesize
from optiml_core.synthesis.checking import INCLUDES
from optiml_core.synthesis.draft_time import measured_seconds, predicted_seconds
from optiml_core.synthesis.synthesize import TimeOf
from optiml_core.toolchain import discover


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0: a kernel that passed its checks; 1: a question or a failed check; 2 bad input; 3 missing."""
    text = description(arguments.description)
    check_writable(arguments.output, arguments.description)
    device = open_device(choose_running_device(arguments.device), discover())
    if isinstance(device, Failure):
        raise CommandFailure(device)
    models = [] if arguments.recipes_only else open_models()
    try:
        settings = SamplingSettings(samples=max(arguments.samples, 1))
        answer = synthesize(text, device, models, time_on(device), settings)
    finally:
        device.close()
    file = None
    if answer.passed and arguments.output:
        file = arguments.output
        try:
            Path(file).write_text(INCLUDES + answer.source, encoding="utf-8")
        except OSError as error:
            raise bad_input(f"cannot be written: {error.strerror}", file=file, cure="name another file") from error
    if arguments.json:
        print_json(answer_json(answer, file))
    else:
        _print(answer, file)
    return DONE if answer.passed else NEGATIVE


def time_on(device: Device) -> TimeOf:
    """How candidates are ordered: measured on a GPU, else predicted for the GPU that was chosen."""
    if isinstance(device, CudaDevice):
        return lambda draft: measured_seconds(draft, device)
    gpu, toolchain = choose_gpu(None, (), "emulator"), discover()
    return lambda draft: predicted_seconds(draft, device, gpu, toolchain)


def description(argument: str) -> str:
    """The text itself, or the comment around ``LINE`` of ``FILE``."""
    name, line = split_target(argument)
    if line is None or not line.isdigit():
        return argument
    source = SourceFile.read(name)
    if isinstance(source, Failure):
        raise CommandFailure(source, BAD_INPUT)
    text = comment_at(source.text.splitlines(), int(line))
    if not text:
        raise bad_input(f"no comment in line {line}", file=name, line=int(line), cure="name a line of a comment")
    return text


def comment_at(lines: list[str], line: int) -> str:
    """The whole comment (neighbouring ``//`` lines or one ``/* */``) that covers a line, from 1; "" if none does."""
    if not 1 <= line <= len(lines):
        return ""
    at = line - 1
    if _is_line_comment(lines[at]):
        first, last = at, at
        while first > 0 and _is_line_comment(lines[first - 1]):
            first -= 1
        while last + 1 < len(lines) and _is_line_comment(lines[last + 1]):
            last += 1
        return "\n".join(lines[first : last + 1])
    first = at
    while first >= 0 and "/*" not in lines[first]:
        if first < at and "*/" in lines[first]:
            return ""
        first -= 1
    if first < 0 or not lines[first].lstrip().startswith("/*"):
        return ""
    last = first
    while last < len(lines) - 1 and "*/" not in lines[last]:
        last += 1
    return "\n".join(lines[first : last + 1]) if last >= at else ""


def _is_line_comment(line: str) -> bool:
    plain = line.strip()
    return plain.startswith("//") and not plain.startswith(("// optiml:", "// optiml launch:"))


def answer_json(answer: Synthesized, file: str | None) -> dict[str, Any]:
    """design.md's object: ``{specification, question, kernel, file, workload, verdict}``."""
    specification = answer.specification
    return {
        "specification": None if specification is None else {
            "name": specification.name,
            "pattern": specification.pattern,
            "parameters": [
                {"name": one.name, "type": one.type, "role": one.role, "shape": list(one.shape)}
                for one in specification.parameters
            ],
            "reference": specification.reference,
            "edge_rules": list(specification.edge_rules),
            "not_understood": list(specification.not_understood),
        },
        "question": answer.question or None,
        "not_understood": list(answer.not_understood),
        "origin": answer.origin,
        "reader": answer.reader,
        "notes": list(answer.notes),
        "kernel": answer.source or None,
        "file": file,
        "workload": answer.workload or None,
        "verdict": {
            "passed": answer.passed,
            "checks": [{"name": one.name, "result": one.result, "detail": one.detail} for one in answer.checks],
        } if answer.checks else None,
    }  # fmt: skip


def _print(answer: Synthesized, file: str | None) -> None:
    console = results()
    for note in answer.notes:
        messages().print(f"not used: {note}", markup=False)
    if answer.question:
        console.print(answer.question, markup=False)
        return
    specification = answer.specification
    assert specification is not None
    said = messages()
    said.print(f"{specification.pattern}: {specification.reference}", markup=False)
    if answer.origin != "recipe":
        said.print(f"  written by the model {answer.origin}", markup=False)
    if answer.not_understood:
        said.print(f"  our grammar did not understand: {', '.join(answer.not_understood)}", markup=False)
    for one in specification.parameters:
        shape = " x ".join(one.shape)
        said.print(f"  {one.type} {one.name}{f' ({shape})' if shape else ''}: {one.role}", markup=False)
    for rule in specification.edge_rules:
        said.print(f"  rule: {rule}", markup=False)
    for check in answer.checks:
        said.print(f"  {check.result}: {check.name}: {check.detail}", markup=False)
    if not answer.passed:
        console.print("The drafted kernel did not pass its checks and is not offered.")
    elif file is None:
        print(answer.source, end="")
    else:
        said.print(f"written: {file}", markup=False)
