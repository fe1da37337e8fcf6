"""The proof kernels: originals in ``kernels/*.cu``, their wrong and correct variants as named edits in ``*.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from attrs import frozen

from optiml_core.device.protocol import Device
from optiml_core.records import Failure, LaunchChange, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.verification import Verifier
from optiml_core.workload import Workload, find_workload, launch_change_of

KERNELS = Path(__file__).parent / "kernels"


@frozen
class ProofVariant:
    """One wrong or correct variant. ``full_verdict``: only the full verdict is asked to see that it is wrong."""

    kernel: str
    kind: Literal["wrong", "correct"]
    name: str
    edits: tuple[tuple[str, str], ...]
    full_verdict: bool

    def __str__(self) -> str:
        return f"{self.kernel}: {self.name}"


def kernel_names() -> list[str]:
    return sorted(path.stem for path in KERNELS.glob("*.cu"))


def original_text(kernel: str) -> str:
    return (KERNELS / f"{kernel}.cu").read_text()


def variants() -> list[ProofVariant]:
    found: list[ProofVariant] = []
    for kernel in kernel_names():
        data = tomllib.loads((KERNELS / f"{kernel}.toml").read_text())
        for kind in ("wrong", "correct"):
            for one in data[kind]:
                edits = tuple((before, after) for before, after in one["edits"])
                found.append(ProofVariant(kernel, kind, one["name"], edits, one.get("full_verdict", False)))
    return found


def edited(variant: ProofVariant) -> str:
    """The original's text with the edits; each must match exactly once."""
    text = original_text(variant.kernel)
    for before, after in variant.edits:
        assert text.count(before) == 1, f"{variant}: {before!r} is found {text.count(before)} times"
        text = text.replace(before, after)
    return text


def workload_of(text: str, kernel: str) -> Workload:
    unit = parse(SourceFile(f"{kernel}.cu", text.encode()))
    found = unit.kernel(kernel)
    assert found is not None, kernel
    return find_workload(unit, found)


def variant_of(text: str, kernel: str, original: Workload | None = None) -> Variant:
    """A variant with the launch that its own comment declares, relative to the original's; without a change where
    the two cannot be told apart, which the verdict must then see for itself."""
    change: LaunchChange | Failure = LaunchChange()
    if original is not None:
        unit = parse(SourceFile(f"{kernel}.cu", text.encode()))
        found = unit.kernel(kernel)
        assert found is not None, kernel
        change = launch_change_of(original, unit, found)
    if isinstance(change, Failure):
        change = LaunchChange()
    return Variant(f"{kernel}.cu", text.encode(), kernel, launch_change=change)


def verifier_of(kernel: str, device: Device) -> Verifier:
    text = original_text(kernel)
    return Verifier(variant_of(text, kernel), workload_of(text, kernel), device)
