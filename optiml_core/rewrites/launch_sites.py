"""Edits of host code: every launch site of a kernel follows the kernel's new launch, or none does."""

from __future__ import annotations

import re

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit, LaunchChange, LaunchSite
from optiml_core.rewrites.callers import launches_elsewhere, macro_call_around, unknown_callers
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.declaration_comment import edit_declaration
from optiml_core.rewrites.kernel_body import KernelBody, object_macros
from optiml_core.rewrites.launch_names import kernel_meaning, workload_meaning
from optiml_core.rewrites.launch_text import (
    AXES,
    LAUNCH_NAMES,
    LaunchPlan,
    Triple,
    host_text,
    launch_change,
    substitute_plan,
)
from optiml_core.rewrites.layout import code_of, edit
from optiml_core.rewrites.syntax import (
    DeclaredVariable,
    ancestors,
    arguments_of,
    assignments_in,
    called_name,
    declared_variables,
    field,
    names_in,
    names_in_text,
    squeeze,
    text_of,
    walk_types,
)
from optiml_core.source import TranslationUnit
from optiml_core.workload.expression import names_in as names_of_expression


@frozen
class LaunchEdits:
    """The edits of launch sites and of the workload comment, and the change they amount to."""

    edits: tuple[Edit, ...]
    change: LaunchChange
    not_checked: tuple[str, ...] = ()


def edit_launches(context: RewriteContext, body: KernelBody, plan: LaunchPlan) -> LaunchEdits | Refusal:
    """Brings every launch of the kernel to ``plan``.

    The facts that a changed launch needs are checked first: that all callers are known, or that the
    user allowed ``launch``. A launch site that cannot be edited is a Refusal, never left as it is.
    """
    resolved = substitute_plan(plan, lambda name: workload_meaning(body, name, frozenset()))
    if isinstance(resolved, Refusal):
        return resolved
    refusal = unknown_callers(context)
    if refusal is not None and "launch" not in context.allow:
        return refusal
    sites = [OutsideLaunch(context.unit, site) for site in context.unit.launches_of(context.kernel)]
    sites += launches_elsewhere(context)
    host_plan = substitute_plan(plan, lambda name: kernel_meaning(body, name, frozenset()))
    if isinstance(host_plan, Refusal):
        return host_plan
    edits: dict[tuple[str, int, int], Edit] = {}
    for outside in sites:
        made = _edit_site(outside, context, host_plan, [one.site for one in sites if one.unit is outside.unit])
        if isinstance(made, Refusal):
            return made
        for one in made:
            edits[(one.file, one.start_byte, one.end_byte)] = one
    declaration = edit_declaration(context.unit, context.kernel, resolved, complete=not sites)
    if isinstance(declaration, Refusal):
        return declaration
    notes = () if refusal is None else (f"callers outside the known files launch {context.kernel.name} the new way",)
    return LaunchEdits((*edits.values(), *declaration), launch_change(resolved), notes)


# --------------------------------------------------------------------------- one launch site


@frozen
class _Place:
    """A launch site with the nodes around it."""

    unit: TranslationUnit
    site: LaunchSite
    function: Node | None  # the host function around it
    grid: Node
    block: Node
    siblings: tuple[LaunchSite, ...]  # the launches of the same kernel in the same file


def _edit_site(
    outside: OutsideLaunch, context: RewriteContext, plan: LaunchPlan, siblings: list[LaunchSite]
) -> tuple[Edit, ...] | Refusal:
    unit, site = outside.unit, outside.site
    line = unit.source.line_of(site.range.start_byte)
    nodes = [
        unit.tree.root_node.named_descendant_for_byte_range(where.start_byte, where.end_byte)
        for where in (site.grid_range, site.block_range)
    ]
    if nodes[0] is None or nodes[1] is None:
        return Refusal(f"the launch in line {line} is not understood")
    grid, block = nodes[0], nodes[1]
    macro = macro_call_around(unit, grid)
    if macro is not None:
        return Refusal(f"the launch in line {line} stands inside the macro {macro}")
    function = next((around for around in ancestors(grid) if around.type == "function_definition"), None)
    place = _Place(unit, site, function, grid, block, tuple(siblings))
    names = _names_at_site(place, context, plan)
    if isinstance(names, Refusal):
        return names
    edits: list[Edit] = []
    for what, triple, node in (("grid", plan.grid, grid), ("block", plan.block, block)):
        if triple is not None:
            # Uses in what is replaced already (the grid computed from the block) do not count.
            edits.append(_edit_argument(place, what, triple, node, names, tuple(edits)))
    if plan.shared is not None:
        edits.append(_edit_shared(place, host_text(plan.shared, names.__getitem__)))
    return tuple(edits)


def _names_at_site(place: _Place, context: RewriteContext, plan: LaunchPlan) -> dict[str, str] | Refusal:
    """Host code for every name in the plan, at this launch site."""
    parameters = {parameter.name: index for index, parameter in enumerate(context.kernel.parameters)}
    wanted: set[str] = set()
    for triple in (plan.grid, plan.block):
        for expression in triple or ():
            wanted |= names_of_expression(expression)
    if plan.shared is not None:
        wanted |= names_of_expression(plan.shared)
    line = place.unit.source.line_of(place.site.range.start_byte)
    found: dict[str, str] = {}
    for name in wanted:
        if name in parameters:
            if parameters[name] >= len(place.site.arguments):
                return Refusal(f"the launch in line {line} leaves `{name}` to its default")
            argument = place.site.arguments[parameters[name]].strip()
            if "++" in argument or "--" in argument or "=" in argument:
                return Refusal(f"the launch in line {line} changes a variable in its arguments")
            found[name] = argument
        elif name == "shared":
            found[name] = place.site.shared or "0"
        elif name in LAUNCH_NAMES:
            what, axis = name.split(".")
            code = _component(place, place.grid if what == "grid" else place.block, AXES.index(axis))
            if code is None:
                return Refusal(f"the {what} of the launch in line {line} cannot be taken apart")
            found[name] = code
        elif place.unit is context.unit or name in object_macros(place.unit):
            found[name] = name  # a macro or constant of the file; visible if defined above the host function
            if not _visible(place, context, name):
                return Refusal(f"`{name}` is not visible at the launch in line {line}")
        else:
            return Refusal(f"`{name}` may not be known at the launch in line {line} of {place.unit.source.path}")
    return found


def _visible(place: _Place, context: RewriteContext, name: str) -> bool:
    for macro in place.unit.macros:
        if macro.name == name:
            return macro.range.end_byte <= place.site.range.start_byte
    for child in place.unit.tree.root_node.named_children:
        if any(variable.name == name for variable in declared_variables(child)):
            return child.end_byte <= place.site.range.start_byte
    # The kernel itself sees the name, from an included file, and stands above its launches.
    return context.kernel.range.start_byte <= place.site.range.start_byte


def _variable_of(place: _Place, name: str) -> DeclaredVariable | None:
    """The one local variable of that name in the host function, declared before the launch."""
    if place.function is None:
        return None
    found = [
        variable
        for declaration in walk_types(place.function, "declaration")
        for variable in declared_variables(declaration)
        if variable.name == name
    ]
    return found[0] if len(found) == 1 and found[0].declarator.end_byte <= place.site.range.start_byte else None


def _components(value: Node) -> tuple[Node, ...] | None:
    """The arguments of ``dim3(a, b)``, ``dim3{a, b}``, ``{a, b}`` or of a declaration's brackets."""
    if value.type in ("argument_list", "initializer_list", "parameter_list"):
        return tuple(child for child in value.named_children if child.type != "comment")
    if value.type == "call_expression" and called_name(value) == "dim3":
        return arguments_of(value)
    if value.type == "compound_literal_expression":
        return _components(field(value, "value"))
    return None


def _component(place: _Place, node: Node, axis: int) -> str | None:
    """Host code for one component of a grid or block argument."""
    parts = _components(node)
    if parts is not None:
        return squeeze_spaces(code_of(place.unit, parts[axis])) if axis < len(parts) else "1"
    if node.type == "identifier":
        variable = _variable_of(place, text_of(node))
        initial = None if variable is None or variable.value is None else _components(variable.value)
        if variable is not None and initial is not None and not _is_modified(place, variable.name):
            # A number, or a component left out, says the same anywhere.
            if axis >= len(initial):
                return "1"
            if initial[axis].type == "number_literal":
                return text_of(initial[axis])
        kind = _declared_type(place, text_of(node))
        if kind is None:
            return None
        if "dim3" in kind:
            return f"{text_of(node)}.{AXES[axis]}"
        return text_of(node) if axis == 0 else "1"
    if node.type in ("number_literal", "binary_expression", "parenthesized_expression"):
        return squeeze_spaces(code_of(place.unit, node)) if axis == 0 else "1"
    return None


def _is_modified(place: _Place, name: str) -> bool:
    """Whether the host function changes a variable after its declaration, also one member of it."""
    return place.function is None or any(
        re.match(rf"\W*{re.escape(name)}\b", text_of(made.left)) for made in assignments_in(place.function)
    )


def squeeze_spaces(code: str) -> str:
    return " ".join(code.split())


def _declared_type(place: _Place, name: str) -> str | None:
    variable = _variable_of(place, name)
    if variable is not None:
        return None if variable.is_pointer or variable.is_array or "auto" in variable.type else variable.type
    if place.function is not None:
        for parameter in walk_types(field(place.function, "declarator"), "parameter_declaration"):
            if name in names_in(parameter):
                return text_of(field(parameter, "type"))
    if any(macro.name == name for macro in place.unit.macros):
        return "int"
    return None


def _edit_argument(
    place: _Place, what: str, triple: Triple, node: Node, names: dict[str, str], replaced: tuple[Edit, ...]
) -> Edit:
    """Changes the variable that holds the grid or block if only such launches use it, else the launch itself."""
    variable = _variable_of(place, text_of(node)) if node.type == "identifier" else None
    if variable is not None and variable.value is not None:
        # Inside its own declaration a component is what is written there.
        initial = _components(variable.value) or ()
        there = {f"{what}.{axis}": code_of(place.unit, part) for axis, part in zip(AXES, initial, strict=False)}
        texts = _trimmed(triple, {**names, **there})
        if _may_change(place, variable, names_in_text(" ".join(texts)), replaced):
            if "dim3" in variable.type:
                return _edit_dim3(place, variable, ", ".join(texts))
            if len(texts) == 1:
                return _replace_value(place.unit, variable, texts[0])
    texts = _trimmed(triple, names)
    inline = texts[0] if len(texts) == 1 else f"dim3({', '.join(texts)})"
    return edit(place.unit, node.start_byte, node.end_byte, inline)


def _trimmed(triple: Triple, names: dict[str, str]) -> list[str]:
    """Host code of the components, without ones at the end."""
    texts = [host_text(one, names.__getitem__) for one in triple]
    while len(texts) > 1 and texts[-1] == "1":
        texts.pop()
    return texts


def _may_change(place: _Place, variable: DeclaredVariable, needed: frozenset[str], replaced: tuple[Edit, ...]) -> bool:
    """Whether the launches of this kernel alone use the variable, and what it is to hold is known that early."""
    function = place.function
    if function is None or variable.name in needed:
        return False
    if any(variable.name in names_in_text(one.replacement.decode("utf-8", "surrogateescape")) for one in replaced):
        return False  # what was written a moment ago still means the old value
    declaration = variable.declaration
    for use in walk_types(function, "identifier"):
        if text_of(use) != variable.name or declaration.start_byte <= use.start_byte < declaration.end_byte:
            continue
        if any(one.start_byte <= use.start_byte < one.end_byte for one in replaced):
            continue  # this use goes away
        in_launch = any(
            where.start_byte <= use.start_byte < where.end_byte
            for site in place.siblings
            for where in (site.grid_range, site.block_range)
        )
        if not in_launch or not _same_place(place, use):
            return False
    later = [
        other
        for other in walk_types(function, "declaration")
        if other.start_byte > declaration.start_byte
        and any(declared.name in needed for declared in declared_variables(other))
    ]
    changed = {
        text_of(made.left)
        for made in assignments_in(function)
        if declaration.end_byte <= made.node.start_byte < place.site.range.start_byte
    }
    return not later and not changed & needed


def _same_place(place: _Place, use: Node) -> bool:
    """Whether a use as grid or block means the same launch expressions: only the launch at hand, or its equals."""
    for site in place.siblings:
        if site.range.start_byte <= use.start_byte < site.range.end_byte:
            return [squeeze(a) for a in site.arguments] == [squeeze(a) for a in place.site.arguments] and (
                squeeze(site.grid) == squeeze(place.site.grid) and squeeze(site.block) == squeeze(place.site.block)
            )
    return False


def _edit_dim3(place: _Place, variable: DeclaredVariable, inside: str) -> Edit:
    value = variable.value
    assert value is not None
    if value.type in ("argument_list", "initializer_list", "parameter_list"):
        return edit(place.unit, value.start_byte + 1, value.end_byte - 1, inside)
    if _components(value) is not None and value.type == "call_expression":
        arguments = field(value, "arguments")
        return edit(place.unit, arguments.start_byte + 1, arguments.end_byte - 1, inside)
    return edit(place.unit, value.start_byte, value.end_byte, f"dim3({inside})")


def _replace_value(unit: TranslationUnit, variable: DeclaredVariable, text: str) -> Edit:
    value = variable.value
    assert value is not None
    if value.type in ("argument_list", "initializer_list", "parameter_list"):
        return edit(unit, value.start_byte + 1, value.end_byte - 1, text)
    return edit(unit, value.start_byte, value.end_byte, text)


def _edit_shared(place: _Place, text: str) -> Edit:
    where = place.site.shared_range
    if where is not None:
        return edit(place.unit, where.start_byte, where.end_byte, text)
    end = place.site.block_range.end_byte
    return edit(place.unit, end, end, f", {text}")
