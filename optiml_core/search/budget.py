"""How much a search may spend, and when it should stop by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field, frozen

from optiml_core.search.records import StopReason


@frozen
class Budget:
    """``seconds`` of wall clock and ``evaluations`` of new nodes; None leaves one of them open.

    ``patience``: evaluations without a new best after which the search ends.
    ``roofline_fraction``: at this share of the roofline there is nothing left worth searching for.
    """

    seconds: float | None = 60.0
    evaluations: int | None = None
    patience: int = 48
    roofline_fraction: float = 0.95


@define
class BudgetClock:
    """Counts what a search has spent. ``now`` is injectable so that tests need not wait."""

    budget: Budget
    now: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    evaluations: int = 0
    last_improvement: int = 0

    def __attrs_post_init__(self) -> None:
        self.started = self.now()

    @property
    def seconds(self) -> float:
        return self.now() - self.started

    def remaining_evaluations(self) -> int | None:
        limit = self.budget.evaluations
        return None if limit is None else max(0, limit - self.evaluations)

    def count(self, improved: bool) -> None:
        self.evaluations += 1
        if improved:
            self.last_improvement = self.evaluations

    def stop_reason(self, roofline_fraction: float | None) -> StopReason | None:
        """Why the search should end now, or None."""
        budget = self.budget
        # Evaluating the original may use up a short budget; one round is tried all the same.
        if budget.seconds is not None and self.evaluations > 0 and self.seconds >= budget.seconds:
            return "budget-seconds"
        if budget.evaluations is not None and self.evaluations >= budget.evaluations:
            return "budget-evaluations"
        if roofline_fraction is not None and roofline_fraction >= budget.roofline_fraction:
            return "roofline"
        if self.evaluations - self.last_improvement >= budget.patience:
            return "no-improvement"
        return None
