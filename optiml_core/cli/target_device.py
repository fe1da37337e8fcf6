"""Which device runs and which GPU predictions are for: ``--device`` and ``--gpu``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optiml_core.cli.failure import CommandFailure, bad_input
from optiml_core.records import Failure
from optiml_core.toolchain import GpuFacts, gpu_facts

DEFAULT_GPU = "H100"


def choose_device(text: str) -> str:
    """``auto`` becomes ``cuda:0`` where a GPU can be used, else ``emulator``."""
    if text == "auto":
        return "cuda:0" if gpu_here() is not None else "emulator"
    if text == "emulator" or re.fullmatch(r"cuda:\d+", text):
        return text
    raise bad_input(f"unknown device {text!r}", cure="use auto, emulator or cuda:N")


def gpu_here() -> str | None:
    """The name of the first usable GPU of this machine, or None."""
    return None


def choose_gpu(text: str | None, flags: Sequence[str], device: str) -> GpuFacts:
    """``--gpu``, else the GPU here, else the project's ``-arch``, else H100."""
    wanted = text or (gpu_here() if device.startswith("cuda") else None) or _architecture(flags) or DEFAULT_GPU
    facts = gpu_facts(wanted)
    if isinstance(facts, Failure):
        if text is None:
            facts = gpu_facts(DEFAULT_GPU)
        if isinstance(facts, Failure):
            raise CommandFailure(facts, 2)
    return facts


def _architecture(flags: Sequence[str]) -> str | None:
    for index, flag in enumerate(flags):
        match = re.search(r"sm_(\d+)", flag)
        if match and flag.startswith(("-arch", "--gpu-architecture", "-gencode", "--generate-code")):
            return f"sm_{match[1]}"
        if flag in ("-arch", "-gencode") and index + 1 < len(flags):
            match = re.search(r"sm_(\d+)", flags[index + 1])
            if match:
                return f"sm_{match[1]}"
    return None
