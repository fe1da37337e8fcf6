"""Monte Carlo tree search over steps."""

from optiml_core.search.budget import Budget
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import (
    Judgement,
    NodeRecord,
    Outcome,
    Proposal,
    SearchEvent,
    SearchResult,
    TrajectoryStep,
)
from optiml_core.search.run import optimize

__all__ = [
    "Budget",
    "Judgement",
    "NodeRecord",
    "Outcome",
    "Proposal",
    "SearchEvent",
    "SearchProblem",
    "SearchResult",
    "TrajectoryStep",
    "optimize",
]
