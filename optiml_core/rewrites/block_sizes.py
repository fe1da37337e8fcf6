"""What is known of the block's width at every launch of a kernel."""

from __future__ import annotations

from optiml_core.rewrites.callers import unknown_callers
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import object_macros
from optiml_core.rewrites.launch_text import LaunchPlan, read, substitute_plan
from optiml_core.rewrites.syntax import ancestors, assignments_in, declared_variables, text_of, walk_types
from optiml_core.workload.expression import Expression, Number


def known_block_widths(context: RewriteContext) -> frozenset[int] | None:
    """``blockDim.x`` of every launch, where every caller is known and passes a number; else None."""
    if unknown_callers(context) is not None:
        return None
    sites = [OutsideLaunch(context.unit, site) for site in context.unit.launches_of(context.kernel)]
    widths = [_width(outside) for outside in (*sites, *(context.other_launch_sites or ()))]
    numbers = frozenset(width for width in widths if width is not None)
    return numbers if widths and None not in widths else None


def _width(outside: OutsideLaunch) -> int | None:
    text = outside.site.block.strip()
    for opening in ("dim3(", "dim3 (", "dim3{", "{"):
        if text.startswith(opening):
            text = text[len(opening) :].rstrip(")}").split(",")[0]
            break
    found = read(text)
    if isinstance(found, Refusal):
        return None
    value = substitute_plan(LaunchPlan(shared=found), lambda name: _meaning(outside, name))
    if isinstance(value, Refusal) or not isinstance(value.shared, Number) or not isinstance(value.shared.value, int):
        return None
    return value.shared.value


def _meaning(outside: OutsideLaunch, name: str) -> Expression | Refusal | None:
    """The number that a host variable or macro holds at the launch."""
    macro = object_macros(outside.unit).get(name)
    if macro is not None:
        return read(macro)
    root = outside.unit.tree.root_node
    where = outside.site.range
    node = root.named_descendant_for_byte_range(where.start_byte, where.end_byte)
    function = None if node is None else next((n for n in ancestors(node) if n.type == "function_definition"), None)
    scope = function or root
    found = [v for d in walk_types(scope, "declaration") for v in declared_variables(d) if v.name == name]
    if (
        len(found) != 1
        or found[0].value is None
        or any(text_of(m.left).startswith(name) for m in assignments_in(scope))
    ):
        return Refusal(f"`{name}` is not a number")
    value = text_of(found[0].value).strip()
    if value.startswith("dim3"):
        value = value[4:].strip()
    if value[:1] in "({":
        value = value.strip("(){}").split(",")[0]
    return read(value)
