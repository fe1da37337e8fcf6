"""The workload that a file implies for one of its kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from attrs import evolve, frozen

from optiml_core.records import Failure, Kernel, LaunchSite, Parameter, Problem
from optiml_core.source import TranslationUnit
from optiml_core.workload.elements import element_of_type, pointee_spelling
from optiml_core.workload.expression import Expression, Number, Value, evaluate, names_in
from optiml_core.workload.inference.allocations import allocation_length
from optiml_core.workload.inference.context import Context
from optiml_core.workload.inference.drafting import (
    Draft,
    draft,
    new_context,
    signature_draft,
    sites_of,
    sizes_of_types,
)
from optiml_core.workload.inference.kernel_facts import kernel_facts
from optiml_core.workload.inference.naming import Naming, name_roots, written
from optiml_core.workload.inference.program import Program, index_program
from optiml_core.workload.inference.values import Extents, Pointer, Quantity, Unknown, is_constant
from optiml_core.workload.inference.variables import variable
from optiml_core.workload.inference.writing import Parts, write_down
from optiml_core.workload.items import Buffer, Item, Scalar, Shape, SharedMemory, expressions_of, item_key
from optiml_core.workload.limits import MAXIMUM_BLOCK, MAXIMUM_GRID, MAXIMUM_SHARED, MAXIMUM_THREADS

MOST_LAUNCHES = 6
MOST_ELEMENTS = 1 << 36


@frozen(eq=False)
class Inference:
    """What was inferred: items of the first launch, overriding items of further ones, and what is to be looked at.

    ``guesses``: problems about values that the text does not give, each with the item's name; ``remarks``: about
    choices between values that the program does take. ``guessed_sizes``: how many sizes were guessed;
    ``suspects``: roots with a value that no size has. ``fixed``: names that are compiled into the kernel.
    ``globals``: `__constant__` and `__device__` variables to fill. ``sites``: launches in the text.
    """

    items: tuple[Item, ...]
    guesses: tuple[tuple[str, Problem], ...]
    remarks: tuple[tuple[str, Problem], ...]
    guessed_sizes: int
    suspects: frozenset[str]
    fixed: frozenset[str]
    template_arguments: tuple[str, ...]
    globals: tuple[str, ...] = ()
    launches: tuple[tuple[Item, ...], ...] = ()
    sites: int = 0


def infer(
    unit: TranslationUnit,
    kernel: Kernel,
    others: Sequence[TranslationUnit] = (),
    arguments: tuple[str, ...] = (),
) -> Inference:
    """Infers from the launches of ``kernel`` in ``unit`` and in ``others`` (files that include it). ``arguments``: what
    the program is run with, without its name."""
    units = [unit, *others]
    program = index_program(units)
    sites = sites_of(units, kernel)
    inferred = [_from(program, units, unit, kernel, one, arguments) for one in sites[:MOST_LAUNCHES]]
    if not inferred:
        inferred = [_from(program, units, unit, kernel, None, arguments)]
    # The launch of which the text says most comes first; the order of the file decides otherwise.
    inferred.sort(key=lambda one: len(one.guesses))
    first = inferred[0]
    launches: list[tuple[Item, ...]] = []
    for other in inferred[1:]:
        overriding = _overriding(first.items, other.items)
        if overriding and overriding not in launches and len(other.guesses) <= len(first.guesses):
            launches.append(overriding)
    return evolve(first, launches=tuple(launches), sites=len(sites))


def _overriding(base: tuple[Item, ...], other: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items of ``other`` that differ from the base's."""
    known = {item_key(item): item for item in base}
    changed = [item for item in other if known.get(item_key(item)) != item]
    has_shared = any(isinstance(item, SharedMemory) for item in other)
    if not has_shared and any(isinstance(item, SharedMemory) for item in base):
        changed.append(SharedMemory(Number(0)))
    return tuple(changed)


def _from(
    program: Program,
    units: Sequence[TranslationUnit],
    unit: TranslationUnit,
    kernel: Kernel,
    site: tuple[TranslationUnit, LaunchSite] | None,
    arguments: tuple[str, ...],
) -> Inference:
    """One launch, or the signature alone. How large guessed sizes should be depends on how many there are, and on
    what a launch can have."""

    def attempt(guessed_size: int, distrusted: frozenset[str]) -> Inference:
        context = new_context(program, units, guessed_size, arguments, distrusted)
        drafted = draft(context, site[0], kernel, site[1]) if site else signature_draft(context, unit, kernel)
        return _composed(context, unit, kernel, drafted)

    first = attempt(1024, frozenset())
    count = first.guessed_sizes
    sizes = [size for size in ({1: 1 << 20, 2: 1024, 3: 256}.get(count, 32), 1024, 256, 32) if count]
    for distrusted in (frozenset[str](), first.suspects):
        for size in sizes or [1024]:
            inference = attempt(size, distrusted)
            if _can_be_launched(kernel, inference):
                return inference
        if not first.suspects:
            break
        # Something like `int n = -1;` is set by code that is not followed: it is guessed in a second round.
        sizes = sizes or [1024, 256, 32]
    return first


def _can_be_launched(kernel: Kernel, inference: Inference) -> bool:
    """Whether sizes and shapes are such that a device could launch it; a missing type or length does not count."""
    scalars = {item.name: item.value for item in inference.items if isinstance(item, Scalar)}
    values: dict[str, Value] = {}
    for _ in range(len(scalars) + 1):
        for name, expression in scalars.items():
            value = evaluate(expression, values)
            if not isinstance(value, Failure):
                values[name] = value
    limits = {"grid": MAXIMUM_GRID, "block": MAXIMUM_BLOCK}
    for item in inference.items:
        extents: list[Value] = []
        for expression in expressions_of(item):
            value = evaluate(expression, values)
            if isinstance(value, Failure):
                return False
            extents.append(value)
        if isinstance(item, Shape):
            within = all(1 <= extent <= most for extent, most in zip(extents, limits[item.name], strict=False))
            if not within or (item.name == "block" and math.prod(extents) > MAXIMUM_THREADS):
                return False
        if isinstance(item, Buffer) and item.length is not None and not 0 <= extents[0] < MOST_ELEMENTS:
            return False
        if isinstance(item, SharedMemory) and not 0 <= extents[0] <= MAXIMUM_SHARED:
            return False
    for parameter in kernel.parameters:
        value = values.get(parameter.name, 0)
        if parameter.element is not None and parameter.element.dtype == "int32" and not abs(value) < 1 << 31:
            return False
    return True


def _composed(context: Context, unit: TranslationUnit, kernel: Kernel, drafted: Draft) -> Inference:
    scalars: list[tuple[str, Quantity]] = []
    for parameter in kernel.parameters:
        given = drafted.arguments.get(parameter.name)
        if not parameter.is_pointer and isinstance(given, Quantity):
            scalars.append((parameter.name, given))
    for name, given in drafted.arguments.items():
        if "." in name and isinstance(given, Quantity):
            scalars.append((name, given))
    scalars.extend(drafted.values.items())
    lengths: dict[str, Quantity | Unknown] = {
        parameter.name: _host_length(context, kernel, parameter, drafted)
        for parameter in kernel.parameters
        if parameter.is_pointer
    }
    grid = drafted.grid.axes() if isinstance(drafted.grid, Extents) else None
    block = drafted.block.axes() if isinstance(drafted.block, Extents) else None
    shared = drafted.shared if isinstance(drafted.shared, Quantity) and drafted.shared.value else None
    known = [one for one in lengths.values() if isinstance(one, Quantity)]
    others = [one.expression for one in (*known, *(grid or ()), *(block or ()), *((shared,) if shared else ()))]
    taken = {one.name for one in kernel.parameters} | {one.name for one in kernel.template_parameters}
    naming = name_roots(scalars, others, context.roots, taken)
    constants = _constants(context, unit.source.slice(kernel.body_range), naming)
    facts = kernel_facts(unit, kernel, context.program, constants)
    parts = Parts(facts, lengths, grid, block, shared, _hidden(context, scalars))
    return write_down(context, unit, kernel, drafted, parts, naming)


def _hidden(context: Context, scalars: Sequence[tuple[str, Quantity]]) -> dict[str, frozenset[str]]:
    found = {
        name: frozenset(key for key in quantity.hidden if context.roots[key].kind == "guess")
        for name, quantity in scalars
    }
    return {name: keys for name, keys in found.items() if keys}


def _constants(context: Context, text: str, naming: Naming) -> dict[str, Expression]:
    """The whole-number constants of the file that a kernel's text names: as the name that the launch has for them,
    else as their number."""
    program = context.program
    found: dict[str, Expression] = {}
    for word in set(re.findall(r"[A-Za-z_]\w*", text)):
        macro = program.macros.get(word)
        if (macro is not None and macro.parameters is None) or word in program.globals or word in program.enumerators:
            value = variable(context, word, None, 0)
            if isinstance(value, Quantity) and isinstance(value.value, int):
                keys = names_in(value.expression)
                named = bool(keys) and keys <= set(naming.names)
                found[word] = written(value.expression, naming) if named else Number(value.value)
    return found


def _host_length(context: Context, kernel: Kernel, parameter: Parameter, drafted: Draft) -> Quantity | Unknown:
    """Elements behind a pointer argument, from where it was allocated."""
    given = drafted.arguments.get(parameter.name)
    if not isinstance(given, Pointer):
        if isinstance(given, Quantity) and is_constant(given) and given.value == 0:
            return Unknown("a null pointer is passed")
        return given if isinstance(given, Unknown) else Unknown("it is no pointer that is followed")
    element = parameter.element or element_of_type(parameter.type, {**context.aliases, **drafted.types})
    spelling = pointee_spelling(parameter.type)
    size = element.size if element is not None else sizes_of_types(context, spelling)
    if not size:
        return Unknown(f"the size of `{spelling}` is not known")
    names = frozenset((spelling, drafted.types.get(spelling, spelling)))
    return allocation_length(context, given, size, names)


def file_constants(unit: TranslationUnit, names: Sequence[str]) -> dict[str, int | float]:
    """Those of ``names`` that are constants at file scope (macros, `const`, enumerators), with their values."""
    context = new_context(index_program([unit]), [unit])
    found: dict[str, int | float] = {}
    for name in names:
        value = variable(context, name, None, 0)
        if isinstance(value, Quantity) and not any(root.note for root in context.roots.values()):
            found[name] = value.value
    return found


def file_aliases(units: Sequence[TranslationUnit]) -> dict[str, str]:
    """The typedefs and type macros of the units, and what each stands for."""
    return dict(new_context(index_program(units), units).aliases)
