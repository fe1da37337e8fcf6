"""Predicted against measured speedups, over all verified variants of searches on a GPU.

    python benchmarks/predicted_against_measured.py OUT.json [SECONDS]     (needs a GPU, g++, the extra `cuda`)
    python benchmarks/predicted_against_measured.py --table OUT.json       (writes benchmarks/results/speedups.md)

Each search is short (SECONDS in all: default 170). Every variant that passes the quick gate is timed in pairs on the
GPU and predicted from the emulator's counts as a search without a GPU would, at the same sizes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "emulator_against_ncu"))
import cases

from optiml_core.device.cuda import CudaDevice
from optiml_core.measurement import speedup_prediction
from optiml_core.records import Failure, Variant
from optiml_core.search.budget import Budget
from optiml_core.search.devices import open_device
from optiml_core.search.evaluation import Evaluator, ProblemError
from optiml_core.search.optimize import grow
from optiml_core.search.problem import SearchProblem
from optiml_core.search.serial import SerialEvaluations
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import discover

# Kernel -> other sizes in its workload, large enough for the GPU and small enough for many variants.
SEARCHES: Mapping[str, Mapping[str, str]] = {
    "transpose_naive": {"width": "4096", "height": "4096"},
    "layernorm_row_per_thread": {},
    "column_sums_block_per_column": {"rows": "4096", "columns": "1024"},
    "gelu_scalar": {},
    "histogram256_global": {"n": "1048576"},
    "matvec_row_per_thread": {"rows": "4096", "columns": "4096"},
    "sgemm_column_by_x": {"m": "1024", "n": "1024", "k": "1024"},
    "attention_scores_key_per_thread": {"n": "16384", "d": "1024"},
    "reduce_divergent": {},
    "residual": {},
    "softmax_row_per_thread": {"rows": "2048", "columns": "4096"},
    "convolution_naive": {},
}
EVALUATIONS = 14
HEAD = """# Predicted against measured speedups

{gpu}, {date}: `python benchmarks/predicted_against_measured.py OUT.json`. {searches} searches with our rewrites, every
variant that passed the quick gate ({variants} of them): measured in pairs on the GPU, and predicted from the emulator's
counts as a search without a GPU does.

Spearman of all speedups: **{all:.3f}**; within one search, where variants are what is ranked, the median is
**{median:.3f}** (over searches with at least four variants). A search that took the variant with the best prediction
would have got {regret} of the best measured speedup, on the geometric mean.

| search | variants | measured speedups | Spearman | best by prediction / best measured |
|---|---:|---|---:|---:|
{rows}

## Furthest off

| search | variant | measured | predicted | ratio |
|---|---|---:|---:|---:|
{worst}
"""


def spearman(one: list[float], other: list[float]) -> float | None:
    """Rank correlation, ties sharing their ranks; None where one side does not vary."""
    ranks = []
    for values in (one, other):
        array = np.asarray(values)
        ranks.append(np.asarray([(np.sum(array < v) + 0.5 * (np.sum(array == v) - 1)) for v in array]))
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def search(kernel: str, sizes: Mapping[str, str], device: CudaDevice, gpu: str, seconds: float) -> list[dict[str, Any]]:
    text = cases.smaller((cases.KERNELS / f"{kernel}.cu").read_text(), sizes)
    name = parse(SourceFile(f"{kernel}.cu", text.encode())).kernels[-1].qualified
    allow = frozenset({"launch", "no-alias", "aligned"})
    problem = SearchProblem(Variant(f"{kernel}.cu", text.encode(), name), "cuda:0", gpu, allow=allow, profile="all")
    evaluator = Evaluator(problem, device)
    # Every variant gets the emulator's counts, which predict; ncu's would cost seconds each and are not asked for.
    evaluator.counter = None
    grown = grow(problem, SerialEvaluations(evaluator), Budget(seconds, EVALUATIONS, roofline_fraction=2.0))
    rows = []
    for node in grown.tree.nodes[1:]:
        outcome = node.outcome
        if outcome is None or outcome.measurement is None or outcome.profile is None or outcome.verdict is None:
            continue
        # What has a full verdict was read in machine code, and is compared with the original read alike.
        original = evaluator._evidence_of_original(outcome.verdict.level == "full")
        if isinstance(original, Failure) or original.profile is None or outcome.state not in ("better", "not-better"):
            continue
        predicted = speedup_prediction(original.profile, outcome.profile, evaluator.gpu)
        if isinstance(predicted, Failure):
            continue
        steps = " + ".join(f"{s.name} {dict(s.parameters) or ''}".strip() for s in outcome.variant.steps)
        measured = outcome.measurement
        rows.append(
            {
                "steps": steps,
                "measured": measured.speedup,
                "low": measured.low,
                "high": measured.high,
                "time": measured.time,
                "predicted": predicted.speedup,
            }
        )
    evaluator.emulator.close()
    return rows


def main(out: Path, seconds: float) -> None:
    began = time.monotonic()
    result: dict[str, Any] = {"searches": {}, "date": time.strftime("%Y-%m-%d")}
    toolchain = discover()
    for index, (kernel, sizes) in enumerate(SEARCHES.items()):
        device = open_device("cuda:0", toolchain)
        assert isinstance(device, CudaDevice), device
        state = device.state()
        assert not isinstance(state, Failure)
        result["gpu"] = state.name
        left = began + seconds - time.monotonic()
        if left < 5:
            break
        try:
            rows = search(kernel, sizes, device, state.name, left / (len(SEARCHES) - index))
        except ProblemError as error:
            print(kernel, error.failure.message, file=sys.stderr)
            rows = []
        device.close()
        result["searches"][kernel] = rows
        print(kernel, len(rows), f"after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        out.write_text(json.dumps(result, indent=1, default=str))


def table(result: Mapping[str, Any]) -> str:
    searches = {name: rows for name, rows in result["searches"].items() if rows}
    everything = [row for rows in searches.values() for row in rows]
    lines, correlations, regrets = [], [], []
    for name, rows in searches.items():
        measured, predicted = [row["measured"] for row in rows], [row["predicted"] for row in rows]
        found = spearman(measured, predicted) if len(rows) >= 4 else None
        if found is not None:
            correlations.append(found)
        chosen = max(rows, key=lambda row: row["predicted"])["measured"] / max(measured)
        regrets.append(chosen)
        span = f"{min(measured):.2f} to {max(measured):.2f}"
        lines.append(f"| {name} | {len(rows)} | {span} | {'' if found is None else f'{found:.2f}'} | {chosen:.2f} |")
    off: dict[str, Any] = defaultdict(float)
    for name, rows in searches.items():
        for row in rows:
            off[f"| {name} | {row['steps']} | {row['measured']:.2f} | {row['predicted']:.2f} |"] = (
                row["predicted"] / row["measured"]
            )
    worst = sorted(off.items(), key=lambda item: -abs(np.log(item[1])))[:8]
    return HEAD.format(
        gpu=result["gpu"],
        date=result["date"],
        searches=len(searches),
        variants=len(everything),
        all=spearman([row["measured"] for row in everything], [row["predicted"] for row in everything]) or 0.0,
        median=statistics.median(correlations),
        regret=f"{100 * float(np.exp(np.mean(np.log(regrets)))):.0f} %",
        rows="\n".join(lines),
        worst="\n".join(f"{text} {ratio:.2f} |" for text, ratio in worst),
    )


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        page = Path(__file__).parent / "results" / "speedups.md"
        page.write_text(table(json.loads(Path(sys.argv[2]).read_text())))
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 170.0)
