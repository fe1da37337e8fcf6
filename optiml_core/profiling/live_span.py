"""How far apart in memory the blocks are that run at the same time.

A kernel whose neighbouring blocks work on neighbouring elements moves over memory as a narrow window, however large its
buffers are. One that gives every warp or block a long row of its own touches as many pages at once as it has rows
under way, and more pages than the GPU's translation buffers hold cost a walk for every line.
"""

from __future__ import annotations

from optiml_core.records import BufferArgument, Kernel, Launch
from optiml_core.source import TranslationUnit, accesses
from optiml_core.source.affine_form import AffineForm


def live_spans(unit: TranslationUnit, kernel: Kernel, launch: Launch, resident_blocks: float) -> dict[str, float]:
    """Bytes of each buffer between the first and the last of ``resident_blocks`` neighbouring blocks, at one time.

    Read from the source's indexes with every loop in its first iteration; a buffer whose indexes cannot be evaluated is
    left out, and none is longer than it is. Blocks are neighbours along x first, then along y.
    """
    sizes = {one.name: one.length * one.element.size for one in launch.arguments if isinstance(one, BufferArgument)}
    along_x = min(resident_blocks, float(launch.grid[0]))
    rows_of_blocks = min(resident_blocks / along_x, float(launch.grid[1])) if along_x else 1.0
    spans: dict[str, float] = {}
    for access in accesses(unit, kernel):
        if access.array not in sizes or access.affine is None or access.size is None:
            continue
        steps = [_step(access.affine, launch, axis) for axis in ("x", "y")]
        if steps[0] is None or steps[1] is None:
            continue
        elements = max(abs(steps[0]) * along_x, abs(steps[1]) * rows_of_blocks)
        own = min(elements * access.size, float(sizes[access.array]))
        spans[access.array] = max(spans.get(access.array, 0.0), own)
    return spans


def _step(form: AffineForm, launch: Launch, axis: str) -> int | None:
    """Elements from a block's place to that of the next block along an axis; None if the index cannot be evaluated."""
    values = {name: value for name, value in launch.names.items() if isinstance(value, int)}
    for name, sizes in (("blockDim", launch.block), ("gridDim", launch.grid)):
        values |= {f"{name}.{one}": size for one, size in zip("xyz", sizes, strict=True)}
    for variable in form.depends_on | {name for name, _ in form.terms}:
        if variable not in dict(form.opaque):
            values.setdefault(variable, 0)
    values |= {f"{name}.{one}": 0 for name in ("blockIdx", "threadIdx") for one in "xyz"}
    here = form.evaluate(values)
    there = form.evaluate({**values, f"blockIdx.{axis}": 1})
    return None if here is None or there is None else there - here
