"""The search itself: grow the tree in rounds, verify every new best in full, ablate the winner.

Leaves are issued and backed up in a fixed order, in rounds of a fixed width, so that the tree is the same for
the same seed and number of evaluations whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import evolve, frozen

from optiml_core.records import Failure, Profile
from optiml_core.search.budget import Budget, BudgetClock
from optiml_core.search.guardrails import is_better
from optiml_core.search.problem import EvaluationTask, SearchProblem
from optiml_core.search.records import DUPLICATE, Judgement, Outcome, Proposal, SearchEvent, StopReason
from optiml_core.search.reward import FAILED
from optiml_core.search.tree import Node, SearchTree, TreeSettings

# Leaves issued at once. Fixed, so that the tree does not depend on the number of processes; on a GPU more, because
# evaluations there wait for each other's timings.
ROUND_WIDTH = 4
ROUND_WIDTH_ON_GPU = 8

# A step whose removal costs less than this share of the time does not pay for itself.
ABLATION_MARGIN = 1.005


class Evaluations(Protocol):
    """Evaluates tasks, in any order and on any number of processes."""

    def baseline(self, cancelled: Callable[[], bool]) -> Outcome | None:
        """The original, verified against itself, timed and profiled, with the proposals it invites; None where
        cancelling came first."""
        ...

    def evaluate(self, tasks: Sequence[EvaluationTask], cancelled: Callable[[], bool]) -> list[Outcome | None]:
        """One outcome per task, in the order of the tasks; None where cancelling came first."""
        ...

    def remeasure(self, outcome: Outcome, cancelled: Callable[[], bool]) -> Outcome | None:
        """Measures a verified variant once more in fresh processes, where that means anything; None where cancelling
        came first."""
        ...


# (the original's outcome, the variant's) -> judgement
SecondOpinion = Callable[[Outcome, Outcome], Judgement]


class LateProposals(Protocol):
    """A proposer that thinks while evaluations run, such as a language model."""

    def submit(self, tree: SearchTree, node: Node) -> None:
        """Told of each newly evaluated node, whatever came of it."""
        ...

    def collect(self) -> list[tuple[Node, tuple[Proposal, ...]]]:
        """Whatever has arrived since the last call."""
        ...

    def waiting(self) -> bool: ...


@frozen
class GrownTree:
    """What remains when the search stops: the tree, the best node's outcome after ablation, and why it stopped."""

    tree: SearchTree
    baseline: Outcome
    best: Outcome | None
    chain: tuple[Outcome, ...]  # outcomes along the path to the best, without the original
    evaluations: int
    seconds: float
    stopped: StopReason
    notes: tuple[str, ...]


def grow(
    problem: SearchProblem,
    evaluations: Evaluations,
    budget: Budget,
    *,
    settings: TreeSettings | None = None,
    on_event: Callable[[SearchEvent], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
    late: LateProposals | None = None,
    second_opinion: SecondOpinion | None = None,
    clock: BudgetClock | None = None,
) -> GrownTree:
    """Runs the search. Never raises for a candidate's faults; cancelling keeps the best so far.

    ``second_opinion`` is asked of every new best after its full verdict; its veto takes the variant out.
    """
    clock = clock or BudgetClock(budget)
    notes: list[str] = []

    def tell(kind: str, text: str, outcome: Outcome | None = None) -> None:
        best = tree.best() if tree is not None else None
        measurement = best.outcome.measurement if best and best.outcome else None
        on_event(
            SearchEvent(
                kind,  # type: ignore[arg-type]
                clock.evaluations,
                clock.seconds,
                text,
                outcome.state if outcome else None,
                outcome.variant.steps[-1].name if outcome and outcome.variant.steps else "",
                measurement.speedup if measurement else None,
                measurement.kind if measurement else None,
            )
        )

    tree: SearchTree | None = None
    found = evaluations.baseline(cancelled)
    baseline = _cancelled_baseline(problem) if found is None else found
    tree = SearchTree.start(baseline, settings)
    if found is None:
        tell("stopped", "cancelled", baseline)
        return GrownTree(tree, baseline, None, (), 0, clock.seconds, "cancelled", (baseline.reason,))
    tell("started", "the original is evaluated", baseline)
    if baseline.state not in ("not-better", "better"):
        tell("stopped", baseline.reason, baseline)
        return GrownTree(tree, baseline, None, (), 0, clock.seconds, "original-misbehaves", (baseline.reason,))
    if late is not None:
        late.submit(tree, tree.root)

    width = ROUND_WIDTH if problem.device == "emulator" else ROUND_WIDTH_ON_GPU
    stopped: StopReason | None = None
    while stopped is None:
        if late is not None:
            for node, proposals in late.collect():
                tree.add_proposals(node, proposals)
        stopped = "cancelled" if cancelled() else clock.stop_reason(_fraction(tree))
        if stopped is not None:
            break
        stopped = _round(tree, evaluations, clock, tell, cancelled, late, second_opinion, width)
    before = tree.best("full")
    _confirm_best(tree, evaluations, cancelled, second_opinion)
    after = tree.best("full")
    if after is not None and after is not before:
        tell("new-best", after.outcome.reason if after.outcome else "", after.outcome)

    chain: tuple[Outcome, ...] = ()
    # Only a full verdict may be offered: cancelling can leave a new best with a quick gate alone.
    best_node = tree.best("full")
    best = best_node.outcome if best_node else None
    if best_node is not None and best is not None:
        chain = tuple(node.outcome for node in tree.path(best_node)[1:] if node.outcome is not None)
        remeasured: Outcome | None = None
        if stopped != "cancelled" and not cancelled():
            tell("phase", "dropping steps that do not pay for themselves")
            best, chain, dropped = _ablate(tree, best, chain, evaluations, clock, cancelled)
            notes += dropped
        if stopped != "cancelled" and not cancelled():
            remeasured = evaluations.remeasure(best, cancelled)
        if remeasured is None:
            stopped = "cancelled"
            best, missing = _not_remeasured(best)
            notes += missing
        elif remeasured.state == "better":
            best = remeasured
        else:
            notes.append(f"the final measurement did not confirm the gain: {remeasured.reason}")
            best, chain = None, ()
    tell("stopped", stopped)
    return GrownTree(tree, baseline, best, chain, clock.evaluations, clock.seconds, stopped, tuple(notes))


def _round(
    tree: SearchTree,
    evaluations: Evaluations,
    clock: BudgetClock,
    tell: Callable[..., None],
    cancelled: Callable[[], bool],
    late: LateProposals | None,
    second_opinion: SecondOpinion | None,
    width: int,
) -> StopReason | None:
    """Evaluates some leaves and, beside them, gives the best of the rounds before its full verdict."""
    remaining = clock.remaining_evaluations()
    width = width if remaining is None else min(width, remaining)
    leaves: list[Node] = []
    while len(leaves) < width:
        leaf = tree.select()
        if leaf is None:
            break
        leaves.append(leaf)
    unconfirmed = _unconfirmed(tree)
    if not leaves and unconfirmed is None:
        return None if late is not None and late.waiting() else "exhausted"
    known = frozenset(tree.by_source)
    counters = tree.root.outcome.counters if tree.root.outcome is not None else None
    tasks = [_task(leaf, known, counters) for leaf in leaves]
    if unconfirmed is not None and unconfirmed.outcome is not None:
        tasks.append(EvaluationTask(unconfirmed.outcome.variant, (), "full"))
    outcomes = evaluations.evaluate(tasks, cancelled)
    before = tree.best("full")
    for leaf, outcome in zip(leaves, outcomes, strict=False):
        if outcome is None:
            tree.abandon(leaf)
            continue
        if outcome.source_key in tree.by_source and outcome.state in ("better", "not-better"):
            # Two leaves of one round may reach the same source: the first issued stands for it.
            outcome = evolve(outcome, state="duplicate", reason=DUPLICATE, reward=0.0)
        tree.complete(leaf, outcome)
        # A refusal and a duplicate cost next to nothing, so they do not use up the budget.
        if outcome.state not in ("refused", "duplicate"):
            clock.count(improved=False)
        tell("evaluated", outcome.reason, outcome)
        if late is not None:
            late.submit(tree, leaf)
    if unconfirmed is not None:
        _settle(tree, unconfirmed, outcomes[-1], second_opinion)
    after = tree.best("full")
    if after is not None and after is not before and (before is None or _faster(after, before)):
        clock.last_improvement = clock.evaluations
        tell("new-best", after.outcome.reason if after.outcome else "", after.outcome)
    return None


def _unconfirmed(tree: SearchTree) -> Node | None:
    """The best node, if only the quick gate has seen it."""
    best = tree.best()
    verdict = None if best is None or best.outcome is None else best.outcome.verdict
    return None if verdict is not None and verdict.level == "full" else best


def _settle(tree: SearchTree, node: Node, full: Outcome | None, second_opinion: SecondOpinion | None) -> None:
    """What the full verdict, and the second opinion after it, make of a node; None says that cancelling came first."""
    if full is None or node.outcome is None:
        return
    if full.state == "better" and second_opinion is not None and tree.root.outcome is not None:
        judgement = second_opinion(tree.root.outcome, full)
        full = evolve(full, judgement=judgement)
        if judgement.veto:
            full = evolve(full, state="vetoed", reason=judgement.reason, reward=FAILED)
    if full.state == "better":
        node.outcome = evolve(full, proposals=node.outcome.proposals)
    else:
        tree.withdraw(node, evolve(full, reward=min(full.reward, 0.0 if full.state == "not-better" else FAILED)))


def _confirm_best(
    tree: SearchTree,
    evaluations: Evaluations,
    cancelled: Callable[[], bool],
    second_opinion: SecondOpinion | None,
) -> None:
    """Gives the best of the last round its full verdict too; what fails it is taken out and the next best looked at."""
    while not cancelled():
        node = _unconfirmed(tree)
        if node is None or node.outcome is None:
            return
        full = _full(node.outcome, evaluations, cancelled)
        if full is None:
            return
        _settle(tree, node, full, second_opinion)


def _full(outcome: Outcome, evaluations: Evaluations, cancelled: Callable[[], bool]) -> Outcome | None:
    return evaluations.evaluate([EvaluationTask(outcome.variant, (), "full")], cancelled)[0]


def _ablate(
    tree: SearchTree,
    best: Outcome,
    chain: tuple[Outcome, ...],
    evaluations: Evaluations,
    clock: BudgetClock,
    cancelled: Callable[[], bool],
) -> tuple[Outcome, tuple[Outcome, ...], list[str]]:
    """Drops each step, last first, whose removal does not make the variant slower.

    The steps are replayed from the original without the one in question, so that what is offered is exactly
    the chain that is shown. A model's edit is a whole file and cannot be replayed on another parent.
    """
    node = next((n for n in tree.nodes if n.outcome is best), None)
    if node is None or best.measurement is None:
        return best, chain, []
    proposals = [n.proposal for n in tree.path(node)[1:] if n.proposal is not None]
    notes: list[str] = []
    index = len(proposals) - 1
    while index >= 0 and len(proposals) > 1 and not cancelled():
        shorter = proposals[:index] + proposals[index + 1 :]
        dropped = proposals[index]
        index -= 1
        if any(p.replacement is not None for p in shorter[max(index, 0) :]):
            continue
        outcomes = evaluations.evaluate(
            [
                EvaluationTask(tree.root.outcome.variant, tuple(shorter[: n + 1]))  # type: ignore[union-attr]
                for n in range(len(shorter))
            ],
            cancelled,
        )
        last = outcomes[-1]
        if last is None or last.state != "better" or last.measurement is None or best.measurement is None:
            continue
        if last.measurement.time > best.measurement.time * ABLATION_MARGIN:
            continue
        full = _full(last, evaluations, cancelled)
        if full is None or full.state != "better":
            continue
        best, proposals = full, shorter
        chain = (*[o for o in outcomes[:-1] if o is not None], full)
        notes.append(f"dropped {dropped.name}: it did not pay for itself")
    return best, chain, notes


def _task(leaf: Node, known: frozenset[str], original_counters: Profile | None) -> EvaluationTask:
    parent, proposal = _origin(leaf)
    speedup = parent.measurement.speedup if parent.measurement is not None else 1.0
    return EvaluationTask(parent.variant, (proposal,), "quick", known, speedup, original_counters)


def _origin(leaf: Node) -> tuple[Outcome, Proposal]:
    """The evaluated parent of a leaf and the proposal that leads to it."""
    if leaf.parent is None or leaf.parent.outcome is None or leaf.proposal is None:
        raise ValueError("a leaf has an evaluated parent and a proposal")
    return leaf.parent.outcome, leaf.proposal


def _cancelled_baseline(problem: SearchProblem) -> Outcome:
    reason = "cancelled before the original was evaluated"
    return Outcome("failed", reason, 0.0, problem.original, "cancelled", failure=Failure("cancelled", reason))


def _not_remeasured(best: Outcome) -> tuple[Outcome, list[str]]:
    """The best of a search that was cancelled before the final measurement; on a GPU that belongs to the checks."""
    if best.measurement is None or best.measurement.kind == "predicted" or best.verdict is None:
        return best, []
    missing = "compute-sanitizer and the final measurement: cancelled before them"
    return evolve(best, verdict=evolve(best.verdict, not_checked=(*best.verdict.not_checked, missing))), [missing]


def _fraction(tree: SearchTree) -> float | None:
    best = tree.best("full")
    outcome = best.outcome if best else tree.root.outcome
    return outcome.roofline.fraction if outcome and outcome.roofline else None


def _faster(node: Node, than: Node) -> bool:
    first = node.outcome.measurement if node.outcome else None
    second = than.outcome.measurement if than.outcome else None
    return first is not None and (second is None or (is_better(first) and first.time < second.time))
