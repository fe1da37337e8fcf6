"""Memory: what allocates it, which variable holds it, and how many elements it has."""

from __future__ import annotations

import re

from attrs import evolve

from optiml_core.workload.elements import pointee_spelling
from optiml_core.workload.expression import Binary, Name, Number

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import calls, constants, definitions, evaluation, frames, variables
from optiml_core.workload.inference.context import Context, Frame
from optiml_core.workload.inference.polynomial import divided_exactly, expression_of, polynomial_of
from optiml_core.workload.inference.program import Event, Function
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
)
from optiml_core.workload.inference.values import (
    Allocation,
    HostValue,
    Pointer,
    Quantity,
    Unknown,
    combine,
    extents_of,
    is_constant,
    number,
)

# Which argument of an allocating call is the number of bytes; the first is the address of the pointer.
_ALLOCATIONS = {
    "cudaMalloc": 1,
    "cudaMallocManaged": 1,
    "cudaMallocAsync": 1,
    "cudaMallocHost": 1,
    "cudaHostAlloc": 1,
    "cudaMallocFromPoolAsync": 1,
    "cuMemAlloc": 1,
    "posix_memalign": 2,
}
RETURNING_BYTES = {"malloc": 0, "aligned_alloc": 1, "_mm_malloc": 0, "alloca": 0}
VECTOR = re.compile(
    r"\b(vector|device_vector|host_vector|universal_vector|device_buffer|DeviceBuffer|DeviceArray)\s*<(.*)>", re.DOTALL
)


def allocated_by_new(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    """`new T[n]`."""
    kind, declarator = fragment.child("type"), fragment.child("declarator")
    length = declarator.child("length") if declarator else None
    if length is None:
        return Unknown("a single object on the host", fragment.node.start_point[0] + 1)
    count = evaluation.evaluate(context, length, frame, position)
    if not isinstance(count, Quantity):
        return count
    return _pointer(Allocation("", None, count, kind.text if kind else "", fragment.node.start_point[0] + 1))


def _pointer(allocation: Allocation) -> Pointer:
    return Pointer(allocation, number(0), (allocation.path,) if allocation.path else ())


def returned_memory(name: str, values: list[HostValue], line: int) -> HostValue:
    if name == "calloc" and len(values) == 2:
        count, size = values
        if isinstance(count, Quantity) and isinstance(size, Quantity):
            total = combine("*", count, size)
            return _pointer(Allocation("", total, None, "", line)) if isinstance(total, Quantity) else total
        return count if isinstance(count, Unknown) else size
    at = RETURNING_BYTES.get(name, 0)
    size = values[at] if at < len(values) else Unknown("a broken call", line)
    return _pointer(Allocation("", size, None, "", line)) if isinstance(size, Quantity) else size


def vector_memory(type_text: str, values: list[HostValue], line: int) -> HostValue:
    match = VECTOR.search(type_text)
    if not values or match is None:
        return Unknown("a container that is filled later", line)
    first = values[0]
    if isinstance(first, Quantity):
        return _pointer(Allocation("", None, first, match[2].split(",")[0].strip(), line))
    return first


def given_by_address(context: Context, event: Event, frame: Frame | None) -> HostValue:
    """What a call leaves in the variable whose address it takes."""
    call, line = event.call, event.node.start_point[0] + 1
    if call is None:
        return Unknown("a broken call", line)
    name, arguments = called_name(call), arguments_of(call)

    def value(at: int) -> HostValue:
        if at >= len(arguments):
            return Unknown(f"`{name}` has too few arguments", line)
        return evaluation.evaluate(context, arguments[at], frame, event.start)

    if name == "cudaMallocPitch" and len(arguments) == 4:
        width, height = value(2), value(3)
        if event.argument == 1:
            return width
        total = combine("*", width, height) if isinstance(width, Quantity) and isinstance(height, Quantity) else width
        return _allocation(event, total, frame, line)
    if name in ("cudaHostGetDevicePointer", "cudaHostRegister"):
        return value(1)
    if name == "cudaMalloc3D" or name.startswith(("cudaGetDeviceProp", "cudaEvent", "cudaStream", "cudaGetDevice")):
        return Unknown(f"what `{name}` gives is not known", line)
    if name.startswith("cudaOccupancy"):
        note = "a block of 256 was taken: the program asks the occupancy calculator"
        return context.root(f"{event.path}@{event.start}", event.path, 256, "guess", line, note, _file(frame))
    own = calls.own_function(context, name, len(arguments))
    if own is not None and event.argument < len(own.parameters):
        return _through_parameter(context, own, event, call, frame)
    at = _ALLOCATIONS.get(name)
    if at is not None:
        size = value(at)
        if event.argument == 0:
            return _allocation(event, size, frame, line)
    if event.argument == 0 and len(arguments) >= 2 and "alloc" in name.lower():
        # A wrapper that is not in the file: `allocate(&p, n * sizeof(float))` counts bytes if it says sizeof.
        size = value(1)
        counts_bytes = re.search("sizeof|byte|size", arguments[1].text, re.IGNORECASE)
        if isinstance(size, Quantity) and not counts_bytes:
            return _pointer(Allocation(event.path, None, size, "", line, frame.function.name if frame else ""))
        return _allocation(event, size, frame, line)
    return Unknown(f"what `{name}` leaves in `{event.path}` is not known", line)


def _file(frame: Frame | None) -> str | None:
    return frame.function.unit.source.path if frame is not None else None


def _allocation(event: Event, size: HostValue, frame: Frame | None, line: int) -> HostValue:
    if not isinstance(size, Quantity):
        return size
    owner = frame.function.name if frame else ""
    return _pointer(Allocation(event.path, size, None, "", line, owner))


def _through_parameter(
    context: Context, function: Function, event: Event, call: Fragment, frame: Frame | None
) -> HostValue:
    """A function of the file that allocates, or sets, through a pointer to the variable."""
    inner = frames.frame_of_call(context, function, call, frame, event.start)
    if inner.depth > 20:
        return Unknown(f"`{function.name}` calls itself")
    name = function.parameters[event.argument].name
    found = definitions.latest_event(context, name, inner, function.node.end_byte - 1)
    if found is None:
        line = event.node.start_point[0] + 1
        return Unknown(f"what `{function.name}` leaves in `{event.path}` is not known", line)
    value = variables.value_of_event(context, name, found, inner)
    if isinstance(value, Pointer) and value.allocation.path in ("", name):
        renamed = evolve(value.allocation, path=event.path, function=frame.function.name if frame else "")
        return Pointer(renamed, value.offset, (event.path,))
    return value


def declared_value(context: Context, event: Event, frame: Frame | None, line: int) -> HostValue:
    """A declaration without a value: an array, or a `dim3` of ones."""
    if event.is_array and event.value is not None:
        size = event.value.child("size")
        none = Unknown("an array without a size", line)
        count = evaluation.evaluate(context, size, frame, event.start) if size else none
        inner = event.value.child("declarator")
        if inner is not None and inner.node.type == "array_declarator" and isinstance(count, Quantity):
            outer = declared_value(context, evolve(event, value=inner), frame, line)
            if isinstance(outer, Pointer) and outer.allocation.count is not None:
                product = combine("*", outer.allocation.count, count)
                count = product
        if isinstance(count, Quantity):
            return _pointer(Allocation(event.path, None, count, event.type, line))
        return count
    if "dim3" in event.type:
        return extents_of([])
    return Unknown(f"`{event.path}` has no value", line)


def constructed_value(context: Context, event: Event, frame: Frame | None) -> HostValue:
    """`dim3 grid(a, b)`, `std::vector<float> v(n)`, `int n(3)`."""
    line = event.node.start_point[0] + 1
    listed = event.value.named() if event.value else []
    values = [evaluation.evaluate(context, one, frame, event.start) for one in listed]
    if "dim3" in event.type:
        return calls.extents(values, line)
    if VECTOR.search(event.type):
        made = vector_memory(event.type, values, line)
        if isinstance(made, Pointer):
            allocation = evolve(made.allocation, path=event.path, function=frame.function.name if frame else "")
            return Pointer(allocation, made.offset, (event.path,))
        return made
    if len(values) == 1:
        return evaluation.converted(values[0], event.type)
    return Unknown(f"`{event.path}` is an object that is not followed", line)


def allocation_length(context: Context, pointer: Pointer, size: int, type_names: frozenset[str]) -> Quantity | Unknown:
    """Elements of ``size`` bytes behind a pointer. ``type_names``: the element type's names, whose `sizeof` cancels."""
    allocation = pointer.allocation
    if allocation.count is not None:
        length = allocation.count
        if allocation.type:
            own = constants.size_of_type(context, pointee_spelling(allocation.type), None)
            if isinstance(own, Quantity) and is_constant(own) and own.value != size and size:
                scaled = combine("*", length, own)
                length = scaled if isinstance(scaled, Quantity) else length
                divided = divided_exactly(length.expression, size)
                value = int(length.value) // size
                length = Quantity(divided or Binary("/", length.expression, Number(size)), value)
    else:
        assert allocation.bytes is not None
        total = allocation.bytes
        polynomial = polynomial_of(total.expression)
        own_sizes = [Name(f"sizeof {name}") for name in type_names]
        held = next((one for one in own_sizes if polynomial and all(one in monomial for monomial in polynomial)), None)
        if polynomial is not None and held is not None:
            rest = {}
            for monomial, coefficient in polynomial.items():
                shorter = list(monomial)
                shorter.remove(held)
                rest[tuple(shorter)] = coefficient
            length = Quantity(expression_of(rest), int(total.value) // 4)
        else:
            expression = divided_exactly(total.expression, size) or Binary("/", total.expression, Number(size))
            length = Quantity(expression, int(total.value) // size)
            if is_constant(total):
                length = number(int(total.value) // size)
    moved = pointer.offset.value or not is_constant(pointer.offset)
    return combine("-", length, pointer.offset) if moved else length
