"""Every rewrite there is, in the order in which a search first tries them."""

from __future__ import annotations

from optiml_core.rewrites import (
    coarsen_grid_stride,
    float_literals,
    keep_row,
    launch_shape,
    load_ahead,
    online_softmax,
    pad_shared,
    parallel_column,
    parallel_row,
    privatize_atomics,
    recompute_element,
    register_accumulator,
    register_tile_matmul,
    restrict_readonly,
    shared_tile_transpose,
    shuffle_reduction,
    swap_thread_roles,
    tune_constant,
    unroll_and_jam,
    unroll_loop,
    vectorize_access,
)
from optiml_core.rewrites.context import Rewrite

CATALOGUE: tuple[Rewrite, ...] = (
    register_tile_matmul.REWRITE,
    parallel_row.REWRITE,
    parallel_column.REWRITE,
    shared_tile_transpose.REWRITE,
    recompute_element.REWRITE,
    online_softmax.REWRITE,
    keep_row.REWRITE,
    register_accumulator.REWRITE,
    swap_thread_roles.REWRITE,
    load_ahead.REWRITE,
    unroll_and_jam.REWRITE,
    vectorize_access.REWRITE,
    shuffle_reduction.REWRITE,
    privatize_atomics.REWRITE,
    float_literals.REWRITE,
    pad_shared.REWRITE,
    coarsen_grid_stride.REWRITE,
    tune_constant.REWRITE,
    launch_shape.REWRITE,
    restrict_readonly.REWRITE,
    unroll_loop.REWRITE,
)


def rewrite_named(name: str) -> Rewrite | None:
    """The rewrite of that name, or None."""
    return next((one for one in CATALOGUE if one.name == name), None)


def rewrites_answering(kind: str) -> tuple[Rewrite, ...]:
    """The rewrites that answer a bottleneck kind, in the catalogue's order."""
    return tuple(one for one in CATALOGUE if kind in one.answers)
