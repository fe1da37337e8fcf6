"""The workload of a kernel: declared where it is declared, inferred for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from optiml_core.records import ElementType, Failure, Kernel, Problem
from optiml_core.source import TranslationUnit, exact_types
from optiml_core.workload.assembling import assembled
from optiml_core.workload.declaration import Declaration, parse_declaration, stray_declarations
from optiml_core.workload.elements import element_of_type, pointee_spelling
from optiml_core.workload.expression import Number
from optiml_core.workload.inference.globals import element_of_global
from optiml_core.workload.inference.infer import Inference, file_aliases, file_constants, infer
from optiml_core.workload.items import Buffer, Item, Scalar, Shape, TypeArgument, item_key, names_of_item, replaced
from optiml_core.workload.neighbours import related_units, run_arguments
from optiml_core.workload.record import Workload


def find_workload(
    unit: TranslationUnit,
    kernel: Kernel,
    toml: str | None = None,
    others: Sequence[TranslationUnit] | None = None,
) -> Workload:
    """The workload of ``kernel``: what the comment above it and ``toml`` (the text of a workload file) declare; what
    they leave open is inferred from the host code of ``unit`` and ``others`` (its headers and callers; None: those
    that are found next to the file), and from the kernel's own bounds.

    Never fails: errors stand in ``.failures``, guesses in ``.problems``; ``resolve_launch`` gives the first failure.
    """
    if others is None:
        others = related_units(unit, kernel)
    # A kernel of a header is read where it stands; the file that was asked about is then one of its callers.
    home = next((one for one in (unit, *others) if one.source.path == kernel.file), unit)
    if home is not unit:
        unit, others = home, [unit, *(one for one in others if one is not home)]
    declaration = parse_declaration(unit.source.text, kernel, toml)
    declaration = evolve(declaration, problems=(*declaration.problems, *stray_declarations(unit, kernel)))
    body = unit.source.slice(kernel.body_range)
    elements = _elements_of_globals(unit)
    elements |= _elements_of_parameters(unit, kernel, others, kernel.instantiations[0] if kernel.instantiations else ())
    if _is_complete(declaration, kernel):
        inference = None
        items, problems = declaration.items, declaration.problems
    else:
        completed = tuple(evolve(one, element=one.element or elements.get(one.name)) for one in kernel.parameters)
        inference = infer(unit, evolve(kernel, parameters=completed), others, run_arguments(unit))
        items, problems = _merged(declaration, inference, kernel)
    items, fixed = _with_file_constants(unit, kernel, items, declaration)
    launches = declaration.launches
    if inference is not None and declaration.is_empty:
        launches = inference.launches
    template_arguments = kernel.instantiations[0] if kernel.instantiations else ()
    if inference is not None:
        fixed |= inference.fixed
        # Evaluated, where the kernel only has the text of the launch.
        template_arguments = inference.template_arguments or template_arguments
    return assembled(
        kernel,
        items,
        launches,
        "inferred" if declaration.is_empty else "declared",
        body,
        template_arguments=template_arguments,
        problems=problems,
        failures=declaration.failures,
        fixed=fixed | {one.name for one in kernel.template_parameters},
        elements=elements,
        globals_of_file=tuple(name for name in elements if name not in {one.name for one in kernel.parameters}),
    )


def _is_complete(declaration: Declaration, kernel: Kernel) -> bool:
    """Whether the declaration says all that a launch needs, so that nothing has to be inferred."""
    items = declaration.items
    named = {item.name.split(".")[0] for item in items if isinstance(item, (Scalar, Buffer, Shape, TypeArgument))}
    sized = {item.name for item in declaration.items if isinstance(item, Buffer) and item.length is not None}
    template = {one.name for one in kernel.template_parameters if one.default is None}
    pointers = {one.name for one in kernel.parameters if one.is_pointer}
    wanted = {one.name for one in kernel.parameters} | {"grid", "block"}
    return wanted <= named and pointers <= sized and (template <= named or bool(kernel.instantiations))


def _merged(
    declaration: Declaration, inference: Inference, kernel: Kernel
) -> tuple[tuple[Item, ...], tuple[Problem, ...]]:
    """Declared items in the place of inferred ones; inferred helper names that nothing uses any more are dropped."""
    declared = {item_key(item): item for item in declaration.items}
    completed = [_with_length(item, inference) for item in declaration.items]
    items = replaced(inference.items, completed) if inference.items else tuple(completed)
    own = {one.name for one in kernel.parameters} | {one.name for one in kernel.template_parameters}
    kept = items
    while True:
        used: set[str] = set().union(*(names_of_item(item) for item in _all(kept, declaration)))
        fewer = tuple(
            item
            for item in kept
            if not isinstance(item, Scalar)
            or item.name.split(".")[0] in own
            or item.name in used
            or item.name in declared
        )
        if len(fewer) == len(kept):
            break
        kept = fewer
    # A helper name that was dropped takes its remark with it.
    present = {item_key(item) for item in kept} | own | {"grid", "block"}
    noted = [*inference.guesses, *inference.remarks]
    still_open = [problem for name, problem in noted if name in present and _is_open(declared.get(name))]
    return kept, (*declaration.problems, *still_open)


def _is_open(declared: Item | None) -> bool:
    return declared is None or (isinstance(declared, Buffer) and declared.length is None)


def _with_length(item: Item, inference: Inference) -> Item:
    """`name: content` takes the inferred length."""
    if not isinstance(item, Buffer) or item.length is not None:
        return item
    for known in inference.items:
        if isinstance(known, Buffer) and known.name == item.name:
            return Buffer(item.name, known.length, item.content, place=item.place)
    return item


def _with_file_constants(
    unit: TranslationUnit, kernel: Kernel, items: tuple[Item, ...], declaration: Declaration
) -> tuple[tuple[Item, ...], frozenset[str]]:
    """Constants of the file that a declaration uses by name (`x[TILE * TILE]`) become helper names."""
    known = {item.name for item in items if isinstance(item, Scalar)}
    used: set[str] = set().union(*(names_of_item(item) for item in _all(items, declaration)))
    unknown = sorted(used - known)
    if not unknown:
        return items, frozenset()
    constants = file_constants(unit, unknown)
    added = tuple(Scalar(name, Number(value)) for name, value in constants.items())
    return (*added, *items), frozenset(constants)


def _all(items: Iterable[Item], declaration: Declaration) -> Iterable[Item]:
    yield from items
    for launch in declaration.launches:
        yield from launch


def _elements_of_parameters(
    unit: TranslationUnit, kernel: Kernel, others: Sequence[TranslationUnit], template_arguments: tuple[str, ...]
) -> dict[str, ElementType]:
    """Element types of parameters that the file's own text hides behind a typedef of a header."""
    template = {one.name for one in kernel.template_parameters}
    hidden = [one for one in kernel.parameters if one.element is None and pointee_spelling(one.type) not in template]
    if not hidden:
        return {}
    aliases = file_aliases([unit, *others])
    own = {name: target for name, target in aliases.items() if name not in template}
    found = {one.name: element_of_type(one.type, own) for one in hidden}
    elements = {name: element for name, element in found.items() if element is not None}
    if len(elements) < len(hidden):
        elements = {**_by_libclang(unit, kernel, template_arguments), **elements}
    return elements


def _by_libclang(unit: TranslationUnit, kernel: Kernel, template_arguments: tuple[str, ...]) -> dict[str, ElementType]:
    """Structs with their layout, and types that only a compiler can follow."""
    wanted = {kernel.qualified: [template_arguments]} if kernel.template_parameters and all(template_arguments) else {}
    types = exact_types(unit, instantiations=wanted)
    if isinstance(types, Failure):
        return {}
    keys = [f"{kernel.qualified}<{', '.join(template_arguments)}>", kernel.qualified]
    known = next((types[key] for key in keys if key in types), ())
    pairs = zip(kernel.parameters, known, strict=False)
    return {parameter.name: element for parameter, element in pairs if element is not None}


def _elements_of_globals(unit: TranslationUnit) -> dict[str, ElementType]:
    elements: dict[str, ElementType] = {}
    for variable in unit.globals:
        element = element_of_global(variable) if variable.space in ("constant", "device") else None
        if element is not None:
            elements[variable.name] = element
    return elements
