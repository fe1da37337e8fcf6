"""What is known of the block's shape at every launch of a kernel."""

from __future__ import annotations

from optiml_core.rewrites.callers import launches_elsewhere, unknown_callers
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import object_macros
from optiml_core.rewrites.launch_text import LaunchPlan, read, substitute_plan
from optiml_core.rewrites.syntax import ancestors, assignments_in, declared_variables, text_of, walk_types
from optiml_core.workload.expression import Expression, Number

Shape = tuple[int | None, int | None, int | None]


def known_blocks(context: RewriteContext) -> tuple[Shape, ...] | None:
    """The block of every launch, None for a side that is no number; None if not every caller is known."""
    if unknown_callers(context) is not None:
        return None
    sites = [OutsideLaunch(context.unit, site) for site in context.unit.launches_of(context.kernel)]
    return tuple(_shape(outside) for outside in (*sites, *launches_elsewhere(context)))


def known_block_widths(context: RewriteContext) -> frozenset[int] | None:
    """``blockDim.x`` of every launch, where every caller is known and passes a number; else None."""
    blocks = known_blocks(context)
    if not blocks:
        return None
    widths = [block[0] for block in blocks]
    numbers = frozenset(width for width in widths if width is not None)
    return numbers if None not in widths else None


def flat_rank(context: RewriteContext) -> int:
    """How many sides of the block may be more than one: 1, 2 or 3 (also where it is not known)."""
    blocks = known_blocks(context)
    if not blocks:
        return 3
    if any(block[2] != 1 for block in blocks):
        return 3
    return 2 if any(block[1] != 1 for block in blocks) else 1


def _shape(outside: OutsideLaunch) -> Shape:
    parts = _parts(outside, outside.site.block.strip())
    values = [_number(outside, part) for part in parts[:3]]
    values += [1] * (3 - len(values))
    return values[0], values[1], values[2]


def _parts(outside: OutsideLaunch, text: str) -> list[str]:
    """The components of a block argument, by way of the dim3 variable that it may name."""
    if text.isidentifier():
        declared = _initialiser(outside, text)
        if declared is not None and declared[0]:
            text = declared[1]
    for opening in ("dim3", ""):
        rest = text[len(opening) :].strip() if text.startswith(opening) else ""
        if rest[:1] in ("(", "{") and rest[-1:] in (")", "}"):
            return _split(rest[1:-1])
    return [text]


def _split(text: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth, at = [], 0, 0
    for index, character in enumerate(text + ","):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[at:index])
            at = index + 1
    return parts


def _number(outside: OutsideLaunch, text: str) -> int | None:
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
    declared = _initialiser(outside, name)
    return Refusal(f"`{name}` is not a number") if declared is None or declared[0] else read(declared[1])


def _initialiser(outside: OutsideLaunch, name: str) -> tuple[bool, str] | None:
    """Whether a host variable is a dim3, and the text it begins with; None if it changes or is not found."""
    root = outside.unit.tree.root_node
    where = outside.site.range
    node = root.named_descendant_for_byte_range(where.start_byte, where.end_byte)
    function = None if node is None else next((n for n in ancestors(node) if n.type == "function_definition"), None)
    scope = function or root
    found = [v for d in walk_types(scope, "declaration") for v in declared_variables(d) if v.name == name]
    changed = {text_of(made.left).split(".")[0].strip() for made in assignments_in(scope)}
    if len(found) != 1 or found[0].value is None or name in changed:
        return None
    return "dim3" in found[0].type, text_of(found[0].value).strip()
