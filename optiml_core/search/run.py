"""``optimize``: the whole search, from a problem to a result that may be offered."""

from __future__ import annotations

from collections.abc import Callable

from optiml_core.records import Failure, LaunchChange
from optiml_core.search.budget import Budget
from optiml_core.search.optimize import grow
from optiml_core.search.outcome_store import OutcomeStore
from optiml_core.search.pool import EvaluationPool
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import SearchEvent, SearchResult
from optiml_core.search.trajectory import search_result
from optiml_core.search.tree import TreeSettings
from optiml_core.source import SourceFile, parse
from optiml_core.store import Store
from optiml_core.workload import find_workload, resolve_launch


def optimize(
    problem: SearchProblem,
    budget: Budget,
    *,
    processes: int = 1,
    store: Store | None = None,
    fresh: bool = False,
    settings: TreeSettings | None = None,
    on_event: Callable[[SearchEvent], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> SearchResult | Failure:
    """Searches for a faster variant of ``problem.original``.

    ``processes``: evaluation processes. ``store``: earlier outcomes are reused (a killed search resumes) unless
    ``fresh``. ``cancelled`` is asked several times a second; the best so far is kept. A problem that cannot be
    searched at all (no such kernel, no launch) is a Failure.
    """
    unit = parse(SourceFile(problem.original.file, problem.original.data))
    kernel = unit.kernel(problem.original.kernel)
    if kernel is None:
        return Failure("bad-input", f"no kernel {problem.original.kernel}", problem.original.file)
    workload = find_workload(unit, kernel, problem.toml)
    launches = []
    for index in range(max(1, workload.launch_count)):
        launch = resolve_launch(workload, index, {}, LaunchChange())
        if isinstance(launch, Failure):
            return launch
        launches.append(launch)
    outcomes = None if store is None or fresh else OutcomeStore(store)
    pool = EvaluationPool(problem, processes, outcomes)
    try:
        grown = grow(problem, pool, budget, settings=settings, on_event=on_event, cancelled=cancelled)
        if grown.baseline.failure is not None and grown.stopped == "original-misbehaves":
            return grown.baseline.failure
    finally:
        pool.kill()
    return search_result(problem, grown, workload, launches)
