"""A small search with real evaluations. As a script (``python -m tests.search.real_search STORE``): prints its events.

Everything that a search decides must be the same every time; what it spent may differ.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from optiml_core.records import Variant
from optiml_core.search.budget import Budget
from optiml_core.search.problem import EvaluationTask, SearchProblem
from optiml_core.search.records import Outcome, SearchEvent, SearchResult
from optiml_core.search.run import optimize
from optiml_core.store import Store

SOURCE = b"""
// optiml: rows = 512, columns = 96, x[rows * columns]: normal, sums[rows]: normal
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void row_sums(const float* x, float* sums, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int column = 0; column < columns; column++)
    sums[row] += x[row * columns + column];
}

int main() {
  int rows = 512, columns = 96;
  float *x, *sums;
  cudaMalloc(&x, rows * columns * sizeof(float));
  cudaMalloc(&sums, rows * sizeof(float));
  row_sums<<<(rows + 63) / 64, 64>>>(x, sums, rows, columns);
  return cudaDeviceSynchronize() != cudaSuccess;
}
"""
EVALUATIONS = 11  # three rounds, the last one not full
PROBLEM = SearchProblem(Variant("row_sums.cu", SOURCE, "row_sums"), "emulator", "H100", seed=7)


def search(
    processes: int,
    store: Store | None = None,
    on_event: Callable[[SearchEvent], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> SearchResult:
    budget = Budget(seconds=None, evaluations=EVALUATIONS, patience=1000)
    result = optimize(PROBLEM, budget, processes=processes, store=store, on_event=on_event, cancelled=cancelled)
    assert isinstance(result, SearchResult), result
    return result


def decided(result: SearchResult) -> tuple[object, ...]:
    """All of a result but its seconds: every node of the tree, the path to the best, its verdict and its patch."""
    best = result.best
    verdict = None if best is None or best.verdict is None else (best.verdict.level, best.verdict.checks)
    measured = None if best is None else (best.measurement, best.profile, best.roofline)
    return (
        *(result.nodes, result.trajectory, result.patch, verdict, measured),
        *(result.evaluations, result.stopped, result.notes),
    )


def answer_or_crash(task: EvaluationTask, key: str) -> Outcome:
    """Stands for an evaluation in a child; the step called ``crash`` ends its process."""
    if task.proposals[0].name == "crash":
        os._exit(9)
    time.sleep(0.2)  # so that the crash meets others under way
    return Outcome("not-better", task.proposals[0].name, 0.0, task.parent, key)


if __name__ == "__main__":
    search(2, Store.open(Path(sys.argv[1])), lambda event: print(event.kind, flush=True))
