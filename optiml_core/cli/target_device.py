"""Which device runs and which GPU predictions are for: ``--device`` and ``--gpu``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from optiml_core.cli.failure import MISSING, CommandFailure, bad_input
from optiml_core.device.cuda import find_gpus
from optiml_core.device.recorded import read_record
from optiml_core.records import Failure
from optiml_core.toolchain import DEFAULT_GPU, GpuFacts, architecture_of, discover, gpu_facts


def choose_device(text: str) -> str:
    """``auto`` becomes ``cuda:0`` where a GPU can be used, else ``emulator``."""
    if text == "auto":
        return "cuda:0" if gpu_here() is not None else "emulator"
    if text == "emulator" or re.fullmatch(r"cuda:\d+|recorded:.+", text):
        return text
    raise bad_input(f"unknown device {text!r}", cure="use auto, emulator, cuda:N or recorded:FOLDER")


def choose_running_device(text: str) -> str:
    """The same for commands that cannot do without running kernels: the emulator needs its compiler."""
    device = choose_device(text)
    compiler = discover().tool("g++")
    if device == "emulator" and compiler.path is None:
        raise CommandFailure(
            Failure("missing-tool", f"the emulator needs g++: {compiler.reason}", cure=compiler.cure), MISSING
        )
    return device


def gpu_here(index: int = 0) -> str | None:
    """The name of GPU ``index`` of this machine if it can be used, else None."""
    inventory = find_gpus()
    return inventory.gpus[index].name if inventory.usable and index < len(inventory.gpus) else None


def choose_gpu(text: str | None, flags: Sequence[str], device: str) -> GpuFacts:
    """``--gpu``, else the GPU here or of the record, else the project's ``-arch``, else H100."""
    here = gpu_here(int(device[5:])) if device.startswith("cuda") else None
    if device.startswith("recorded:"):
        record = read_record(Path(device.removeprefix("recorded:")))
        if isinstance(record, Failure):
            raise CommandFailure(record, 2)
        here = str(record.about.get("gpu", "")) or None
    wanted = text or here or architecture_of(flags) or DEFAULT_GPU
    facts = gpu_facts(wanted)
    if isinstance(facts, Failure):
        if text is None:
            facts = gpu_facts(DEFAULT_GPU)
        if isinstance(facts, Failure):
            raise CommandFailure(facts, 2)
    return facts
