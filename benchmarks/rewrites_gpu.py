"""Writes a CUDA program that times the kernels of benchmarks/prediction/kernels before and after rewrites.

Usage: python benchmarks/rewrites_gpu.py OUT.cu && nvcc -O3 -arch=sm_90 OUT.cu -o measure && ./measure
One JSON object a line, as benchmarks/prediction/measure.py prints them; a rewritten kernel is called
``NAME__REWRITE_N`` (N: the number of the option), with one such part per step of a chain.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from optiml_core.records import Failure
from optiml_core.rewrites import Refusal, RewriteContext, rewrite_named
from optiml_core.source import SourceFile, apply_edits, parse

sys.path.insert(0, str(Path(__file__).parent / "prediction"))
import measure

ALLOW = frozenset({"launch", "no-alias"})
CHAINS: dict[str, tuple[str, ...]] = {
    "softmax_row_per_thread": ("parallel-row", "parallel-row vectorize-access"),
    "layernorm_row_per_thread": ("parallel-row", "parallel-row vectorize-access"),
    "matvec_row_per_thread": ("parallel-row", "parallel-row vectorize-access"),
    "matvec_in_memory": ("register-accumulator", "register-accumulator parallel-row"),
    "sgemm_row_by_x": ("swap-thread-roles", "register-tile-matmul"),
    "sgemm_column_by_x": ("register-tile-matmul",),
    "transpose_naive": ("shared-tile-transpose",),
    "transpose16_naive": ("shared-tile-transpose",),
    "column_sums_block_per_column": ("parallel-column",),
    "histogram_global": ("privatize-atomics",),
    "histogram256_global": ("privatize-atomics",),
    "gelu_scalar": ("vectorize-access", "coarsen-grid-stride"),
    "gelu_double": ("float-literals",),
    "attention_scores_key_per_thread": ("parallel-row",),
    "attention_values_column_per_thread": ("parallel-column",),
    "polygon_point_per_thread": ("coarsen-grid-stride", "unroll-loop"),
    "residual": ("vectorize-access",),
}
MOST_OPTIONS = 6


def rewritten(source: SourceFile, chain: list[str]) -> list[tuple[str, bytes]]:
    """The texts after a chain of rewrites, every option of the last one, named by the options taken."""
    unit = parse(source)
    kernel = unit.kernels[-1]
    rewrite = rewrite_named(chain[0])
    assert rewrite is not None
    context = RewriteContext(unit, kernel, allow=ALLOW, other_launch_sites=())
    options = rewrite.options(context)
    if isinstance(options, Refusal):
        print(f"{source.path}: {chain[0]}: {options.reason}", file=sys.stderr)
        return []
    found = []
    for number, option in enumerate(options[:MOST_OPTIONS]):
        made = rewrite.apply(context, option)
        data = None if isinstance(made, Refusal) else apply_edits(source.data, made.edits)
        if data is None or isinstance(data, Failure):
            continue
        tag = f"{chain[0].replace('-', '_')}_{number}"
        if len(chain) == 1:
            found.append((tag, data))
        else:
            found += [(f"{tag}__{later}", text) for later, text in rewritten(SourceFile(source.path, data), chain[1:])]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, chains in CHAINS.items():
            path = measure.FOLDER / f"{name}.cu"
            data = path.read_bytes()
            (Path(folder) / path.name).write_bytes(data)
            for chain in chains:
                for tag, text in rewritten(SourceFile(path.name, data), chain.split()):
                    renamed = re.sub(rb"\b" + name.encode() + rb"\b", f"{name}__{tag}".encode(), text)
                    (Path(folder) / f"{name}__{tag}.cu").write_bytes(renamed)
        measure.FOLDER = Path(folder)
        Path(sys.argv[1]).write_text(measure.program())


if __name__ == "__main__":
    main()
