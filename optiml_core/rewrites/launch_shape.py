"""Another block size for kernels whose threads do not know which block they are in."""

from __future__ import annotations

from optiml_core.rewrites.block_sizes import known_blocks
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, builtins_in, read_kernel
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import AXES, LaunchPlan, plan
from optiml_core.rewrites.syntax import declared_variables
from optiml_core.rewrites.thread_coordinates import coordinates, guarded_work

SHAPES = {
    1: ((256, 1, 1), (128, 1, 1), (512, 1, 1), (64, 1, 1)),
    2: ((32, 8, 1), (32, 4, 1), (64, 4, 1), (128, 2, 1), (32, 16, 1), (16, 16, 1)),
    3: ((32, 4, 2), (32, 8, 1), (64, 2, 2)),
}


def _recognise(context: RewriteContext) -> tuple[KernelBody, dict[str, str]] | Refusal:
    """The kernel and, for every axis that it uses, the guard's limit of that axis."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = coordinates(body)
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if not found:
        return Refusal("no variable is a thread's place in the whole launch")
    own = {one.declaration.id for one in found.values()}
    for node in (*work.before, *work.work):
        if node.id not in own and builtins_in(body, node):
            return Refusal("the kernel uses thread or block indexes beside its coordinates")
        if node.id in own and any(variable.name not in found for variable in declared_variables(node)):
            return Refusal("a coordinate is declared together with other variables")
    limits = {found[bound.name].axis: bound.limit for bound in work.bounds if bound.name in found}
    axes = {one.axis for one in found.values()}
    if set(limits) != axes:
        return Refusal("the guard does not bound every coordinate, so more threads may do more work")
    if axes not in ({"x"}, {"x", "y"}, {"x", "y", "z"}):
        return Refusal("the kernel does not use the leading axes of the launch")
    return body, limits


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    recognised = _recognise(context)
    if isinstance(recognised, Refusal):
        return recognised
    body, limits = recognised
    shapes = set(known_blocks(context) or ())
    current = context.launch.block if context.launch is not None else shapes.pop() if len(shapes) == 1 else None
    found = [
        Option({"x": x, "y": y, "z": z}, f"blocks of {x * y * z} threads ({x} x {y} x {z})")
        for x, y, z in SHAPES[len(limits)]
        if (x, y, z) != current and x * y * z <= _most_threads(body)
    ]
    if not found:
        return Refusal("__launch_bounds__ leaves no other block size")
    made = apply(context, found[0])
    return made if isinstance(made, Refusal) else tuple(found)


def _most_threads(body: KernelBody) -> int:
    """What ``__launch_bounds__`` allows; a bound that is no number allows the smallest shape only."""
    if not body.kernel.launch_bounds:
        return 1024
    text = body.kernel.launch_bounds[0].strip()
    return int(text) if text.isdigit() else 64


def _launch(body: KernelBody, limits: dict[str, str], shape: tuple[int, int, int]) -> LaunchPlan | Refusal:
    grid = [
        f"ceil_div({extent(body, limits[axis], axis)}, {threads})" if axis in limits else "1"
        for axis, threads in zip(AXES, shape, strict=True)
    ]
    return plan((grid[0], grid[1], grid[2]), (str(shape[0]), str(shape[1]), str(shape[2])))


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    recognised = _recognise(context)
    if isinstance(recognised, Refusal):
        return recognised
    body, limits = recognised
    x, y, z = (int(option.parameters[axis]) for axis in AXES)
    rationale = f"Blocks of {x * y * z} threads; what a thread does stays the same."
    return finish(context, body, (), rationale, launch=_launch(body, limits, (x, y, z)))


REWRITE = Rewrite("launch-shape", ("low-occupancy", "latency-bound-launch", "uncoalesced-access"), options, apply)
