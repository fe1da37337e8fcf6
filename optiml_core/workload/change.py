"""How a candidate's launch differs from the original's: by its comment, else by its launch site.

Buffers, contents, scalars and sizes come from the original only. A candidate sets grid, block, dynamic shared
memory and template arguments; anything else that its comment says must be what the original says.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from optiml_core.records import Failure, Kernel, LaunchChange
from optiml_core.source import TranslationUnit
from optiml_core.workload.declaration import Declaration, parse_declaration
from optiml_core.workload.expression import Expression, Name, Number, replace_names, write_expression
from optiml_core.workload.inference.infer import Inference, infer
from optiml_core.workload.items import (
    Buffer,
    Item,
    Place,
    Requirement,
    Scalar,
    Shape,
    SharedMemory,
    TypeArgument,
    item_key,
    names_of_item,
    with_names,
    write_item,
)
from optiml_core.workload.launches import resolve_launch
from optiml_core.workload.neighbours import related_units, run_arguments
from optiml_core.workload.record import Workload


@frozen
class _Shapes:
    """What a candidate says of its launch, in the original's names; None where it says nothing."""

    grid: tuple[Expression, ...] | None = None
    block: tuple[Expression, ...] | None = None
    shared: Expression | None = None
    template_arguments: tuple[str, ...] | None = None


def launch_change_of(
    original: Workload, candidate_unit: TranslationUnit, candidate_kernel: Kernel
) -> LaunchChange | Failure:
    """The launch change that a candidate's own text asks for; ``LaunchChange()`` where it asks for none.

    Parameters correspond by their position. Failure ``bad-input`` for an item of its comment that differs from the
    original's, with its line; ``unsupported`` ("could not tell") where its launch cannot be read or there are several.
    """
    declaration = parse_declaration(candidate_unit.source.text, candidate_kernel)
    if declaration.failures:
        return declaration.failures[0]
    renamed = _renaming(original.kernel, candidate_kernel)
    own = _own_names(original, declaration, renamed)
    for item in [*declaration.items, *(one for launch in declaration.launches for one in launch)]:
        problem = _foreign(item, original, candidate_kernel, renamed, own)
        if problem is not None:
            return problem
    said = _from_items(declaration.items, candidate_kernel, renamed, own)
    if said.grid is None and said.block is None and said.shared is None:
        from_site = _from_launch_site(original, candidate_unit, candidate_kernel, renamed)
        if isinstance(from_site, Failure):
            return from_site
        template_arguments = said.template_arguments or from_site.template_arguments
        said = _Shapes(from_site.grid, from_site.block, from_site.shared, template_arguments)
    return _difference(original, candidate_kernel, said)


def _renaming(original: Kernel, candidate: Kernel) -> dict[str, str]:
    pairs = zip(candidate.parameters, original.parameters, strict=False)
    return {one.name: other.name for one, other in pairs if one.name != other.name}


def _own_names(original: Workload, declaration: Declaration, renamed: Mapping[str, str]) -> dict[str, Expression]:
    """Helper names that only the candidate has: they stand for their value, since nothing else can depend on them."""
    known = {item.name for item in original.items if isinstance(item, Scalar)} | set(renamed)
    known |= {parameter.name for parameter in original.kernel.parameters}
    return {item.name: item.value for item in declaration.items if isinstance(item, Scalar) and item.name not in known}


# ------------------------------------------------------------------------------------- comment


def _foreign(
    item: Item,
    original: Workload,
    candidate: Kernel,
    renamed: Mapping[str, str],
    own: Mapping[str, Expression],
) -> Failure | None:
    """Why an item of the candidate's comment is not the candidate's to set; None if it is, or says the same."""
    template = {one.name for one in candidate.template_parameters}
    if isinstance(item, (Shape, SharedMemory, TypeArgument)):
        return None
    if isinstance(item, Scalar) and (item.name in template or item.name in own):
        return None
    same = with_names(item, renamed)
    known = {item_key(one): one for launch in original.launches for one in (*original.items, *launch)}
    theirs = known.get(item_key(same))
    alike = theirs == same or any(same == one for launch in original.launches for one in launch)
    if isinstance(same, Buffer) and isinstance(theirs, Buffer) and same.length is None:
        alike = alike or same.content == theirs.content
    if alike:
        return None
    place = item.place
    if isinstance(item, Requirement):
        message = f"the candidate's `{write_item(item)}` is not one of the original's"
    else:
        shown = f"`{write_item(theirs)}`" if theirs is not None else "nothing"
        message = f"the candidate's `{write_item(item)}` differs from the original's, which has {shown}"
    cure = "a candidate may set grid, block, shared and template arguments only"
    return Failure("bad-input", message, place.file, place.line, place.column, cure)


def _from_items(
    items: tuple[Item, ...], candidate: Kernel, renamed: Mapping[str, str], own: Mapping[str, Expression]
) -> _Shapes:
    template = {one.name: one for one in candidate.template_parameters}
    values: dict[str, Expression] = dict(own)
    values.update({item.name: item.value for item in items if isinstance(item, Scalar) and item.name in template})

    def written(expression: Expression, depth: int = 0) -> Expression:
        def meaning(name: Name) -> Expression:
            if name.text in values and depth < 20:
                return written(values[name.text], depth + 1)
            return Name(renamed.get(name.text, name.text), name.column)

        return replace_names(expression, meaning)

    shapes = {item.name: tuple(written(one) for one in item.extents) for item in items if isinstance(item, Shape)}
    shared = [written(item.bytes) for item in items if isinstance(item, SharedMemory)]
    given = {item.name: item.spelling for item in items if isinstance(item, TypeArgument)}
    given |= {name: write_expression(written(values[name])) for name in template if name in values}
    arguments: tuple[str, ...] | None = None
    if template and set(given) == set(template):
        arguments = tuple(_as_argument(given[name], template[name].kind) for name in template)
    return _Shapes(shapes.get("grid"), shapes.get("block"), shared[-1] if shared else None, arguments)


def _as_argument(text: str, kind: str) -> str:
    return {"0": "false", "1": "true"}.get(text, text) if kind.strip() == "bool" else text


# --------------------------------------------------------------------------------- launch site


def _from_launch_site(
    original: Workload, unit: TranslationUnit, kernel: Kernel, renamed: Mapping[str, str]
) -> _Shapes | Failure:
    """The shapes of the candidate's launch in its own host code; nothing where it has none."""
    if not unit.launches_of(kernel):
        return _Shapes()
    inference = infer(unit, kernel, related_units(unit, kernel), run_arguments(unit))
    shapes = [item for item in inference.items if isinstance(item, Shape)]
    line = unit.launches_of(kernel)[0].range.start_line
    unknown = [problem for name, problem in inference.guesses if name in ("grid", "block")]
    if unknown or len(shapes) != 2:
        reason = unknown[0].message if unknown else "its shape is not known"
        message = f"could not tell how the candidate launches `{kernel.qualified}`: {reason}"
        return Failure("unsupported", message, kernel.file, line, cure="declare grid and block above the candidate")
    for launch in inference.launches:
        if any(isinstance(item, (Shape, SharedMemory)) for item in launch) and original.launch_count == 1:
            message = f"could not tell which of the candidate's {inference.sites} launches is meant"
            return Failure("unsupported", message, kernel.file, line, cure="declare grid and block above the candidate")
    return _in_the_originals_names(original, inference, kernel, renamed)


def _in_the_originals_names(
    original: Workload, inference: Inference, kernel: Kernel, renamed: Mapping[str, str]
) -> _Shapes:
    """Helper names become their values, unless the original has the same helper with the same value."""
    parameters = {one.name for one in kernel.parameters}
    theirs = {item.name: item.value for item in original.items if isinstance(item, Scalar)}
    values = {item.name: item.value for item in inference.items if isinstance(item, Scalar)}

    def written(expression: Expression, depth: int = 0) -> Expression:
        def meaning(name: Name) -> Expression:
            if name.text in parameters:
                return Name(renamed.get(name.text, name.text))
            value = values.get(name.text)
            if value is None or theirs.get(name.text) == value or depth > 20:
                return name
            return written(value, depth + 1)

        return replace_names(expression, meaning)

    shapes = {
        item.name: tuple(written(one) for one in item.extents) for item in inference.items if isinstance(item, Shape)
    }
    shared = [written(item.bytes) for item in inference.items if isinstance(item, SharedMemory)]
    arguments = inference.template_arguments if kernel.template_parameters else None
    return _Shapes(shapes.get("grid"), shapes.get("block"), shared[-1] if shared else Number(0), arguments)


# ------------------------------------------------------------------------------------ result


def _difference(original: Workload, candidate: Kernel, said: _Shapes) -> LaunchChange | Failure:
    """What is left to change once what is the same is taken out."""
    shapes = {item.name: item.extents for item in original.items if isinstance(item, Shape)}
    shared = [item.bytes for item in original.items if isinstance(item, SharedMemory)]
    grid = None if said.grid is None or said.grid == shapes.get("grid") else _three(said.grid)
    block = None if said.block is None or said.block == shapes.get("block") else _three(said.block)
    their_shared = shared[-1] if shared else Number(0)
    own_shared = None if said.shared is None or said.shared == their_shared else write_expression(said.shared)
    arguments = said.template_arguments
    if arguments is not None and arguments == _arguments_of(original):
        arguments = None
    if candidate.template_parameters and not original.kernel.template_parameters and not arguments:
        message = f"could not tell the template arguments of the candidate `{candidate.qualified}`"
        return Failure("unsupported", message, candidate.file, candidate.name_range.start_line)
    change = LaunchChange(grid, block, own_shared, arguments)
    known = {item.name for item in original.items if isinstance(item, Scalar)}
    for text in (said.grid or ()) + (said.block or ()) + ((said.shared,) if said.shared is not None else ()):
        missing = sorted(names_of_item(Scalar("", text, place=Place())) - known)
        if missing:
            message = f"the candidate's launch uses `{missing[0]}`, which the original does not have"
            return Failure("bad-input", message, candidate.file, candidate.name_range.start_line)
    return change


def _arguments_of(original: Workload) -> tuple[str, ...]:
    launch = resolve_launch(original)
    return original.template_arguments if isinstance(launch, Failure) else launch.template_arguments


def _three(extents: tuple[Expression, ...]) -> tuple[str, str, str]:
    x, y, z = [*(write_expression(extent) for extent in extents), "1", "1", "1"][:3]
    return x, y, z
