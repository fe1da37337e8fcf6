"""Which GPU is meant: facts by a name as people or tools write it, or by an architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping

from optiml_core.records import Failure
from optiml_core.toolchain.gpu_record import GpuFacts, capability_of
from optiml_core.toolchain.gpu_table import MODELS

__all__ = ["COMPILABLE", "DEFAULT_GPU", "GpuFacts", "capability_of", "compile_architecture", "gpu_facts", "known_gpus"]

DEFAULT_GPU = "NVIDIA H100"

# Which model stands for an architecture, and the names that NVIDIA's tools print for variants of one model.
_REPRESENTATIVES: Mapping[str, str] = {
    "sm_75": "NVIDIA T4",
    "sm_80": "NVIDIA A100",
    "sm_86": "NVIDIA GeForce RTX 3090",
    "sm_89": "NVIDIA GeForce RTX 4090",
    "sm_90": "NVIDIA H100",
    "sm_100": "NVIDIA B200",
    "sm_120": "NVIDIA GeForce RTX 5090",
}
_DROPPED = ("V100", "P100", "GTX 10", "TITAN V", "sm_70", "sm_72", "sm_6", "sm_5", "sm_3")


def known_gpus() -> tuple[GpuFacts, ...]:
    """All GPUs of the table, by compute capability."""
    return MODELS


def gpu_facts(name_or_architecture: str | None = None) -> GpuFacts | Failure:
    """The facts of a GPU by its name or architecture; None is the default, H100.

    Takes what people and tools write: ``"H100"``, ``"NVIDIA H100 80GB HBM3"``, ``"rtx 4090"``, ``"sm_90a"``,
    ``"compute_90"``, ``"9.0"``. An architecture gives the model that stands for it. Unknown: Failure ``bad-input``.
    """
    wanted = name_or_architecture or DEFAULT_GPU
    architecture = _architecture_in(wanted)
    representative = _REPRESENTATIVES.get(architecture or "")
    if representative is not None:
        return next(facts for facts in MODELS if facts.name == representative)
    words = _words(wanted)
    # L40S before L40 and L4: the longest name whose words all occur.
    for facts in sorted(MODELS, key=lambda facts: -len(facts.name)):
        if _words(facts.name) <= words:
            return facts
    names = ", ".join(facts.name.removeprefix("NVIDIA ") for facts in MODELS)
    dropped = any(word.lower().replace(" ", "") in wanted.lower().replace(" ", "") for word in _DROPPED)
    why = ": CUDA 13 no longer compiles for GPUs before compute capability 7.5" if dropped else ""
    return Failure(
        "bad-input",
        f"nothing is known of the GPU {wanted!r}{why}",
        cure=f"name one of: {names}; or one of {', '.join(_REPRESENTATIVES)}",
    )


def compile_architecture(architecture: str) -> str | Failure:
    """``"sm_90"`` for ``"sm_90"``, ``"compute_90"``, ``"9.0"`` or ``"90"``; a suffix (``sm_90a``) is kept.

    Failure for what CUDA 13's compilers do not take.
    """
    found = re.fullmatch(r"(?:sm_|compute_|lto_)?(\d{1,2})\.?(\d)([af]?)", architecture.strip().lower())
    if found is None:
        return Failure("bad-input", f"{architecture!r} is not a GPU architecture", cure="write sm_90, for example")
    capability = (int(found[1]), int(found[2]))
    if capability not in COMPILABLE:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in COMPILABLE)
        return Failure("bad-input", f"CUDA 13.0 does not compile for {architecture}", cure=f"use one of {known}")
    return f"sm_{found[1]}{found[2]}{found[3]}"


# nvcc 13.0 --list-gpu-code.
COMPILABLE: tuple[tuple[int, int], ...] = (
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 7),
    (8, 8),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 3),
    (11, 0),
    (12, 0),
    (12, 1),
)


def _architecture_in(text: str) -> str | None:
    found = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})\.?(\d)[af]?", text.strip().lower())
    return None if found is None else f"sm_{found[1]}{found[2]}"


def _words(name: str) -> frozenset[str]:
    spaced = re.sub(r"(?i)\b(rtx|gtx)[\s_-]*(?=\d)", r"\1 ", name.replace("_", " ").replace("-", " "))
    return frozenset(spaced.lower().split()) - {"nvidia", "geforce", "tesla", "rtx"}
