"""Exchanges the roles of threadIdx.x and threadIdx.y, so that a warp runs along the contiguous direction."""

from __future__ import annotations

from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, builtins_in, object_macros, read_kernel
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import LaunchPlan, plan
from optiml_core.rewrites.layout import edit
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.polynomials import coefficient
from optiml_core.rewrites.syntax import field, squeeze, text_of, walk_types
from optiml_core.rewrites.thread_coordinates import coordinates, guarded_work

_SWAPPED = {"x": "y", "y": "x"}
_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def _recognise(context: RewriteContext) -> KernelBody | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    used = builtins_in(body, body.body)
    if not {"threadIdx.x", "threadIdx.y"} <= used:
        return Refusal("the kernel does not use both threadIdx.x and threadIdx.y")
    if any("." not in name for name in used - {"__syncthreads"}):
        return Refusal("the kernel depends on which threads share a warp, or hands its thread index on")
    macros = object_macros(context.unit)
    if any(word in text for text in macros.values() for word in _BUILTINS):
        return Refusal("a macro hides thread or block indexes")
    along_x, along_y = _contiguous(body)
    if along_x:
        return Refusal("some accesses are contiguous along threadIdx.x already")
    if not along_y:
        return Refusal("no access is contiguous along threadIdx.y")
    return body


def _contiguous(body: KernelBody) -> tuple[int, int]:
    """How many global accesses are contiguous along threadIdx.x, and how many along threadIdx.y."""
    counts = {"threadIdx.x": 0, "threadIdx.y": 0}
    for access in accesses_in(body, body.body):
        if access.space != "parameter":
            continue
        for axis in counts:
            factor = coefficient(access.indices[-1], axis)
            counts[axis] += factor is not None and factor.constant in (1, -1)
    return counts["threadIdx.x"], counts["threadIdx.y"]


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = _recognise(context)
    if isinstance(body, Refusal):
        return body
    found = [Option({"block": "swapped"}, "the block's sides change places too")]
    if isinstance(_kept_block(body), LaunchPlan):
        found.insert(0, Option({"block": "kept"}, "the block keeps its shape"))
    return tuple(found)


def _kept_block(body: KernelBody) -> LaunchPlan | Refusal:
    """The launch with the block as it is: possible where a guard bounds both coordinates."""
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    found = coordinates(body)
    limits = {found[bound.name].axis: bound.limit for bound in work.bounds if bound.name in found}
    if set(limits) != {"x", "y"}:
        return Refusal("the guard does not bound both coordinates")
    if builtins_in(body, body.body) - {f"{name}.{axis}" for name in _BUILTINS for axis in "xyz"}:
        return Refusal("the threads of a block work together")
    inner = {name for node in work.work for name in builtins_in(body, node)}
    if inner - {"blockIdx.z", "gridDim.z"}:
        return Refusal("the work depends on the block's shape")
    new_x, new_y = extent(body, limits["y"], "y"), extent(body, limits["x"], "x")
    return plan(
        (f"ceil_div({new_x}, block.x)", f"ceil_div({new_y}, block.y)", "grid.z"), ("block.x", "block.y", "block.z")
    )


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = _recognise(context)
    if isinstance(body, Refusal):
        return body
    edits = [edit(context.unit, node.start_byte, node.end_byte, _SWAPPED[text_of(node)]) for node in _axes(body.body)]
    if option.parameters.get("block") == "kept":
        launch = _kept_block(body)
    else:
        launch = plan(("grid.y", "grid.x", "grid.z"), ("block.y", "block.x", "block.z"))
    rationale = (
        "Neighbouring threads of a warp now touch neighbouring elements: threadIdx.x runs along the contiguous side."
    )
    return finish(context, body, edits, rationale, launch=launch)


def _axes(node: Node) -> list[Node]:
    """The ``x`` and ``y`` of every thread and block index."""
    found = []
    for expression in walk_types(node, "field_expression"):
        member = field(expression, "field")
        if squeeze(text_of(field(expression, "argument"))) in _BUILTINS and text_of(member) in _SWAPPED:
            found.append(member)
    return found


REWRITE = Rewrite("swap-thread-roles", ("uncoalesced-access",), options, apply)
