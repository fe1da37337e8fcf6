"""From items to a workload: its canonical text, its sizes, and the names that nobody gave a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from optiml_core.records import ElementType, Failure, Kernel, Origin, Problem
from optiml_core.workload.declaration import Declaration
from optiml_core.workload.expression import Binary, Call, Expression, Name, Negation, Number
from optiml_core.workload.items import Buffer, Item, Scalar, expressions_of
from optiml_core.workload.record import Workload, text_of
from optiml_core.workload.variation import size_names


def workload_from_declaration(declaration: Declaration, kernel: Kernel, body: str) -> Workload:
    """The workload of a declaration alone, with nothing inferred. ``body``: the text of the kernel's body."""
    return assembled(
        kernel,
        declaration.items,
        declaration.launches,
        "declared",
        body,
        template_arguments=kernel.instantiations[0] if kernel.instantiations else (),
        problems=declaration.problems,
        failures=declaration.failures,
    )


def assembled(
    kernel: Kernel,
    items: tuple[Item, ...],
    launches: tuple[tuple[Item, ...], ...],
    origin: Origin,
    body: str,
    *,
    template_arguments: tuple[str, ...] = (),
    problems: Iterable[Problem] = (),
    failures: Iterable[Failure] = (),
    fixed: frozenset[str] = frozenset(),
    elements: Mapping[str, ElementType] | None = None,
    globals_of_file: tuple[str, ...] = (),
) -> Workload:
    """A workload of a base launch (``items``) and further ``launches`` that override it."""
    all_launches = ((), *launches)
    return Workload(
        kernel=kernel,
        template_arguments=template_arguments,
        items=items,
        launches=all_launches,
        origin=origin,
        text=text_of(items, all_launches),
        problems=tuple(problems),
        failures=(*failures, *_unknown_names(items, all_launches), *_unknown_buffers(kernel, items, globals_of_file)),
        sizes=size_names(kernel, items, body, fixed),
        fixed=fixed,
        elements=elements or {},
        globals=globals_of_file,
    )


def _unknown_names(items: tuple[Item, ...], launches: tuple[tuple[Item, ...], ...]) -> Iterator[Failure]:
    """Names without a value, each with its own column; once per name and line."""
    base = {item.name for item in items if isinstance(item, Scalar)}
    seen: set[tuple[str, int | None]] = set()
    for launch in launches:
        known = base | {item.name for item in launch if isinstance(item, Scalar)}
        for item in launch or items:
            for name in _name_nodes(item):
                if name.text in known or (name.text, item.place.line) in seen:
                    continue
                seen.add((name.text, item.place.line))
                message = f"unknown name `{name.text}`"
                cure = f"add `{name.text} = value`"
                yield Failure("bad-input", message, item.place.file, item.place.line, name.column, cure)


def _unknown_buffers(kernel: Kernel, items: tuple[Item, ...], globals_of_file: tuple[str, ...]) -> Iterator[Failure]:
    known = {parameter.name for parameter in kernel.parameters} | set(globals_of_file)
    for item in items:
        if isinstance(item, Buffer) and item.name not in known:
            message = f"`{kernel.qualified}` has no parameter `{item.name}`"
            cure = "name one of its pointers: " + ", ".join(one.name for one in kernel.parameters if one.is_pointer)
            yield Failure("bad-input", message, item.place.file, item.place.line, item.place.column, cure)


def _name_nodes(item: Item) -> Iterator[Name]:
    for expression in expressions_of(item):
        yield from _names(expression)


def _names(expression: Expression) -> Iterator[Name]:
    match expression:
        case Number():
            return
        case Name():
            yield expression
        case Negation(operand):
            yield from _names(operand)
        case Binary(_, left, right):
            yield from _names(left)
            yield from _names(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from _names(argument)
