"""``optimize``: the whole search, from a problem to a result that may be offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from optiml_core.language_models import LanguageModel, SpendingLimit
from optiml_core.records import BufferArgument, Failure, Launch, LaunchChange
from optiml_core.search.budget import Budget
from optiml_core.search.evaluation import Evaluator, ProblemError
from optiml_core.search.judge import Evidence
from optiml_core.search.model_judge import ModelJudge
from optiml_core.search.model_proposer import JoinedProposers, ModelProposer
from optiml_core.search.optimize import grow
from optiml_core.search.outcome_store import OutcomeStore
from optiml_core.search.pool import EvaluationPool
from optiml_core.search.problem import SearchProblem, workload_of
from optiml_core.search.records import Outcome, SearchEvent, SearchResult
from optiml_core.search.serial import SerialEvaluations
from optiml_core.search.trajectory import search_result
from optiml_core.search.tree import TreeSettings
from optiml_core.source import SourceFile, parse
from optiml_core.store import Store
from optiml_core.workload import resolve_launch

CONTENTS_BYTES = 6 << 30  # of all processes together

OpenModel = tuple[LanguageModel, SpendingLimit]


def evidence(before: Outcome, after: Outcome) -> Evidence:
    """What a judge may read of an original and a verified variant."""
    assert after.measurement is not None
    assert after.verdict is not None
    return Evidence(
        before.profile,
        after.profile,
        after.measurement,
        before.roofline,
        after.roofline,
        after.verdict,
        before.variant.data.decode("utf-8", "replace"),
        after.variant.data.decode("utf-8", "replace"),
    )


def open_evaluations(
    problem: SearchProblem, processes: int, outcomes: OutcomeStore | None
) -> EvaluationPool | SerialEvaluations | Failure:
    """A pool of processes; for a recorded device one evaluator here, since a record answers in one order only."""
    if not problem.device.startswith("recorded:"):
        return EvaluationPool(problem, processes, outcomes)
    try:
        return SerialEvaluations(Evaluator(problem))
    except ProblemError as error:
        return error.failure


def affordable_processes(device: str, launches: Sequence[Launch], processes: int) -> int:
    """How many of ``processes`` may hold the declared launches' buffers on a GPU machine, at least one.

    Each process makes the contents (seconds for gigabytes) and keeps them beside two copies on the GPU.
    """
    if not device.startswith("cuda:"):
        return processes
    size = max(
        sum(one.length * one.element.size for one in launch.arguments if isinstance(one, BufferArgument))
        for launch in launches
    )
    return max(1, min(processes, CONTENTS_BYTES // max(size, 1)))


def optimize(
    problem: SearchProblem,
    budget: Budget,
    *,
    processes: int = 1,
    store: Store | None = None,
    fresh: bool = False,
    settings: TreeSettings | None = None,
    models: Sequence[OpenModel] = (),
    on_event: Callable[[SearchEvent], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> SearchResult | Failure:
    """Searches for a faster variant of ``problem.original``.

    ``processes``: evaluation processes. ``store``: earlier outcomes are reused (a killed search resumes) unless
    ``fresh``. ``models`` propose edits beside the rewrites; the first of them also judges. ``cancelled`` is asked
    several times a second; the best so far is kept. A problem that cannot be searched at all (no such kernel, no
    launch) is a Failure.
    """
    unit = parse(SourceFile(problem.original.file, problem.original.data))
    kernel = unit.kernel(problem.original.kernel)
    if kernel is None:
        return Failure("bad-input", f"no kernel {problem.original.kernel}", problem.original.file)
    workload = workload_of(problem, unit, kernel)
    launches = []
    for index in range(max(1, workload.launch_count)):
        launch = resolve_launch(workload, index, {}, LaunchChange())
        if isinstance(launch, Failure):
            return launch
        launches.append(launch)
    outcomes = None if store is None or fresh else OutcomeStore(store)
    evaluations = open_evaluations(problem, affordable_processes(problem.device, launches, processes), outcomes)
    if isinstance(evaluations, Failure):
        return evaluations
    proposers = [ModelProposer(model, workload.text, limit=limit) for model, limit in models]
    late = JoinedProposers(proposers) if proposers else None
    judge = ModelJudge(models[0][0], cancelled=cancelled) if models else None
    try:
        grown = grow(
            problem,
            evaluations,
            budget,
            settings=settings,
            on_event=on_event,
            cancelled=cancelled,
            late=late,
            second_opinion=None if judge is None else lambda before, after: judge.review(evidence(before, after)),
        )
        grown = evolve(grown, notes=grown.notes + tuple(note for proposer in proposers for note in proposer.notes))
        if grown.baseline.failure is not None and grown.stopped == "original-misbehaves":
            return grown.baseline.failure
    finally:
        for proposer in proposers:
            proposer.close()
        evaluations.close()
    return search_result(problem, grown, workload, launches)
