"""An inferred launch as items of the workload language, with what was guessed for it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from optiml_core.records import Failure, Kernel, Parameter, Problem
from optiml_core.source import TranslationUnit
from optiml_core.workload.elements import element_of_type, is_float
from optiml_core.workload.expression import (
    Binary,
    Call,
    Expression,
    Name,
    Number,
    Value,
    evaluate,
    names_in,
    replace_names,
)
from optiml_core.workload.inference.context import Context
from optiml_core.workload.inference.drafting import Draft
from optiml_core.workload.inference.evidence import evidence_of
from optiml_core.workload.inference.globals import global_buffers
from optiml_core.workload.inference.kernel_facts import KernelFacts, largest_reach
from optiml_core.workload.inference.naming import Naming, with_composite, with_literals, written
from optiml_core.workload.inference.polynomial import divided_exactly, simplified, tidied
from optiml_core.workload.inference.values import Pointer, Quantity, Unknown
from optiml_core.workload.items import Buffer, Content, Item, Scalar, Shape, SharedMemory, TypeArgument

if TYPE_CHECKING:
    from optiml_core.workload.inference.infer import Inference


@frozen(eq=False)
class Parts:
    """What the host code says about one launch, as expressions over roots."""

    facts: KernelFacts
    lengths: Mapping[str, Quantity | Unknown]
    grid: tuple[Quantity, Quantity, Quantity] | None
    block: tuple[Quantity, Quantity, Quantity] | None
    shared: Quantity | None
    hidden: Mapping[str, frozenset[str]]  # argument -> guessed roots behind it that its expression does not show


def write_down(
    context: Context, unit: TranslationUnit, kernel: Kernel, drafted: Draft, parts: Parts, naming: Naming
) -> Inference:
    """The items of one launch."""
    from optiml_core.workload.inference.infer import Inference

    values = _evaluated(naming)
    block = [written(one.expression, naming) for one in parts.block] if parts.block else None
    grid = [written(one.expression, naming) for one in parts.grid] if parts.grid else None
    problems: list[tuple[str, Problem]] = []
    if block is None or grid is None:
        block, grid = _shapes_from_bounds(kernel, drafted, parts.facts, block, grid, problems)
    lengths = _lengths(kernel, parts, naming, values, grid, block)
    independent = _independent(naming, values, parts.facts, lengths, grid)
    if independent is not None:
        naming, grid = independent
    items: list[Item] = _scalars(kernel, drafted, naming)
    items += _buffers(context, kernel, drafted, parts, lengths, problems)
    constants, names_of_globals = global_buffers(context, unit, parts.facts)
    items += constants
    items += [Shape(name, _trimmed(axes)) for name, axes in (("grid", grid), ("block", block)) if axes is not None]
    if parts.shared is not None:
        items.append(SharedMemory(written(parts.shared.expression, naming)))
    problems += _missing_scalars(kernel, drafted, naming)
    problems += _guessed_types(drafted) + _hidden_guesses(context, naming, parts)
    guesses, remarks, guessed = _notes(context, naming, kernel)
    fixed = _fixed(context, unit, kernel, naming)
    template_arguments = tuple(
        drafted.types.get(one.name, str(values.get(one.name, one.default or ""))) for one in kernel.template_parameters
    )
    return Inference(
        tuple(items),
        (*problems, *guesses),
        tuple(remarks),
        guessed,
        _suspects(context, naming),
        fixed,
        template_arguments,
        names_of_globals,
    )


def _evaluated(naming: Naming) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for _ in range(len(naming.values) + 1):
        for name, expression in naming.values.items():
            value = evaluate(expression, values)
            if not isinstance(value, Failure):
                values[name] = value
    return values


def _trimmed(axes: list[Expression]) -> tuple[Expression, ...]:
    kept = list(axes)
    while len(kept) > 1 and kept[-1] == Number(1):
        kept.pop()
    return tuple(kept)


# -------------------------------------------------------------------------------------- lengths


def _lengths(
    kernel: Kernel,
    parts: Parts,
    naming: Naming,
    values: Mapping[str, Value],
    grid: list[Expression] | None,
    block: list[Expression] | None,
) -> dict[str, Expression | Unknown]:
    """The length of each pointer: the host's, written by the kernel's own indexes where both come to the same."""
    shapes = _shape_names(grid, block)
    known = {name: value for name, value in values.items() if isinstance(value, int)}
    for name, expression in shapes.items():
        value = evaluate(expression, values)
        if isinstance(value, int):
            known[name] = value
    lengths: dict[str, Expression | Unknown] = {}
    for parameter in kernel.parameters:
        if not parameter.is_pointer:
            continue
        host = parts.lengths.get(parameter.name, Unknown("no launch passes it"))
        usable = [
            reach
            for reach in parts.facts.reaches.get(parameter.name, ())
            if all(name in known for name in names_in(reach))
        ]
        reach = largest_reach(usable, known)
        if reach is not None:
            reach = tidied(simplified(replace_names(reach, lambda name: shapes.get(name.text, name))))
        if isinstance(host, Unknown):
            lengths[parameter.name] = reach if reach is not None else host
            continue
        length = written(host.expression, naming)
        same = reach is not None and evaluate(reach, values) == evaluate(length, values)
        follows = naming.same or any(names_in(naming.values[name]) for name in naming.arguments)
        if same and reach is not None and (isinstance(length, Number) or follows):
            length = reach
        elif isinstance(length, Number):
            length = with_literals(length, naming.values)
        lengths[parameter.name] = length
    return lengths


def _shape_names(grid: list[Expression] | None, block: list[Expression] | None) -> dict[str, Expression]:
    shapes: dict[str, Expression] = {}
    for prefix, axes in (("grid", grid), ("block", block)):
        for axis, extent in zip("xyz", axes or (), strict=False):
            shapes[f"{prefix}.{axis}"] = extent
    return shapes


def _independent(
    naming: Naming,
    values: Mapping[str, Value],
    facts: KernelFacts,
    lengths: Mapping[str, Expression | Unknown],
    grid: list[Expression] | None,
) -> tuple[Naming, list[Expression] | None] | None:
    """Lets arguments that the host computes from one variable (`f(x, n, n)`, `f(x, n, 2 * n)`) stand for themselves.

    Possible if the kernel's own indexes say which of them every length follows, and its conditions the same of the
    grid's axes; else None.
    """
    dependent = {name: value for name, value in naming.values.items() if name in naming.arguments and names_in(value)}
    if not dependent:
        return None
    together = frozenset(dependent).union(*(names_in(value) for value in dependent.values()))
    for name, length in lengths.items():
        if isinstance(length, Unknown) or not names_in(length) & together:
            continue
        if length not in [tidied(simplified(reach)) for reach in facts.reaches.get(name, ())]:
            return None
    axes = list(grid) if grid is not None else None
    for position, extent in enumerate(grid or ()):
        for name, value in dependent.items():
            if not isinstance(value, Name):
                extent = with_composite(extent, value, name)
        if axes is not None:
            axes[position] = extent
        used = names_in(extent) & together
        axis = "xyz"[position]
        bound = facts.axes.get(axis) or facts.blocks.get(axis)
        if not used or axes is None or (isinstance(bound, Name) and used == {bound.text}):
            continue
        first = min(used)
        same = isinstance(bound, Name) and bound.text in together and values.get(bound.text) == values.get(first)
        if len(used) > 1 or bound is None or not same:
            return None
        axes[position] = _with_name(extent, first, bound)
    own_values = {name: Number(values[name]) if name in dependent else value for name, value in naming.values.items()}
    return evolve(naming, values=own_values, same={}), axes


def _with_name(expression: Expression, name: str, by: Expression) -> Expression:
    return replace_names(expression, lambda one: by if one.text == name else one)


# --------------------------------------------------------------------------------------- shapes


def _shapes_from_bounds(
    kernel: Kernel,
    drafted: Draft,
    facts: KernelFacts,
    block: list[Expression] | None,
    grid: list[Expression] | None,
    problems: list[tuple[str, Problem]],
) -> tuple[list[Expression] | None, list[Expression] | None]:
    """Shapes that cover what the kernel's own conditions bound."""
    line = drafted.site.range.start_line if drafted.site is not None else kernel.name_range.start_line
    one: Expression = Number(1)
    if block is None:
        extents = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}[facts.dimensions]
        block = [Number(extent) for extent in extents]
        reason = drafted.block.reason if isinstance(drafted.block, Unknown) else ""
        shown = ", ".join(str(extent) for extent in extents[: facts.dimensions])
        text = shown if facts.dimensions == 1 else f"({shown})"
        message = f"the block is not known: {reason}; {text} was taken"
        problems.append(("block", Problem(message, line, cure=_cure(f"block = {text}"))))
    if grid is None:
        covered: list[Expression] = []
        for position, axis in enumerate("xyz"):
            if axis in facts.axes:
                covered.append(simplified(Call("ceil_div", (facts.axes[axis], block[position]))))
            else:
                covered.append(facts.blocks.get(axis, one))
        reason = drafted.grid.reason if isinstance(drafted.grid, Unknown) else ""
        if facts.axes or facts.blocks:
            grid = covered
            message = f"the grid is not known: {reason}; it was taken from the conditions in the kernel"
        else:
            message = f"the grid is not known: {reason}"
        problems.append(("grid", Problem(message, line, cure=_cure("grid = ceil_div(n, 256)"))))
    return block, grid


def _cure(line: str) -> str:
    return f"add `// optiml: {line}` above the kernel"


# ------------------------------------------------------------------------------------- scalars


def _scalars(kernel: Kernel, drafted: Draft, naming: Naming) -> list[Item]:
    items: list[Item] = [
        TypeArgument(one.name, drafted.types[one.name])
        for one in kernel.template_parameters
        if one.name in drafted.types
    ]
    named = [one.name for one in kernel.template_parameters] + [one.name for one in kernel.parameters]
    ordered = [name for name in named if name in naming.values]
    ordered += [name for name in naming.values if name not in ordered]
    items += [Scalar(name, naming.values[name]) for name in ordered]
    return items


def _hidden_guesses(context: Context, naming: Naming, parts: Parts) -> list[tuple[str, Problem]]:
    """Guesses that an argument follows from in a way that its expression does not show."""
    problems = []
    for name, keys in parts.hidden.items():
        for root in (context.roots[key] for key in sorted(keys - set(naming.names))):
            message = f"`{name}` follows from `{root.name}`: {root.note}; {root.value} was taken"
            problems.append((name, Problem(message, root.line, cure=_cure(f"{name} = value"))))
    return problems


def _guessed_types(drafted: Draft) -> list[tuple[str, Problem]]:
    """Type parameters that nothing in the text gives: float was taken."""
    problems = []
    for name, (why, line) in drafted.guessed_types.items():
        message = f"the type `{name}` is not known: {why}; float was taken"
        problems.append((name, Problem(message, line, cure=_cure(f"{name} = float"))))
    return problems


def _missing_scalars(kernel: Kernel, drafted: Draft, naming: Naming) -> list[tuple[str, Problem]]:
    problems: list[tuple[str, Problem]] = []
    for parameter in kernel.parameters:
        has_members = any(name.startswith(parameter.name + ".") for name in naming.values)
        if parameter.is_pointer or parameter.name in naming.values or has_members:
            continue
        given = drafted.arguments.get(parameter.name)
        reason = given.reason if isinstance(given, Unknown) else "no launch passes it as a number"
        place = parameter.range
        message = f"the value of `{parameter.name}` is not known: {reason}"
        cure = _cure(f"{parameter.name} = value")
        problems.append((parameter.name, Problem(message, place.start_line, place.start_column, cure)))
    return problems


def _notes(
    context: Context, naming: Naming, kernel: Kernel
) -> tuple[list[tuple[str, Problem]], list[tuple[str, Problem]], int]:
    """What was guessed, what was chosen, and how many sizes were guessed, for the roots that are in use."""
    guesses: list[tuple[str, Problem]] = []
    remarks: list[tuple[str, Problem]] = []
    sizes = 0
    for key, name in naming.names.items():
        root = context.roots[key]
        if not root.note:
            continue
        note = root.note if "taken" in root.note else f"{root.note}; {root.value} was taken"
        line = root.line
        if root.file is not None and root.file != kernel.file:
            # A problem's line is one of the kernel's own file.
            note, line = f"{note} (line {line} of {os.path.basename(root.file)})", None
        problem = Problem(note, line, cure=_cure(f"{name} = {root.value}"))
        if root.kind == "guess":
            guesses.append((name, problem))
            sizes += root.value == context.guessed_size
        else:
            remarks.append((name, problem))
    return guesses, remarks, sizes


def _suspects(context: Context, naming: Naming) -> frozenset[str]:
    """Roots in use that are zero or negative whole numbers: sentinels, or what code that is not followed sets."""
    roots = [context.roots[key] for key in naming.names]
    plain = [root for root in roots if root.kind in ("variable", "macro") and isinstance(root.value, int)]
    return frozenset(root.key for root in plain if root.value <= 0)


def _fixed(context: Context, unit: TranslationUnit, kernel: Kernel, naming: Naming) -> frozenset[str]:
    """Names that must not vary: constants that device code was compiled with, and template values."""
    text = unit.source.slice(kernel.range)
    for function in unit.device_functions:
        text += unit.source.slice(function.range)
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    own = {parameter.name for parameter in kernel.parameters}
    fixed = {one.name for one in kernel.template_parameters}
    for key, name in naming.names.items():
        root = context.roots[key]
        is_file_constant = root.kind == "macro" or key.startswith(".")
        if is_file_constant and root.name in words - own:
            fixed.add(name)
    return frozenset(fixed)


# ------------------------------------------------------------------------------------- buffers


def _buffers(
    context: Context,
    kernel: Kernel,
    drafted: Draft,
    parts: Parts,
    lengths: Mapping[str, Expression | Unknown],
    problems: list[tuple[str, Problem]],
) -> list[Item]:
    items: list[Item] = []
    for parameter in kernel.parameters:
        if not parameter.is_pointer:
            continue
        length = lengths[parameter.name]
        content = _content(context, kernel, drafted, parts, parameter, lengths)
        if isinstance(length, Unknown):
            shown = f": {content.kind}" if content is not None else ""
            message = f"the length of `{parameter.name}` is not known: {length.reason}"
            line = length.line or parameter.range.start_line
            column = None if length.line else parameter.range.start_column
            cure = _cure(f"{parameter.name}[length]{shown}")
            problems.append((parameter.name, Problem(message, line, column, cure)))
            items.append(Buffer(parameter.name, None, content))
        else:
            items.append(Buffer(parameter.name, length, content))
    return items


def _content(
    context: Context,
    kernel: Kernel,
    drafted: Draft,
    parts: Parts,
    parameter: Parameter,
    lengths: Mapping[str, Expression | Unknown],
) -> Content | None:
    """What a buffer should hold: as the host fills it, as the kernel uses it, else the plain default of its type."""
    facts, name = parts.facts, parameter.name
    element = parameter.element or element_of_type(parameter.type, {**context.aliases, **drafted.types})
    floating = element is None or is_float(element.dtype)
    given = drafted.arguments.get(name)
    evidence = evidence_of(context, given, floating) if isinstance(given, Pointer) else None
    only_written = name in facts.written and name not in facts.read
    if only_written:
        return None
    if not floating and name in facts.offsets:
        walked = lengths.get(facts.offsets[name])
        if walked is not None and not isinstance(walked, Unknown):
            return Content("offsets", (walked,))
    if evidence is not None and evidence.content is not None and name in facts.read:
        return evidence.content
    if evidence is not None and evidence.cleared:
        return Content("zeros")
    if not floating and name in facts.indexes:
        target, scale = facts.indexes[name]
        reached = lengths.get(target)
        if reached is not None and not isinstance(reached, Unknown):
            return Content("index", (_scaled(reached, scale),))
    return Content("normal") if floating else Content("uniform")


def _scaled(length: Expression, scale: Expression | None) -> Expression:
    """How many whole steps of ``scale`` elements a length holds."""
    if scale is None or scale == Number(1):
        return length
    if isinstance(scale, Number) and isinstance(scale.value, int):
        exact = divided_exactly(length, scale.value)
        if exact is not None:
            return exact
    from optiml_core.workload.inference.polynomial import expression_of, polynomial_of

    whole, part = polynomial_of(length), polynomial_of(scale)
    if whole is not None and part is not None and len(part) == 1:
        (factors, coefficient), *_ = part.items()
        rest = {}
        for monomial, own in whole.items():
            left = list(monomial)
            if own % coefficient or any(factor not in left for factor in factors):
                break
            for factor in factors:
                left.remove(factor)
            rest[tuple(left)] = own // coefficient
        else:
            return expression_of(rest)
    return Binary("/", length, scale)
