"""From a workload's expressions to a launch with everything evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from optiml_core.records import (
    Argument,
    BufferArgument,
    BufferContent,
    ElementType,
    Failure,
    Kernel,
    Launch,
    LaunchChange,
    Parameter,
    ScalarArgument,
)
from optiml_core.workload.elements import element_of_type, is_float, scalar_dtype
from optiml_core.workload.expression import (
    Expression,
    LanguageError,
    Name,
    Value,
    evaluate,
    evaluated,
    parse_expression,
    write_expression,
)
from optiml_core.workload.items import (
    Buffer,
    Item,
    Place,
    Requirement,
    Scalar,
    Shape,
    SharedMemory,
    TypeArgument,
    write_item,
)
from optiml_core.workload.limits import MAXIMUM_BLOCK, MAXIMUM_GRID, MAXIMUM_SHARED, MAXIMUM_THREADS
from optiml_core.workload.record import Workload

_LANE_NAMES = ("x", "y", "z", "w")


class _Stop(Exception):
    """Carries the Failure of one resolution to the public function; never leaves this module."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class _Scope:
    """The scalars of one launch by name, evaluated on demand so that their order does not matter."""

    scalars: Mapping[str, Scalar]
    overrides: Mapping[str, Value]
    values: dict[str, Value]
    active: list[str]

    def value(self, name: str, column: int = 1) -> Value:
        if name in self.overrides:
            return self.overrides[name]
        if name not in self.values:
            if name not in self.scalars:
                raise LanguageError(f"unknown name `{name}`", column, f"add `{name} = value`")
            if name in self.active:
                chain = " -> ".join([*self.active[self.active.index(name) :], name])
                raise LanguageError(f"`{name}` depends on itself ({chain})", column)
            self.active.append(name)
            item = self.scalars[name]
            self.values[name] = _at(item.place, lambda: evaluated(item.value, self.look_up))
            self.active.pop()
        return self.values[name]

    def look_up(self, name: Name) -> Value:
        return self.value(name.text, name.column)


def _at(place: Place, compute: Callable[[], Value]) -> Value:
    """Runs ``compute`` and turns its error into a stop that names the item's file and line."""
    try:
        return compute()
    except LanguageError as error:
        raise _Stop(Failure("bad-input", error.message, place.file, place.line, error.offset, error.cure)) from None


def resolve_launch(
    workload: Workload,
    index: int = 0,
    overrides: Mapping[str, Value] | None = None,
    change: LaunchChange | None = None,
) -> Launch | Failure:
    """Launch ``index`` of a workload with everything evaluated.

    ``overrides`` replace scalars by name (helper names too); expressions follow. ``change`` replaces grid, block,
    dynamic shared memory (bytes) and template arguments; its expressions may use the workload's names and
    the original's ``grid.x`` .. ``block.z`` and ``shared``. The Failure names file, line and column where the
    workload is declared; a requirement that does not hold is a Failure of kind ``bad-input`` too.
    """
    if workload.failures:
        return workload.failures[0]
    if not 0 <= index < workload.launch_count:
        return Failure("bad-input", f"there is no launch {index}: the workload has {workload.launch_count}")
    try:
        return _resolved(workload, index, overrides or {}, change or LaunchChange())
    except _Stop as stop:
        return stop.failure


def _resolved(workload: Workload, index: int, overrides: Mapping[str, Value], change: LaunchChange) -> Launch:
    items = workload.items_of_launch(index)
    scope = _Scope({item.name: item for item in items if isinstance(item, Scalar)}, dict(overrides), {}, [])
    for name in overrides:
        if name not in scope.scalars:
            message = f"`{name}` is no scalar of this workload"
            raise _Stop(Failure("bad-input", message, cure="name one that is declared"))
    for item in items:
        if isinstance(item, Requirement):
            _check_requirement(item, scope)
    for name, scalar in scope.scalars.items():
        _at(scalar.place, lambda name=name: scope.value(name))  # type: ignore[misc]
    names = {**scope.values, **scope.overrides}
    grid, block, shared = _shapes(workload, items, scope)
    template_arguments = _template_arguments(workload, items, names)
    # The buffers are the original's, whatever template arguments a candidate has.
    types = dict(zip((one.name for one in workload.kernel.template_parameters), template_arguments, strict=False))
    if change != LaunchChange():
        grid, block, shared = _changed(change, names, grid, block, shared)
        template_arguments = change.template_arguments or template_arguments
    _check_limits(workload.kernel, grid, block, shared)
    buffers = {item.name: item for item in items if isinstance(item, Buffer)}
    arguments = tuple(
        _argument(parameter, workload, types, buffers, scope, names) for parameter in workload.kernel.parameters
    )
    constants = tuple(_global(name, workload, buffers, scope) for name in workload.globals if name in buffers)
    return Launch(grid, block, shared, arguments, template_arguments, names, constants)


def _check_requirement(item: Requirement, scope: _Scope) -> None:
    left = _at(item.place, lambda: evaluated(item.left, scope.look_up))
    right = _at(item.place, lambda: evaluated(item.right, scope.look_up))
    holds = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[item.relation]
    if not holds:
        message = f"`{write_item(item)}` does not hold: {left} {item.relation} {right}"
        raise _Stop(Failure("bad-input", message, item.place.file, item.place.line, item.place.column))


# ------------------------------------------------------------------------------------- shapes


def _shapes(
    workload: Workload, items: tuple[Item, ...], scope: _Scope
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    shapes = {item.name: item for item in items if isinstance(item, Shape)}
    extents: dict[str, tuple[int, int, int]] = {}
    for name in ("grid", "block"):
        if name not in shapes:
            raise _Stop(
                Failure(
                    "bad-input",
                    f"the {name} of `{workload.kernel.qualified}` is not known",
                    workload.kernel.file,
                    workload.kernel.name_range.start_line,
                    cure=f"add `// optiml: {name} = ...` above the kernel",
                )
            )
        extents[name] = _extents(shapes[name], scope)
    shared = [item for item in items if isinstance(item, SharedMemory)]
    size = _whole(shared[-1].bytes, shared[-1].place, scope, "shared") if shared else 0
    return extents["grid"], extents["block"], size


def _extents(shape: Shape, scope: _Scope) -> tuple[int, int, int]:
    values = [_whole(extent, shape.place, scope, shape.name) for extent in shape.extents]
    x, y, z = [*values, 1, 1, 1][:3]
    return x, y, z


def _whole(expression: Expression, place: Place, scope: _Scope, what: str) -> int:
    """An integer, also one that is written as a double (`1e6`)."""
    value = _at(place, lambda: evaluated(expression, scope.look_up))
    if value != int(value):
        message = f"{what} must be a whole number and is {value}"
        raise _Stop(Failure("bad-input", message, place.file, place.line, place.column))
    return int(value)


def _changed(
    change: LaunchChange,
    names: Mapping[str, Value],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    original: dict[str, Value] = {"shared": shared}
    for name, extents in (("grid", grid), ("block", block)):
        original.update({f"{name}.{axis}": extent for axis, extent in zip("xyz", extents, strict=True)})
    known = {**names, **original}

    def value(text: str, what: str) -> int:
        parsed = parse_expression(text)
        result = parsed if isinstance(parsed, Failure) else evaluate(parsed, known)
        if isinstance(result, Failure):
            message = f"the changed {what} `{text}` cannot be evaluated: {result.message}"
            raise _Stop(Failure("bad-input", message, column=result.column, cure=result.cure))
        if result != int(result):
            raise _Stop(Failure("bad-input", f"the changed {what} `{text}` is no whole number"))
        return int(result)

    if change.grid is not None:
        grid = (value(change.grid[0], "grid"), value(change.grid[1], "grid"), value(change.grid[2], "grid"))
    if change.block is not None:
        block = (value(change.block[0], "block"), value(change.block[1], "block"), value(change.block[2], "block"))
    if change.shared is not None:
        shared = value(change.shared, "shared memory")
    return grid, block, shared


def _check_limits(kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int) -> None:
    message = ""
    if any(not 1 <= extent <= most for extent, most in zip(grid, MAXIMUM_GRID, strict=True)):
        message = f"the grid {grid} is outside 1..{MAXIMUM_GRID}"
    elif any(not 1 <= extent <= most for extent, most in zip(block, MAXIMUM_BLOCK, strict=True)):
        message = f"the block {block} is outside 1..{MAXIMUM_BLOCK}"
    elif block[0] * block[1] * block[2] > MAXIMUM_THREADS:
        message = f"the block {block} has more than {MAXIMUM_THREADS} threads"
    elif not 0 <= shared <= MAXIMUM_SHARED:
        message = f"{shared} bytes of dynamic shared memory are outside 0..{MAXIMUM_SHARED}"
    if message:
        cure = f"declare the launch above `{kernel.name}`: `// optiml: grid = ..., block = ...`"
        raise _Stop(Failure("bad-input", message, kernel.file, kernel.range.start_line, cure=cure))


def _template_arguments(workload: Workload, items: tuple[Item, ...], names: Mapping[str, Value]) -> tuple[str, ...]:
    types = {item.name: item.spelling for item in items if isinstance(item, TypeArgument)}
    arguments: list[str] = []
    for position, parameter in enumerate(workload.kernel.template_parameters):
        if parameter.name in types:
            arguments.append(types[parameter.name])
        elif parameter.name in names:
            value = names[parameter.name]
            is_bool = parameter.kind.strip() == "bool" and value in (0, 1)
            arguments.append(("true" if value else "false") if is_bool else str(value))
        elif position < len(workload.template_arguments):
            arguments.append(workload.template_arguments[position])
        elif parameter.default is not None:
            arguments.append(parameter.default)
        elif "..." in parameter.kind or parameter.name == "":
            continue
        else:
            raise _Stop(
                Failure(
                    "bad-input",
                    f"the template argument `{parameter.name}` is not known",
                    workload.kernel.file,
                    workload.kernel.name_range.start_line,
                    cure=f"add `// optiml: {parameter.name} = ...` above the kernel",
                )
            )
    return tuple(arguments)


# ---------------------------------------------------------------------------------- arguments


def _argument(
    parameter: Parameter,
    workload: Workload,
    types: Mapping[str, str],
    buffers: Mapping[str, Buffer],
    scope: _Scope,
    names: Mapping[str, Value],
) -> Argument:
    element = parameter_element(parameter, workload, types)
    place = Place(parameter.range.file, parameter.range.start_line, parameter.range.start_column)
    if element is None or parameter.type.count("*") > 1 or (parameter.is_reference and not parameter.is_const):
        message = f"a launch cannot be made: the type `{parameter.type}` of `{parameter.name}` is not supported"
        cure = "structs and numbers, and pointers to them, that this file or what it includes by quotes declares"
        raise _Stop(Failure("unsupported", message, place.file, place.line, place.column, cure))
    if parameter.is_pointer:
        if parameter.name not in buffers:
            raise _unknown(parameter, place, f"{parameter.name}[length]: normal")
        return _buffer(buffers[parameter.name], element, place, scope)
    if element.fields or element.lanes > 1:
        members = _members(parameter.name, element, names, place)
        if not any(name.startswith(parameter.name + ".") for name in names):
            raise _unknown(parameter, place, f"{parameter.name}.{next(iter(members), 'member')} = value")
        return ScalarArgument(parameter.name, element, members)
    if parameter.name not in names:
        raise _unknown(parameter, place, f"{parameter.name} = value")
    item = scope.scalars[parameter.name]
    return ScalarArgument(
        parameter.name, element, _converted(names[parameter.name], element, parameter.name, item.place)
    )


def _unknown(parameter: Parameter, place: Place, line: str) -> _Stop:
    what = "contents" if parameter.is_pointer else "value"
    message = f"the {what} of `{parameter.name}` {'are' if parameter.is_pointer else 'is'} not known"
    cure = f"add `// optiml: {line}` above the kernel"
    return _Stop(Failure("bad-input", message, place.file, place.line, place.column, cure))


def parameter_element(parameter: Parameter, workload: Workload, types: Mapping[str, str]) -> ElementType | None:
    """The element type of a parameter for one instantiation: known from the source, else built in."""
    by_instantiation = element_of_type(parameter.type, types)
    return parameter.element or by_instantiation or workload.elements.get(parameter.name)


def _buffer(item: Buffer, element: ElementType, place: Place, scope: _Scope) -> BufferArgument:
    if item.length is None:
        cure = f"add a length: `// optiml: {item.name}[length]: ...`"
        message = f"the length of `{item.name}` is not known"
        file, line = item.place.file or place.file, item.place.line or place.line
        raise _Stop(Failure("bad-input", message, file, line, cure=cure))
    length = _whole(item.length, item.place, scope, f"the length of `{item.name}`")
    if length < 0:
        message = f"the length of `{item.name}` is negative: {write_expression(item.length)} = {length}"
        raise _Stop(Failure("bad-input", message, item.place.file, item.place.line, item.place.column))
    if item.content is None:
        return BufferArgument(item.name, element, length, BufferContent("poison"))
    parameters = tuple(
        float(_at(item.place, lambda one=one: evaluated(one, scope.look_up)))  # type: ignore[misc]
        for one in item.content.parameters
    )
    return BufferArgument(item.name, element, length, BufferContent(item.content.kind, parameters))


def _global(name: str, workload: Workload, buffers: Mapping[str, Buffer], scope: _Scope) -> Argument:
    element = workload.elements.get(name)
    place = buffers[name].place
    if element is None:
        message = f"the type of the global `{name}` is not supported"
        raise _Stop(Failure("unsupported", message, place.file, place.line, place.column))
    return _buffer(buffers[name], element, place, scope)


def _members(prefix: str, element: ElementType, names: Mapping[str, Value], place: Place) -> dict[str, Any]:
    """The members of a struct or vector argument; a member that nobody named is zero."""
    values: dict[str, Any] = {}
    if not element.fields:
        lane = ElementType(element.dtype, element.dtype, element.size // element.lanes, element.alignment)
        for axis in _LANE_NAMES[: element.lanes]:
            name = f"{prefix}.{axis}"
            values[axis] = _converted(names.get(name, 0), lane, name, place)
        return values
    for one in element.fields:
        name = f"{prefix}.{one.name}"
        if one.length > 1 or (not one.element.dtype and not one.element.fields):
            message = f"the member `{name}` has a type that no declaration can give"
            raise _Stop(Failure("unsupported", message, place.file, place.line, place.column))
        if one.element.fields or one.element.lanes > 1:
            values[one.name] = _members(name, one.element, names, place)
        else:
            values[one.name] = _converted(names.get(name, 0), one.element, name, place)
    return values


def _converted(value: Value, element: ElementType, name: str, place: Place) -> int | float | bool:
    if is_float(element.dtype):
        return float(value)
    if element.dtype == "bool":
        return bool(value)
    dtype = scalar_dtype(element.dtype)
    bits = dtype.itemsize * 8
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
    if value != int(value) or not low <= value <= high:
        message = f"`{name} = {value}` does not fit its type `{element.spelling}`"
        raise _Stop(Failure("bad-input", message, place.file, place.line, place.column))
    return int(value)
