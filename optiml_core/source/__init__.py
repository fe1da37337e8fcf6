"""What is in this file? Kernels, launches, loops and accesses of `.cu` text; edits of its bytes."""

from optiml_core.source.accesses import MemoryAccess, accesses
from optiml_core.source.affine_form import AffineForm
from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.calls import Barrier, FunctionCall, barriers, calls_in
from optiml_core.source.edits import apply_edits, unified_diff, unified_diff_bytes
from optiml_core.source.exact_types import exact_types
from optiml_core.source.included_files import UnitWithIncludes, parse_with_includes
from optiml_core.source.kernel_contents import (
    KernelArray,
    arrays_in,
    form_of,
    integer_constants,
    shared_arrays,
)
from optiml_core.source.loops import Loop, loops
from optiml_core.source.macro_calls import MacroUse, check_edits, enclosing_macro_call, macro_calls
from optiml_core.source.normalised import normalised_source
from optiml_core.source.parsing import parse
from optiml_core.source.polynomials import Polynomial
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
    "AffineForm",
    "Barrier",
    "DeviceFunction",
    "FunctionCall",
    "GlobalVariable",
    "Include",
    "KernelArray",
    "Loop",
    "Macro",
    "MacroUse",
    "MemoryAccess",
    "Polynomial",
    "SourceFile",
    "StructDefinition",
    "StructMember",
    "TranslationUnit",
    "TypeAlias",
    "UnitWithIncludes",
    "accesses",
    "apply_edits",
    "arrays_in",
    "barriers",
    "calls_in",
    "check_edits",
    "element_type_of",
    "enclosing_macro_call",
    "exact_types",
    "form_of",
    "integer_constants",
    "loops",
    "macro_calls",
    "normalised_source",
    "parse",
    "parse_with_includes",
    "shared_arrays",
    "unified_diff",
    "unified_diff_bytes",
]
