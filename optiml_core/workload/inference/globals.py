"""`__constant__` and `__device__` variables that a kernel reads: what to fill them with."""

from __future__ import annotations

from optiml_core.records import ElementType
from optiml_core.source import GlobalVariable, TranslationUnit, element_type_of
from optiml_core.workload.elements import is_float, pointee_spelling
from optiml_core.workload.expression import Expression, Number
from optiml_core.workload.inference import frames
from optiml_core.workload.inference.context import Context
from optiml_core.workload.inference.evaluation import evaluate
from optiml_core.workload.inference.kernel_facts import KernelFacts
from optiml_core.workload.inference.syntax import (
    arguments_of,
    expression_fragment,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import Quantity
from optiml_core.workload.items import Buffer, Content, Item


def global_buffers(context: Context, unit: TranslationUnit, facts: KernelFacts) -> tuple[list[Item], tuple[str, ...]]:
    """Buffers for the variables in constant or device memory that the kernel names and the file does not set."""
    items: list[Item] = []
    for variable in unit.globals:
        if variable.space not in ("constant", "device") or variable.initialiser or variable.name not in facts.words:
            continue
        element = element_of_global(variable)
        length = _length(context, variable)
        if element is None or length is None:
            continue
        items.append(Buffer(variable.name, Number(length), _content(context, variable, element, length)))
    return items, tuple(item.name for item in items if isinstance(item, Buffer))


def element_of_global(variable: GlobalVariable) -> ElementType | None:
    """The element type of a variable at file scope, if it is built in and no pointer."""
    return None if "*" in variable.type else element_type_of(pointee_spelling(variable.type))


def _length(context: Context, variable: GlobalVariable) -> int | None:
    count = 1
    for extent in variable.extents:
        fragment = expression_fragment(extent)
        value = evaluate(context, fragment, None, 0) if fragment is not None else None
        if not isinstance(value, Quantity):
            return None
        count *= int(value.value)
    return count


def _content(context: Context, variable: GlobalVariable, element: ElementType, length: int) -> Content:
    """A single number is what the host copies into it; arrays hold ordinary values."""
    if length == 1:
        for function, call in context.program.calls.get("cudaMemcpyToSymbol", ()):
            arguments = arguments_of(call)
            if len(arguments) < 2 or path_of(without_casts(arguments[0])) != variable.name:
                continue
            frame = frames.frame_of(context, function)
            value = evaluate(context, arguments[1], frame, call.node.start_byte)
            if isinstance(value, Quantity):
                held: Expression = Number(value.value)
                return Content("constant", (held,))
    return Content("normal") if is_float(element.dtype) else Content("uniform")
