"""What is in this file? Kernels, launches, loops and accesses of `.cu` text; edits of its bytes."""

from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.edits import apply_edits, unified_diff, unified_diff_bytes
from optiml_core.source.parsing import parse
from optiml_core.source.source_file import SourceFile
from optiml_core.source.translation_unit import (
    DeviceFunction,
    GlobalVariable,
    Include,
    Macro,
    StructDefinition,
    StructMember,
    TranslationUnit,
    TypeAlias,
)

__all__ = [
    "DeviceFunction",
    "GlobalVariable",
    "Include",
    "Macro",
    "SourceFile",
    "StructDefinition",
    "StructMember",
    "TranslationUnit",
    "TypeAlias",
    "apply_edits",
    "element_type_of",
    "parse",
    "unified_diff",
    "unified_diff_bytes",
]
