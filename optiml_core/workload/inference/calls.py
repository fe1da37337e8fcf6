"""Calls in host code: allocations, conversions, arithmetic of the standard library, and functions of the file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import allocations, definitions, evaluation, frames
from optiml_core.workload.inference.context import Context, Frame
from optiml_core.workload.inference.program import Event, Function
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    expanded,
    expression_fragment,
    plain_name,
    without_casts,
)
from optiml_core.workload.inference.values import (
    HostValue,
    Listing,
    Pointer,
    Quantity,
    Unknown,
    called,
    extents_of,
    number,
    plain_number,
    rounded_down,
    rounded_up,
)

_CEIL_DIV = re.compile(
    r"(i?_?(ceil|up)_?div(_?up)?|i?_?div_?(round_?)?(up|ceil)|ceil_?divide|cdiv|updiv|round_?up_?div|divup|num_?blocks|get_?blocks)",
    re.IGNORECASE,
)
_MATH: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "sqrtf": math.sqrt,
    "log2": math.log2,
    "log2f": math.log2,
    "log": math.log,
    "exp": math.exp,
    "round": round,
    "abs": abs,
    "fabs": abs,
    "fabsf": abs,
}
_FROM_OUTSIDE = re.compile(
    r"(ato[ifl]l?|strto\w+|sto[a-z]+|getenv|scanf|fscanf|\w*[cC]md[lL]ine\w*|\w*parse\w*|getopt\w*)"
)
# What a program that is started alone and without threads gets.
_KNOWN_CALLS = {"omp_get_thread_num": 0, "omp_get_num_threads": 1, "omp_get_max_threads": 1}
_TYPE_NAMES = {
    "int", "size_t", "unsigned", "long", "float", "double", "uint", "uint32_t", "int64_t", "uint64_t", "int32_t",
    "short", "char",
}  # fmt: skip


def called_value(context: Context, call: Fragment, frame: Frame | None, position: int) -> HostValue:
    """The value of a call."""
    name, arguments = called_name(call), arguments_of(call)
    line = call.node.start_point[0] + 1
    function = call.child("function") or call.child("type")
    written = function.text if function else ""
    if call.node.type == "compound_literal_expression":
        name, listed = plain_name(written), call.child("value")
        arguments = listed.named() if listed else []

    def value(at: int) -> HostValue:
        if at >= len(arguments):
            return Unknown(f"`{name}` has too few arguments", line)
        return evaluation.evaluate(context, arguments[at], frame, position)

    macro = context.program.macros.get(name)
    if macro is not None and macro.parameters is not None:
        body = expression_fragment(expanded(macro, [f"({one.text})" for one in arguments]))
        if body is None:
            return Unknown(f"the macro `{name}` is no expression", line)
        return evaluation.evaluate(context, body, frame, position)
    if re.match(r"(static|reinterpret|const|dynamic)_cast\b", written):
        return evaluation.converted(value(0), written)
    if name in _TYPE_NAMES or written in _TYPE_NAMES:
        return evaluation.converted(value(0), written)
    if function is not None and function.node.type == "parenthesized_expression" and len(arguments) == 1:
        # `(clock_t)(x)` reads like a call.
        return evaluation.converted(value(0), written)
    if name in _KNOWN_CALLS:
        return number(_KNOWN_CALLS[name])
    if name in ("dim3", "make_uint3", "make_int3"):
        return extents([value(at) for at in range(len(arguments))], line)
    if re.fullmatch(r"make_u?(char|short|int|long|longlong|float|double)[1-4]", name):
        return Listing(tuple(value(at) for at in range(len(arguments))))
    if name in ("raw_pointer_cast", "data", "get", "begin", "device_pointer_cast", "move", "forward"):
        return _pointer_inside(context, call, function, arguments, frame, position)
    if name in ("size", "length") and function is not None and function.node.type == "field_expression":
        return _length(context, function, frame, position)
    found = _arithmetic(name, [value(at) for at in range(len(arguments))]) if _is_arithmetic(name) else None
    if found is not None:
        return found
    own = own_function(context, name, len(arguments))
    if own is not None:
        return returned_value(context, own, call, frame, position)
    return _library_call(name, written, [value(at) for at in range(len(arguments))], line)


def _library_call(name: str, written: str, values: list[HostValue], line: int) -> HostValue:
    if name in allocations.RETURNING_BYTES or name == "calloc":
        return allocations.returned_memory(name, values, line)
    if allocations.VECTOR.search(written):
        return allocations.vector_memory(written, values, line)
    if _CEIL_DIV.fullmatch(name) and len(values) >= 2:
        above, below = values[0], values[1]
        if isinstance(above, Quantity) and isinstance(below, Quantity):
            return called("ceil_div", [above, below])
    if name == "checkCmdLineFlag":
        return number(0)  # of the CUDA samples: whether an option was given, and none is
    converted = re.fullmatch(r"(ato[ifl]l?|strto\w+|sto[a-z]+)", name) is not None
    if converted and values and isinstance(values[0], Quantity):
        return values[0]
    if _FROM_OUTSIDE.fullmatch(name):
        return Unknown("it comes from the command line", line)
    for one in values:
        if isinstance(one, Unknown):
            return one
    return Unknown(f"what `{name}` returns is not known", line)


def extents(values: list[HostValue], line: int) -> HostValue:
    axes = []
    for one in values:
        if not isinstance(one, Quantity):
            return one if isinstance(one, Unknown) else Unknown("an extent is no number", line)
        axes.append(one)
    return extents_of(axes)


# ----------------------------------------------------------------------------------- arithmetic


_EXTREMES = ("min", "max", "fmin", "fmax", "fminf", "fmaxf")
_ROUNDINGS = ("ceil", "ceilf", "floor", "floorf", "pow", "powf")


def _is_arithmetic(name: str) -> bool:
    return name in _MATH or name in _EXTREMES or name in _ROUNDINGS


def _arithmetic(name: str, values: list[HostValue]) -> HostValue | None:
    numbers = [one for one in values if isinstance(one, Quantity)]
    if len(numbers) != len(values) or not numbers:
        return next((one for one in values if isinstance(one, Unknown)), None)
    if name.startswith(("min", "fmin", "max", "fmax")) and len(numbers) == 2:
        return called("min" if "min" in name else "max", numbers)
    if name in ("ceil", "ceilf"):
        return rounded_up(numbers[0])
    if name in ("floor", "floorf"):
        return rounded_down(numbers[0])
    try:
        if name in ("pow", "powf") and len(numbers) == 2:
            return plain_number(float(numbers[0].value) ** float(numbers[1].value), *numbers)
        if name in _MATH:
            result = _MATH[name](numbers[0].value)
            kept = name == "abs" and not numbers[0].is_float
            return plain_number(result if kept else float(result), *numbers)
    except (ValueError, OverflowError, ZeroDivisionError):
        return Unknown(f"`{name}` has no value here")
    return None


# ----------------------------------------------------------------------------- the file's functions


def own_function(context: Context, name: str, count: int) -> Function | None:
    functions = context.program.functions.get(name, [])
    fitting = [one for one in functions if len(one.parameters) == count]
    return next(iter(fitting or functions), None)


def returned_value(
    context: Context, function: Function, call: Fragment, frame: Frame | None, position: int
) -> HostValue:
    """What a function of the file returns for these arguments: the first return that is reached."""
    inner = frames.frame_of_call(context, function, call, frame, position)
    if inner.depth > 20:
        return Unknown(f"`{function.name}` calls itself")
    for statement in function.returns:
        value = next(iter(statement.named()), None)
        if value is None:
            continue
        event = Event("", "value", statement.node.start_byte, statement.node, value)
        end = function.node.end_byte - 1
        if definitions.is_reached(context, event, inner, end) is not False:
            return evaluation.evaluate(context, value, inner, statement.node.start_byte)
    return Unknown(f"what `{function.name}` returns is not known")


def _pointer_inside(
    context: Context,
    call: Fragment,
    function: Fragment | None,
    arguments: list[Fragment],
    frame: Frame | None,
    position: int,
) -> HostValue:
    """`v.data()`, `thrust::raw_pointer_cast(&v[0])`, `p.get()`: the memory of the container."""
    if function is not None and function.node.type == "field_expression":
        owner = function.child("argument")
        return evaluation.evaluate(context, owner, frame, position) if owner else Unknown("a broken call")
    if len(arguments) != 1:
        return Unknown(f"`{call.text[:40]}` is not known")
    inner = without_casts(arguments[0])
    return evaluation.evaluate(context, inner, frame, position)


def _length(context: Context, function: Fragment, frame: Frame | None, position: int) -> HostValue:
    owner = function.child("argument")
    held = evaluation.evaluate(context, owner, frame, position) if owner else Unknown("a broken call")
    if isinstance(held, Listing):
        return number(len(held.values))
    if isinstance(held, Pointer) and held.allocation.count is not None:
        return held.allocation.count
    return held if isinstance(held, Unknown) else Unknown("a length that is not known")
