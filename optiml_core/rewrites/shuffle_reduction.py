"""Replaces a tree reduction in shared memory by warp shuffles, which need no barrier between their steps.

Mark Harris, "Optimizing Parallel Reduction in CUDA", describes the tree; "Faster Parallel Reductions on
Kepler" (NVIDIA developer blog) the shuffles.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.block_sizes import known_block_widths
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, read_kernel
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, lines_of_code, reindented, unused_name
from optiml_core.rewrites.memory import Access, accesses_in
from optiml_core.rewrites.placing import insert_functions
from optiml_core.rewrites.polynomials import Polynomial, add, atom
from optiml_core.rewrites.reductions import ReductionKind, can_be_shuffled
from optiml_core.rewrites.syntax import (
    ancestors,
    arguments_of,
    assignment_of,
    called_name,
    contains,
    declared_variables,
    field,
    names_in,
    operator_of,
    squeeze,
    statements_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type, resolved_type

THREAD = atom("threadIdx.x")


@frozen
class ReductionTree:
    """One loop that halves the number of values in ``array`` until ``array[0]`` holds the result.

    ``width``: how many values it begins with where that is a number, None where it is the block's width.
    """

    loop: Node
    array: str
    kind: ReductionKind
    type: str
    begins_with_barrier: bool
    width: int | None = None


def reduction_trees(body: KernelBody) -> list[ReductionTree] | Refusal:
    """The loops of a kernel that combine a block's values by halving their number."""
    found = []
    reason = "the kernel has no tree reduction in shared memory"
    for loop in walk_types(body.body, "for_statement"):
        if not barriers_in(loop):
            continue
        made = _tree(body, loop)
        if isinstance(made, ReductionTree):
            found.append(made)
        else:
            reason = made.reason
    return found or Refusal(reason)


def _tree(body: KernelBody, loop: Node) -> ReductionTree | Refusal:
    head = _halved(body, loop) or _doubled(body, loop)
    if head is None:
        return Refusal("the loop with barriers does not halve its distance from half the block's width")
    variable, width = head
    if width is not None and (width < 32 or width > 1024 or width & (width - 1)):
        return Refusal(f"a tree over {width} values is not one over whole warps")
    statements = [s for s in statements_of(field(loop, "body")) if not _is_barrier(s)]
    barriers = [s for s in statements_of(field(loop, "body")) if _is_barrier(s)]
    if not barriers or len(statements) != 1 or statements[0].type != "if_statement":
        return Refusal("the loop does more than combine pairs")
    guard = statements[0]
    inner = statements_of(field(guard, "consequence"))
    if guard.child_by_field_name("alternative") is not None or len(inner) != 1:
        return Refusal("the loop does more than combine pairs")
    combined = _combination(body, inner[0], variable)
    if combined is None:
        return Refusal("the loop does not combine elements at a distance")
    array, kind = combined
    if not _pairs_threads(body, field(guard, "condition"), variable):
        return Refusal("not every pair is combined by its own thread")
    shared = body.locals.get(array)
    if shared is None:
        return Refusal(f"`{array}` is not a shared array")
    type_ = resolved_type(body.unit, shared.type)
    if not can_be_shuffled(type_):
        return Refusal(f"a warp cannot combine values of type {type_}")
    if not _only_first_is_read(body, loop, array):
        return Refusal(f"more than the first element of `{array}` is read after the loop")
    begins = _is_barrier(statements_of(field(loop, "body"))[0])
    return ReductionTree(loop, array, kind, bare_type(shared.type), begins, width)


def _is_barrier(node: Node) -> bool:
    return node.type == "expression_statement" and squeeze(text_of(node)) == "__syncthreads();"


def _halved(body: KernelBody, loop: Node) -> tuple[str, int | None] | None:
    """The variable of ``for (s = blockDim.x / 2; s > 0; s /= 2)``, and twice its start where that is a number."""
    head = _head(loop)
    if head is None:
        return None
    name, start, condition, update = head
    left, right = (unwrap(field(condition, side)) for side in ("left", "right"))
    limit = squeeze(text_of(right))
    if text_of(left) != name or (operator_of(condition), limit) not in ((">", "0"), (">=", "1"), ("!=", "0")):
        return None
    made = assignment_of(update)
    if made is None or made.right is None or text_of(made.left) != name:
        return None
    if (made.operator, squeeze(text_of(made.right))) not in ((">>=", "1"), ("/=", "2")) and not (
        made.operator == "=" and squeeze(text_of(made.right)) in (f"{name}/2", f"{name}>>1")
    ):
        return None
    if _is_half_of_block(body, start):
        return name, None
    number = _number(body, start)
    return None if number is None else (name, 2 * number)


def _number(body: KernelBody, node: Node) -> int | None:
    """The value of a number, also one halved (``TILE / 2``)."""
    node = unwrap(node)
    if node.type == "binary_expression" and operator_of(node) in ("/", ">>"):
        above, below = _number(body, field(node, "left")), body.polynomial(field(node, "right")).constant
        if above is None or below is None or below <= 0:
            return None
        return above // below if operator_of(node) == "/" else above >> below
    return body.polynomial(node).constant


def _doubled(body: KernelBody, loop: Node) -> tuple[str, int | None] | None:
    """The variable of ``for (s = 1; s < blockDim.x; s *= 2)``, and its limit where that is a number."""
    head = _head(loop)
    if head is None or squeeze(text_of(head[1])) != "1":
        return None
    name, _, condition, update = head
    left, right = (unwrap(field(condition, side)) for side in ("left", "right"))
    made = assignment_of(update)
    if text_of(left) != name or operator_of(condition) != "<" or made is None or made.right is None:
        return None
    width = None if body.polynomial(right) == atom("blockDim.x") else _number(body, right)
    if (width is None and body.polynomial(right) != atom("blockDim.x")) or text_of(made.left) != name:
        return None
    doubles = (made.operator, squeeze(text_of(made.right))) in (("*=", "2"), ("<<=", "1"), ("+=", name))
    return (name, width) if doubles else None


def _head(loop: Node) -> tuple[str, Node, Node, Node] | None:
    """Name, start, condition and update of a loop with one variable."""
    first, condition, update = (loop.child_by_field_name(n) for n in ("initializer", "condition", "update"))
    if first is None or condition is None or update is None or unwrap(condition).type != "binary_expression":
        return None
    if first.type == "declaration":
        variables = declared_variables(first)
        if len(variables) != 1 or variables[0].value is None:
            return None
        return variables[0].name, variables[0].value, unwrap(condition), update
    made = assignment_of(first)
    if made is None or made.right is None or made.operator != "=" or made.left.type != "identifier":
        return None
    return text_of(made.left), made.right, unwrap(condition), update


def _is_half_of_block(body: KernelBody, node: Node) -> bool:
    node = unwrap(node)
    if node.type != "binary_expression":
        return False
    halved = (operator_of(node), squeeze(text_of(field(node, "right")))) in (("/", "2"), (">>", "1"))
    return halved and body.polynomial(field(node, "left")) == atom("blockDim.x")


def _combination(body: KernelBody, statement: Node, distance: str) -> tuple[str, ReductionKind] | None:
    """The array and kind of ``a[t] += a[t + s]`` or ``a[t] = max(a[t], a[t + s])``."""
    made = assignment_of(statement)
    if made is None or made.right is None:
        return None
    target = _shared_access(body, made.left, distance)
    if target is None:
        return None
    right = unwrap(made.right)
    kind: ReductionKind = "sum"
    if made.operator == "+=":
        others = [right]
    elif made.operator == "=" and right.type == "binary_expression" and operator_of(right) == "+":
        others = _others(body, target, [field(right, "left"), field(right, "right")], distance)
    elif made.operator == "=" and right.type == "call_expression":
        called = (called_name(right) or "").removeprefix("std::")
        if called not in ("max", "fmax", "fmaxf", "min", "fmin", "fminf"):
            return None
        kind = "max" if "max" in called else "min"
        others = _others(body, target, list(arguments_of(right)), distance)
    else:
        return None
    if len(others) != 1:
        return None
    other = _shared_access(body, others[0], distance)
    if other is None or other.array != target.array or other.index != add(target.index, atom(distance)):
        return None
    return target.array, kind


def _shared_access(body: KernelBody, node: Node, distance: str) -> Access | None:
    found = [a for a in accesses_in(body, unwrap(node), frozenset({distance})) if a.node == unwrap(node)]
    return found[0] if len(found) == 1 and found[0].space == "shared" and len(found[0].indices) == 1 else None


def _others(body: KernelBody, target: Access, operands: list[Node], distance: str) -> list[Node]:
    """The operands that are not the target itself."""
    kept = []
    for operand in operands:
        access = _shared_access(body, operand, distance)
        if access is None or access.array != target.array or access.index != target.index:
            kept.append(operand)
    return kept if len(kept) == len(operands) - 1 else []


def _pairs_threads(body: KernelBody, condition: Node, distance: str) -> bool:
    """``t < s`` or ``t % (2 * s) == 0`` with ``t`` the thread's index."""
    condition = unwrap(condition)
    if condition.type != "binary_expression":
        return False
    left, right = unwrap(field(condition, "left")), unwrap(field(condition, "right"))
    if operator_of(condition) == "<":
        return body.polynomial(left) == THREAD and text_of(right) == distance
    if operator_of(condition) != "==" or squeeze(text_of(right)) != "0" or left.type != "binary_expression":
        return False
    divisor = squeeze(text_of(unwrap(field(left, "right"))))
    doubled = (f"2*{distance}", f"{distance}*2", f"{distance}<<1", f"{distance}+{distance}")
    return operator_of(left) == "%" and body.polynomial(field(left, "left")) == THREAD and divisor in doubled


def _only_first_is_read(body: KernelBody, loop: Node, array: str) -> bool:
    """Whether code behind the loop reads element 0 alone, and the loop is not repeated with what it left."""
    if any(
        around.type in ("for_statement", "while_statement", "do_statement") for around in ancestors(loop, body.body)
    ):
        return False
    later = [a for a in accesses_in(body, body.body) if a.array == array and a.node.start_byte > loop.end_byte]
    uses = [n for n in walk_types(body.body, "identifier") if text_of(n) == array and n.start_byte > loop.end_byte]
    return len(uses) == len(later) and all(a.index == Polynomial() and a.kind == "load" for a in later)


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if any(name.startswith("threadIdx.") and name != "threadIdx.x" for name in _indexes(body)):
        return Refusal("the block is not one row of threads")
    found = reduction_trees(body)
    if isinstance(found, Refusal):
        return found
    return tuple(Option({"loop": number}, f"`{one.array}` by warp shuffles") for number, one in enumerate(found))


def _indexes(body: KernelBody) -> frozenset[str]:
    return frozenset(squeeze(text_of(node)) for node in walk_types(body.body, "field_expression"))


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = reduction_trees(body)
    if isinstance(found, Refusal):
        return found
    number = int(option.parameters["loop"])
    if number >= len(found):
        return Refusal("there is no such loop")
    tree = found[number]
    if tree.loop.parent is None or tree.loop.parent.type != "compound_statement":
        return Refusal("the loop stands without braces")
    widths = known_block_widths(context)
    if tree.width is not None:
        proved = widths == frozenset({tree.width})
    else:
        proved = widths is not None and all(width >= 32 and width & (width - 1) == 0 for width in widths)
    functions = insert_functions(context, body, [(tree.kind, resolved_type(body.unit, tree.type))], "block")
    name = functions.names[(tree.kind, resolved_type(body.unit, tree.type))]
    edits: list[Edit] = [*functions.edits, _replaced(context, body, tree, name, proved)]
    rationale = (
        f"The tree over `{tree.array}` becomes warp shuffles with one value per warp in shared memory: "
        "two barriers instead of one in every step."
    )
    condition = "is a power of two of at least 32" if tree.width is None else f"is {tree.width}"
    guards = () if proved else (f"shuffles only where the block's width {condition}",)
    return finish(context, body, edits, rationale, guards=guards)


def _replaced(context: RewriteContext, body: KernelBody, tree: ReductionTree, function: str, proved: bool) -> Edit:
    unit, loop = context.unit, tree.loop
    indent = indent_at(unit, loop.start_byte)
    layout = layout_of(unit, body.body)
    value = unused_name("total" if tree.kind == "sum" else "extreme", names_in(body.body) | body.parameter_names)
    lines = ["__syncthreads();"] if tree.begins_with_barrier else []
    lines += [
        f"const {tree.type} {value} = {function}({tree.array}[threadIdx.x]);",
        "if (threadIdx.x == 0) {",
        f"\t{tree.array}[0] = {value};",
        "}",
    ]
    if not _read_by_first_thread_only(body, tree):
        lines.append("__syncthreads();")
    if proved:
        text = lines_of_code(lines, layout, indent)
        return edit(unit, loop.start_byte, loop.end_byte, text[len(indent) :])
    guarded = [
        "if (blockDim.x >= 32 && (blockDim.x & (blockDim.x - 1)) == 0) {"
        if tree.width is None
        else f"if (blockDim.x == {tree.width}) {{",
        *(f"\t{line}" for line in lines),
        "} else {",
    ]
    old = reindented(code_of(unit, loop), indent, indent + layout.step)
    text = lines_of_code(guarded, layout, indent)
    return edit(unit, loop.start_byte, loop.end_byte, f"{text[len(indent) :]}\n{indent}{layout.step}{old}\n{indent}}}")


def _read_by_first_thread_only(body: KernelBody, tree: ReductionTree) -> bool:
    for access in accesses_in(body, body.body):
        if access.array != tree.array or access.node.start_byte < tree.loop.end_byte:
            continue
        guarded = False
        for around in ancestors(access.node, body.body):
            if around.type != "if_statement" or not contains(field(around, "consequence"), access.node):
                continue
            condition = unwrap(field(around, "condition"))
            guarded |= is_first_thread(body, condition)
        if not guarded:
            return False
    return True


def is_first_thread(body: KernelBody, condition: Node) -> bool:
    """Whether a condition says that threadIdx.x is 0."""
    if condition.type != "binary_expression" or operator_of(condition) != "==":
        return False
    sides = {body.polynomial(unwrap(field(condition, side))) for side in ("left", "right")}
    return sides == {THREAD, Polynomial()}


REWRITE = Rewrite("shuffle-reduction", ("barrier-bound", "shared-bank-conflict", "divergence"), options, apply)
