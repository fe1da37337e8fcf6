"""Every family of kernels, with how often it is drawn: as often as it has ways to be drawn."""

from __future__ import annotations

import random
from collections.abc import Callable

from optiml_core.bench.training_pairs import area_kernels, line_kernels
from optiml_core.bench.training_pairs.kernels import KernelText

FAMILIES: tuple[tuple[Callable[[random.Random], KernelText], int], ...] = (
    (line_kernels.elementwise, 6),
    (line_kernels.grid_stride, 3),
    (line_kernels.block_sum, 4),
    (line_kernels.histogram, 2),
    (line_kernels.interleaved, 2),
    (area_kernels.transpose, 4),
    (area_kernels.strided_map, 4),
    (area_kernels.matrix_product, 4),
    (area_kernels.row_reduction, 4),
    (area_kernels.row_normalisation, 4),
    (area_kernels.column_reduction, 3),
    (area_kernels.shared_tile, 2),
    (area_kernels.block_rows, 2),
    (area_kernels.sparse_product, 1),
)


def draw_kernel(rng: random.Random) -> KernelText:
    """One kernel of a family drawn by weight."""
    family = rng.choices([one for one, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
    return family(rng)
