"""The kernels of ``optiml bench kernels``: each as most people first write it, beside an expert's hand-written version.

All are our own, with the shapes of well-known optimization exercises. They lie in ``benchmarks/prediction/kernels`` of
the repository and in ``optiml_core/bench/kernels`` of an installed package.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure


@frozen
class SuiteKernel:
    """``naive`` and ``experts`` are file and kernel names; several experts run one after another. ``library`` names the
    call of torch in ``library_times`` that computes the same."""

    name: str
    naive: str
    experts: tuple[str, ...]
    library: str = ""


SUITE: tuple[SuiteKernel, ...] = (
    SuiteKernel("transpose", "transpose_naive", ("transpose_padded",), "transpose"),
    SuiteKernel("softmax", "softmax_row_per_thread", ("softmax_block_per_row",), "softmax"),
    SuiteKernel("layer-norm", "layernorm_row_per_thread", ("layernorm_warp_per_row",), "layer_norm"),
    SuiteKernel("matrix-vector", "matvec_row_per_thread", ("matvec_warp_per_row_vector",), "matvec"),
    SuiteKernel(
        "column-sums",
        "column_sums_block_per_column",
        ("column_sums_split_rows", "column_sums_second_pass"),
        "column_sums",
    ),
    SuiteKernel("gelu", "gelu_scalar", ("gelu_vector",), "gelu"),
    SuiteKernel("histogram", "histogram256_global", ("histogram256_shared",), "histogram"),
    SuiteKernel("matrix-product", "sgemm_row_by_x", ("sgemm_warp_tiles",), "matrix_product"),
    SuiteKernel("block-sums", "reduce_divergent", ("reduce_shuffle",), "block_sums"),
    SuiteKernel("convolution", "convolution_naive", ("convolution_tiled",), "convolution"),
    SuiteKernel("attention-scores", "attention_scores_key_per_thread", ("attention_scores_warp_per_key",)),
    SuiteKernel("attention-values", "attention_values_column_per_thread", ("attention_values_block_per_column",)),
    SuiteKernel("point-in-polygon", "polygon_point_per_thread", ("polygon_points_per_thread",)),
)


def chosen(names: str) -> tuple[SuiteKernel, ...] | Failure:
    """The kernels of a comma-separated list in the suite's order, all for an empty one; ``bad-input`` for others."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [one.name for one in SUITE]
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is not None:
        return Failure("bad-input", f"the suite has no kernel `{unknown}`", cure=f"kernels: {', '.join(known)}")
    return tuple(one for one in SUITE if not wanted or one.name in wanted)


def kernel_file(name: str) -> Path:
    """Where the file of that name lies: in the installed package, else in the repository."""
    packaged = Path(__file__).parent / "kernels" / f"{name}.cu"
    return packaged if packaged.exists() else _REPOSITORY / f"{name}.cu"


_REPOSITORY = Path(__file__).parents[2] / "benchmarks" / "prediction" / "kernels"
