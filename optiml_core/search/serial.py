"""Evaluations one after the other in this process: of a recorded device, whose answers come in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from optiml_core.records import Step
from optiml_core.search.evaluation import Evaluator, ProblemError
from optiml_core.search.problem import EvaluationTask
from optiml_core.search.records import Outcome
from optiml_core.search.reward import FAILED


class SerialEvaluations:
    """Implements ``optimize.Evaluations`` with one evaluator. Use it only where no candidate can bring this process
    down: the emulator and a GPU run candidates in processes of their own."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def baseline(self, cancelled: Callable[[], bool] = lambda: False) -> Outcome | None:
        return self._evaluator.baseline()

    def evaluate(self, tasks: Sequence[EvaluationTask], cancelled: Callable[[], bool]) -> list[Outcome | None]:
        return [None if cancelled() else self._one(task) for task in tasks]

    def _one(self, task: EvaluationTask) -> Outcome:
        try:
            return self._evaluator.evaluate(task)
        except ProblemError as error:
            steps = tuple(Step(p.name, dict(p.parameters), p.rationale, p.proposer) for p in task.proposals)
            variant = evolve(task.parent, steps=(*task.parent.steps, *steps))
            key = "failed-" + task.key("")
            return Outcome("failed", error.failure.message, FAILED, variant, key, failure=error.failure)

    def remeasure(self, outcome: Outcome, cancelled: Callable[[], bool] = lambda: False) -> Outcome | None:
        return self._evaluator.remeasure(outcome)

    def close(self) -> None:
        self._evaluator.close()
