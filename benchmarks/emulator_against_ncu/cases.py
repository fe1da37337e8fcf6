"""The kernels whose counts are compared, at sizes of which the emulator runs every block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from optiml_core.device.protocol import Contents
from optiml_core.records import Failure, Launch, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.workload import find_workload, make_contents, resolve_launch

KERNELS = Path(__file__).parents[1] / "prediction" / "kernels"
# Kernels that were never looked at before they were compared, and some that are meant to be hard to count.
FOLDERS = (KERNELS, KERNELS.parent / "held_out", Path(__file__).parent / "kernels")

# Kernel -> what replaces which numbers of its workload.
SIZES: Mapping[str, Mapping[str, str]] = {
    "atomic_sum": {"n": "65536"},
    "attention_scores_warp_per_key": {"n": "256", "d": "512"},
    "black_scholes": {"n": "65536"},
    "column_sums_block_per_column": {"rows": "512", "columns": "64"},
    "column_sums_split_rows": {"rows": "512", "columns": "128", "parts": "8"},
    "convolution_naive": {"width": "128", "height": "128"},
    "convolution_tiled": {"width": "128", "height": "128"},
    "copy_scalar": {"n": "262144"},
    "copy_strided": {"n": "262144"},
    "copy_vector": {"n": "262144"},
    "divide_by_columns": {"rows": "64", "columns": "1027"},
    "gather": {"n": "65536"},
    "gelu_double": {"n": "65536"},
    "gelu_vector": {"n": "65536"},
    "histogram256_global": {"n": "65536"},
    "histogram256_shared": {"n": "262144"},
    "histogram_shared": {"width": "256", "height": "128"},
    "lanes_of_four": {"n": "65536"},
    "layernorm_row_per_thread": {"rows": "256", "columns": "128"},
    "layernorm_warp_per_row": {"rows": "64"},
    "matvec_row_per_thread": {"rows": "256", "columns": "256"},
    "matvec_warp_per_row": {"rows": "256", "columns": "512"},
    "matvec_warp_per_row_vector": {"rows": "256", "columns": "512"},
    "reduce_divergent": {"n": "65536"},
    "reduce_sequential": {"n": "65536"},
    "reduce_shuffle": {"n": "65536"},
    "residual_layernorm_fused": {"rows": "64"},
    "rows_low_occupancy": {"n": "65536"},
    "sgemm_row_by_x": {"m": "64", "n": "64", "k": "64"},
    "sgemm_shared_tile": {"m": "128", "n": "128", "k": "128"},
    "sgemm_warp_tiles": {"m": "128", "n": "128", "k": "64"},
    "softmax_block_per_row": {"rows": "16", "columns": "1001"},
    "softmax_row_per_thread": {"rows": "64", "columns": "257"},
    "transpose16_naive": {"width": "256", "height": "256"},
    "transpose16_tiled": {"width": "256", "height": "256"},
    "transpose_naive": {"width": "256", "height": "256"},
    "transpose_padded": {"width": "256", "height": "256"},
    "transpose_unpadded": {"width": "256", "height": "256"},
    "atomic_rows": {"rows": "64"},
    "block_scan": {"n": "65536"},
    "field_of_structs": {"n": "65536"},
    "grey": {"n": "65536"},
    "jacobi_plain": {"n": "256"},
    "jacobi_tile": {"n": "256"},
    "row_max_warp": {"rows": "64"},
    "scale_vector": {"n": "65536"},
    "sgemm_4x4": {"n": "128"},
    "small_matrices": {"n": "4096"},
    "weighted_columns": {"rows": "256", "columns": "256"},
    # As they are declared.
    **{name: {} for name in ("bytes", "doubles_shared", "leaving_early", "ragged_pairs", "ragged_rows", "shifted")},
    **{name: {} for name in ("slots", "triples", "weighted_bins")},
}


@frozen
class Case:
    """One launch of one kernel, small enough to be run in full everywhere."""

    name: str
    variant: Variant
    launch: Launch
    contents: Contents


def smaller(text: str, sizes: Mapping[str, str]) -> str:
    """The source with other numbers in its workload comment; its lines stay where they are."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("// optiml"):
            for name, value in sizes.items():
                line = re.sub(rf"\b{name} = (?:max\([^=]*\)|\d+)(?=,|$)", f"{name} = {value}", line)
            # The gather's indices are named by number.
            lines[number] = re.sub(r"permutation\(\d+\)", f"permutation({sizes['n']})", line) if "n" in sizes else line
    return "\n".join(lines)


def make_case(name: str) -> Case:
    """Raises SystemExit for a workload that does not resolve: a fault of this table."""
    path = next(folder / f"{name}.cu" for folder in FOLDERS if (folder / f"{name}.cu").exists())
    text = smaller(path.read_text(), SIZES[name])
    unit = parse(SourceFile(f"{name}.cu", text.encode()))
    kernel = unit.kernels[-1]
    launch = resolve_launch(find_workload(unit, kernel))
    if isinstance(launch, Failure):
        raise SystemExit(f"{name}: {launch.message}")
    made = make_contents(launch, 0)
    if isinstance(made, Failure):
        raise SystemExit(f"{name}: {made.message}")
    return Case(name, Variant(f"{name}.cu", text.encode(), kernel.qualified), launch, Contents(made))
