"""Numbers that the text does not spell out: sizes of types, constants of headers, properties of a device, choices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from optiml_core.source import element_type_of
from optiml_core.workload.elements import pointee_spelling
from optiml_core.workload.expression import Binary, Call, Name
from optiml_core.workload.expression import Value as Scalar

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import evaluation, variables
from optiml_core.workload.inference.context import Context, Frame
from optiml_core.workload.inference.polynomial import added, polynomial_of
from optiml_core.workload.inference.syntax import (
    Fragment,
    expression_fragment,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import (
    HostValue,
    Listing,
    Quantity,
    Unknown,
    called,
    number,
)

_CONSTANTS: dict[str, float] = {
    "RAND_MAX": 2147483647,
    "INT_MAX": 2147483647,
    "INT_MIN": -2147483648,
    "UINT_MAX": 4294967295,
    "CHAR_BIT": 8,
    "UCHAR_MAX": 255,
    "SHRT_MAX": 32767,
    "USHRT_MAX": 65535,
    "M_PI": 3.14159265358979323846,
    "FLT_EPSILON": 1.1920929e-07,
    "DBL_EPSILON": 2.220446049250313e-16,
    "FLT_MIN": 1.17549435e-38,
    "warpSize": 32,
    "NULL": 0,
    "nullptr": 0,
    "EXIT_SUCCESS": 0,
    "EXIT_FAILURE": 1,
}

# What a program would read of a device: here of an H100 SXM, for which predictions are made by default
# (NVIDIA H100 Tensor Core GPU Architecture; CUDA C++ Programming Guide, compute capability 9.0).
_PROPERTIES: dict[str, int] = {
    "multiProcessorCount": 132,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiProcessor": 2048,
    "maxBlocksPerMultiProcessor": 32,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "sharedMemPerMultiprocessor": 233472,
    "regsPerBlock": 65536,
}


def named_constant(context: Context, name: str) -> Quantity | None:
    """A constant of the standard headers."""
    value = _CONSTANTS.get(name)
    return None if value is None else number(value)


def device_property(context: Context, member: str, frame: Frame | None, position: int) -> Quantity | None:
    """A member of cudaDeviceProp, as a guess for the default target."""
    if member not in _PROPERTIES:
        return None
    value = _PROPERTIES[member]
    note = f"`{member}` is read from the device; {value}, the value of an H100, was taken"
    if frame is None:
        return context.root(f"device.{member}", member, value, "guess", None, note)
    unit = frame.function.unit
    line = unit.plain.count(b"\n", 0, position) + 1
    return context.root(f"device.{member}", member, value, "guess", line, note, unit.source.path)


def size_of(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    """`sizeof(type)` or `sizeof expression`. A type whose size is not known is a name, `sizeof type`."""
    kind, value = fragment.child("type"), fragment.child("value")
    if kind is not None:
        path = kind.text.strip()
        is_variable = re.fullmatch(r"\w+", path) and frame is not None and path in frame.function.events
        if not is_variable:
            return size_of_type(context, path, frame)
    target = without_casts(value) if value is not None else kind
    if target is None:
        return Unknown("a broken sizeof")
    name = target.text.strip()
    if frame is not None and name in frame.template_arguments:
        return size_of_type(context, name, frame)
    if re.fullmatch(r"[\w:]+", name) and (name in context.aliases or name in context.structs or element_type_of(name)):
        # `sizeof(real)` reads like a variable where `real` is a type of a header.
        return size_of_type(context, name, frame)
    return _size_of_variable(context, target, frame, position)


def _size_of_variable(context: Context, target: Fragment, frame: Frame | None, position: int) -> HostValue:
    path = path_of(target) or target.text.strip()
    dereferenced = path.endswith("[]") or target.node.type == "pointer_expression"
    base = path.replace("[]", "")
    events = list(frame.function.events.get(base, ())) if frame is not None else []
    events += context.program.globals.get(base, [])
    for event in events:
        if not event.type:
            continue
        element = size_of_type(context, pointee_spelling(event.type), frame)
        if event.is_array and not dereferenced:
            held = variables.variable(context, base, frame, position)
            if isinstance(held, Listing) and isinstance(element, Quantity):
                return number(len(held.values) * element.value)
            continue
        is_pointer = b"*" in event.node.text if event.node.text else False
        if is_pointer and not dereferenced:
            return number(8)
        return element
    if frame is not None:
        for parameter in frame.function.parameters:
            if parameter.name == base:
                listed = frame.function.node.text or b""
                found = re.search(rb"([\w:]+(?:\s+\w+)*)\s*[*&]*\s*\b" + re.escape(base.encode()) + rb"\b", listed)
                if found:
                    return size_of_type(context, found[1].decode(), frame)
    return Unknown(f"the size of `{target.text[:40]}` is not known")


def size_of_type(context: Context, spelling: str, frame: Frame | None, depth: int = 0) -> HostValue:
    """Bytes of a type, by its name; through the file's typedefs, type macros and template arguments."""
    if "*" in spelling:
        return number(8)
    plain = pointee_spelling(spelling)
    element = element_type_of(plain)
    if element is not None:
        return number(element.size)
    if plain == "long double":
        return number(16)
    if depth < 8:
        if frame is not None and plain in frame.template_arguments:
            given = frame.template_arguments[plain]
            return size_of_type(context, given.fragment.text, given.frame, depth + 1)
        alias = context.aliases.get(plain)
        if alias is not None and alias != plain:
            return size_of_type(context, alias, frame, depth + 1)
        size = _size_of_struct(context, plain, frame, depth)
        if size is not None:
            return number(size)
    return context.root(f"sizeof {plain}", f"sizeof_{plain}", 4, "guess", None, f"the size of `{plain}` is not known")


def _size_of_struct(context: Context, name: str, frame: Frame | None, depth: int) -> int | None:
    """The size of a plain struct of plain members, by the layout rules of the Itanium C++ ABI."""
    members = context.structs.get(name)
    if members is None:
        return None
    offset, widest = 0, 1
    for member_type, extents in members:
        if "*" in member_type:
            size, alignment = 8, 8
        else:
            element = element_type_of(pointee_spelling(member_type))
            if element is not None:
                size, alignment = element.size, element.alignment
            else:
                inner = size_of_type(context, member_type, frame, depth + 1)
                if not isinstance(inner, Quantity) or isinstance(inner.expression, Name):
                    return None
                size, alignment = int(inner.value), min(8, int(inner.value) & -int(inner.value))
        count = 1
        for extent in extents:
            fragment = expression_fragment(extent)
            value = evaluation.evaluate(context, fragment, frame, 0) if fragment else Unknown("")
            if not isinstance(value, Quantity):
                return None
            count *= int(value.value)
        widest = max(widest, alignment)
        offset = -(-offset // alignment) * alignment + size * count
    return -(-offset // widest) * widest


def rounding_choice(yes: Quantity, no: Quantity) -> Quantity | None:
    """`n % b == 0 ? n / b : n / b + 1`, either way round, is ceil_div(n, b)."""
    for low, high in ((yes, no), (no, yes)):
        first, second = polynomial_of(low.expression), polynomial_of(high.expression)
        quotient = low.expression
        if first is None or second is None or added(second, first, -1) != {(): 1}:
            continue
        if isinstance(quotient, Binary) and quotient.operator == "/":
            value = high.value if yes.value != no.value else low.value
            return Quantity(Call("ceil_div", (quotient.left, quotient.right)), value)
    return None


def extreme_choice(condition: str, yes: str, no: str, first: Quantity, second: Quantity) -> Quantity | None:
    """`a < b ? a : b` and its like are min and max."""
    match = re.fullmatch(r"\(*\s*(.+?)\s*(<=?|>=?)\s*(.+?)\s*\)*", condition)
    if match is None:
        return None
    left, right = _bare(match[1]), _bare(match[3])
    if {left, right} != {_bare(yes), _bare(no)} or left == right:
        return None
    smaller = (left == _bare(yes)) == match[2].startswith("<")
    return called("min" if smaller else "max", [first, second])


def _bare(text: str) -> str:
    return re.sub(r"[\s()]", "", text)


def chosen(context: Context, listing: Listing, path: str, fragment: Fragment) -> HostValue:
    """One element of a list that a program runs through, as a root that says so."""
    values = [one for one in listing.values if isinstance(one, Quantity)]
    if not values:
        return listing.values[0]
    choices = tuple(quantity.value for quantity in values)
    taken = choice_for(f"{path} {fragment.text}", choices)
    name = path.replace("[]", "") or re.sub(r"\W.*", "", fragment.text)
    line = fragment.node.start_point[0] + 1
    key = f"{name}@{fragment.node.start_byte}#choice"
    made = context.root(key, name, taken, "choice", line, note_of_choice(name, choices, taken))
    context.roots[key] = evolve(context.roots[key], file=context.file_of(fragment.data), choices=choices)
    return made


def choice_for(name: str, choices: Sequence[Scalar]) -> Scalar:
    """Which of the values that a program goes through to take: of block sizes the one next to 256, else the largest."""
    if re.search(r"block|thread|tpb|bs\b|cta", name, re.IGNORECASE):
        return min(choices, key=lambda value: abs(value - 256))
    return max(choices)


def note_of_choice(name: str, choices: Sequence[Scalar], taken: Scalar) -> str:
    shown = ", ".join(str(value) for value in choices[:8]) + (", ..." if len(choices) > 8 else "")
    return f"`{name}` takes the values {shown} in turn; {taken} was taken"
