"""The workload of a kernel of one file."""

from __future__ import annotations

from optiml_core.records import Kernel
from optiml_core.source import TranslationUnit
from optiml_core.workload.assembling import workload_from_declaration
from optiml_core.workload.declaration import parse_declaration
from optiml_core.workload.record import Workload


def find_workload(unit: TranslationUnit, kernel: Kernel, toml: str | None = None) -> Workload:
    """The workload of ``kernel``: what the comment above it and ``toml`` (the text of a workload file) declare.

    Never fails: errors stand in ``.failures``, remarks in ``.problems``; ``resolve_launch`` gives the first failure.
    """
    declaration = parse_declaration(unit.source.text, kernel, toml)
    return workload_from_declaration(declaration, kernel, unit.source.slice(kernel.body_range))
