"""Every rewrite there is, in the order in which a search first tries them."""

from __future__ import annotations

from optiml_core.rewrites import (
    parallel_row,
    register_accumulator,
    register_tile_matmul,
    shared_tile_transpose,
)
from optiml_core.rewrites.context import Rewrite

CATALOGUE: tuple[Rewrite, ...] = (
    register_tile_matmul.REWRITE,
    parallel_row.REWRITE,
    shared_tile_transpose.REWRITE,
    register_accumulator.REWRITE,
)


def rewrite_named(name: str) -> Rewrite | None:
    """The rewrite of that name, or None."""
    return next((one for one in CATALOGUE if one.name == name), None)


def rewrites_answering(kind: str) -> tuple[Rewrite, ...]:
    """The rewrites that answer a bottleneck kind, in the catalogue's order."""
    return tuple(one for one in CATALOGUE if kind in one.answers)
