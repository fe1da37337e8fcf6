"""Kernels in which every thread works on one element along x, and the next element is another thread's."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel, returns_in
from optiml_core.rewrites.loops import loops_in
from optiml_core.rewrites.syntax import declared_variables, names_in
from optiml_core.rewrites.thread_coordinates import Coordinate, GuardedWork, coordinates, guarded_work, invariant


@frozen
class OneElement:
    """A kernel whose every thread works on one element, with the guard around it."""

    body: KernelBody
    index: Coordinate
    work: GuardedWork


def read_one_element(context: RewriteContext) -> OneElement | Refusal:
    """The kernel as work on one element a thread; the work does not know which thread does it."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if barriers_in(body.body):
        return Refusal("the kernel has barriers, which a loop over elements would run a varying number of times")
    found = coordinates(body)
    if len(found) != 1 or next(iter(found.values())).axis != "x":
        return Refusal("a thread does not stand for one element along x")
    index = next(iter(found.values()))
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if work.conditions or len(work.bounds) != 1 or work.bounds[0].name != index.name or work.guard is None:
        return Refusal(f"the guard is not one upper bound of `{index.name}`")
    bound = work.bounds[0]
    if bound.node is not None and not invariant(body, names_in(bound.node) - {index.name}):
        return Refusal("the bound is not the same for all threads")
    batch = {"blockIdx.y", "blockIdx.z", "gridDim.y", "gridDim.z"}
    for node in (*work.before, *work.work):
        names = {variable.name for variable in declared_variables(node)}
        if index.name in names:
            if len(names) != 1:
                return Refusal(f"`{index.name}` is declared together with other variables")
            continue
        if builtins_in(body, node) - batch:
            return Refusal(f"the kernel uses thread or block indexes beside `{index.name}`")
    if any(index.name in names_in(node) for node in work.before if node.id != index.declaration.id):
        return Refusal("declarations in front of the guard depend on the element")
    changed = {v.name for node in work.before for v in declared_variables(node)} & body.assigned
    if changed:
        return Refusal(f"`{sorted(changed)[0]}` would carry its value from one element to the next")
    inner_returns = [node for one in work.work for node in returns_in(one)]
    if any(_in_loop(node, work.work) for node in inner_returns):
        return Refusal("the work returns from inside a loop")
    return OneElement(body, index, work)


def _in_loop(node: Node, work: tuple[Node, ...]) -> bool:
    return any(
        loop.start_byte <= node.start_byte < loop.end_byte
        for one in work
        for loop in (*loops_in(one), *(n for n in [one] if n.type == "switch_statement"))
    )
