"""The tree alone, driven by made-up outcomes: no compiler, no device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.records import Measurement, Step, Variant, Verdict
from optiml_core.search.budget import Budget
from optiml_core.search.optimize import GrownTree, grow
from optiml_core.search.problem import EvaluationTask, SearchProblem
from optiml_core.search.records import Outcome, Proposal, SearchEvent

ORIGINAL = Variant("k.cu", b"original", "k")
FULL = Verdict(True, "full", (), ())
QUICK = Verdict(True, "quick", (), ())
PROBLEM = SearchProblem(ORIGINAL, "emulator", "test")


def measurement(speedup: float) -> Measurement:
    return Measurement("predicted", "test", 1 / speedup, 1.0, speedup, speedup, speedup)


def proposal(name: str, prior: float = 1.0) -> Proposal:
    return Proposal(name, {}, f"because {name}", prior)


class ScriptedEvaluations:
    """Outcomes are a function of the set of steps: each step multiplies the speed, some are wrong."""

    def __init__(
        self,
        gains: dict[str, float],
        wrong: frozenset[str] = frozenset(),
        wrong_in_full: frozenset[str] = frozenset(),
        processes: int = 1,
    ) -> None:
        self.gains, self.wrong, self.wrong_in_full, self.processes = gains, wrong, wrong_in_full, processes
        self.tasks: list[EvaluationTask] = []

    def outcome(self, variant: Variant, level: str) -> Outcome:
        names = [step.name for step in variant.steps]
        key = ",".join(sorted(names))
        bad = self.wrong if level == "quick" else self.wrong | self.wrong_in_full
        if set(names) & bad:
            return Outcome("wrong", "a wrong answer", -1.0, variant, key)
        speedup = 1.0
        for name in names:
            speedup *= self.gains[name]
        left = tuple(proposal(name, 1.0 + index) for index, name in enumerate(self.gains) if name not in names)
        return Outcome(
            "better" if speedup >= 1.03 else "not-better",
            "",
            speedup - 1,
            variant,
            key,
            FULL if level == "full" else QUICK,
            measurement(speedup),
            proposals=left,
        )

    def baseline(self, cancelled: Callable[[], bool]) -> Outcome | None:
        return self.outcome(ORIGINAL, "full")

    def evaluate(self, tasks: Sequence[EvaluationTask], cancelled: Callable[[], bool]) -> list[Outcome | None]:
        self.tasks += tasks
        # Processes finish in any order; reversing stands for that.
        order = list(reversed(tasks)) if self.processes > 1 else list(tasks)
        found = {id(task): self._one(task) for task in order}
        return [None if cancelled() else found[id(task)] for task in tasks]

    def _one(self, task: EvaluationTask) -> Outcome:
        steps = task.parent.steps + tuple(Step(p.name, {}, p.rationale) for p in task.proposals)
        data = b"original " + " ".join(step.name for step in steps).encode()
        outcome = self.outcome(Variant("k.cu", data, "k", steps=steps), task.level)
        if task.level == "quick" and outcome.source_key in task.known:
            return Outcome("duplicate", "seen", 0.0, outcome.variant, outcome.source_key)
        return outcome

    def remeasure(self, outcome: Outcome, cancelled: Callable[[], bool]) -> Outcome | None:
        return outcome


def run(evaluations: ScriptedEvaluations, limit: int = 60, **more: Any) -> GrownTree:
    return grow(PROBLEM, evaluations, Budget(seconds=None, evaluations=limit, patience=1000), **more)


def names(grown: GrownTree) -> list[str]:
    assert grown.best is not None
    return [step.name for step in grown.best.variant.steps]


def test_finds_the_product_of_all_helpful_steps() -> None:
    assert sorted(names(run(ScriptedEvaluations({"a": 2.0, "b": 1.5, "c": 1.2})))) == ["a", "b", "c"]


def test_ablation_drops_the_step_that_does_not_pay() -> None:
    assert names(run(ScriptedEvaluations({"useful": 2.0, "useless": 1.0001}))) == ["useful"]


def test_what_is_offered_always_has_the_full_verdict() -> None:
    grown = run(ScriptedEvaluations({"a": 2.0, "trap": 5.0}, wrong_in_full=frozenset({"trap"})))
    assert names(grown) == ["a"]
    assert grown.best is not None
    assert grown.best.verdict == FULL


def test_wrong_variants_are_not_expanded() -> None:
    evaluations = ScriptedEvaluations({"a": 1.5, "wrong": 9.0}, wrong=frozenset({"wrong"}))
    assert names(run(evaluations)) == ["a"]
    parents = {tuple(step.name for step in task.parent.steps) for task in evaluations.tasks if task.level == "quick"}
    assert not any("wrong" in steps for steps in parents)


def test_nothing_better_is_an_honest_none() -> None:
    grown = run(ScriptedEvaluations({"a": 0.9, "b": 0.99}))
    assert grown.best is None
    assert grown.stopped == "exhausted"


def test_the_same_tree_on_one_and_on_two_processes() -> None:
    gains = {name: 0.8 + 0.13 * index for index, name in enumerate("abcdefg")}
    one = run(ScriptedEvaluations(gains), 40)
    two = run(ScriptedEvaluations(gains, processes=2), 40)
    assert one.tree.records() == two.tree.records()


def test_cancelling_keeps_the_best_with_a_full_verdict() -> None:
    seen: list[SearchEvent] = []

    def cancelled() -> bool:
        return any(event.kind == "new-best" for event in seen)

    grown = run(ScriptedEvaluations({"a": 2.0, "b": 1.5}), on_event=seen.append, cancelled=cancelled)
    assert grown.stopped == "cancelled"
    assert grown.best is not None
    assert grown.best.verdict == FULL


class CancelledAtTheEnd(ScriptedEvaluations):
    """On a GPU: everything is measured, and cancelling comes during the final measurement."""

    def outcome(self, variant: Variant, level: str) -> Outcome:
        found = super().outcome(variant, level)
        return (
            found
            if found.measurement is None
            else evolve(found, measurement=evolve(found.measurement, kind="measured"))
        )

    def remeasure(self, outcome: Outcome, cancelled: Callable[[], bool]) -> Outcome | None:
        return None


def test_cancelling_the_final_measurement_keeps_the_best_and_says_what_was_not_checked() -> None:
    grown = run(CancelledAtTheEnd({"a": 2.0}))
    assert grown.stopped == "cancelled"
    assert names(grown) == ["a"]
    assert grown.best is not None
    assert grown.best.verdict is not None
    assert any("compute-sanitizer" in text for text in grown.best.verdict.not_checked)
    assert any("final measurement" in note for note in grown.notes)


def test_what_cancelling_cut_off_is_not_counted_as_evaluated() -> None:
    rounds = []

    class SecondRoundCancelled(ScriptedEvaluations):
        def evaluate(self, tasks: Sequence[EvaluationTask], cancelled: Callable[[], bool]) -> list[Outcome | None]:
            rounds.append(len(tasks))
            found = super().evaluate(tasks, lambda: False)
            return [found[0], *(None for _ in found[1:])] if cancelled() else found

    seen: list[SearchEvent] = []
    evaluations = SecondRoundCancelled(dict.fromkeys("abcdefgh", 1.1))
    grown = run(evaluations, on_event=seen.append, cancelled=lambda: len(rounds) >= 2)
    assert grown.stopped == "cancelled"
    assert rounds[1] > 2
    evaluated = sum(event.kind == "evaluated" for event in seen)
    assert grown.evaluations == evaluated == len(grown.tree.records()) - 1 == rounds[0] + 1
    assert all(node.pending == 0 for node in grown.tree.nodes)
    assert all(node.outcome is not None for node in grown.tree.nodes)


@pytest.mark.parametrize("limit", [1, 3, 4, 7])
def test_the_budget_in_evaluations_is_kept(limit: int) -> None:
    gains = dict.fromkeys("abcdefgh", 1.1)
    assert run(ScriptedEvaluations(gains), limit).evaluations == limit


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(0.5, 3.0), min_size=1, max_size=6))
def test_visits_add_up(gains: dict[str, float]) -> None:
    tree = run(ScriptedEvaluations(gains), 30).tree
    for node in tree.nodes:
        own = 1 if node.outcome is not None else 0
        assert node.visits == own + sum(child.visits for child in node.children)
        assert node.pending == 0


def test_a_duplicate_is_found_within_one_round_too() -> None:
    grown = run(ScriptedEvaluations({"a": 1.5, "b": 1.4}), 30)
    outcomes = [node.outcome for node in grown.tree.nodes if node.outcome is not None]
    keys = [outcome.source_key for outcome in outcomes if outcome.state in ("better", "not-better")]
    assert len(keys) == len(set(keys))
