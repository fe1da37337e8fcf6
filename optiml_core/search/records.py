"""Records of the search: proposals, outcomes of evaluated nodes, events and the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from optiml_core.records import (
    Failure,
    Finding,
    Measurement,
    Origin,
    Profile,
    Roofline,
    Step,
    Variant,
    Verdict,
)

OutcomeState = Literal[
    "better",  # verified; faster than the original
    "not-better",  # verified; not faster than the original
    "refused",  # a rewrite's precondition or a guardrail said no
    "compile-error",
    "wrong",  # not equivalent
    "could-not-tell",
    "vetoed",  # by the judge, with its reason
    "failed",  # a crash, a time-out, a missing tool
    "duplicate",  # the same source as another node
]

DUPLICATE = "the same source as an earlier variant"  # the reason of that state

VERIFIED_STATES: frozenset[str] = frozenset({"better", "not-better"})


@frozen
class Proposal:
    """A possible next step from a node.

    ``prior`` (above 0, relative) says how promising it is. ``replacement`` is the whole new file for
    a model's edit; None for a rewrite, which is applied by name and parameters.
    """

    name: str
    parameters: Mapping[str, int | float | str | bool]
    rationale: str
    prior: float
    proposer: str = "rewrites"
    replacement: bytes | None = None


@frozen
class Judgement:
    """What the judge says of a variant's evidence. It orders and vetoes; it never adds reward."""

    veto: bool
    reason: str = ""
    flags: tuple[str, ...] = ()
    diagnosis: str = ""


@frozen
class Outcome:
    """Everything one evaluation of a node found out. ``reward`` is what is backed up.

    ``profile`` is the emulator's where it can run the kernel; ``counters`` is Nsight Compute's, of nodes on a GPU that
    were worth it. ``notes``: what the user should know, each a sentence.
    """

    state: OutcomeState
    reason: str
    reward: float
    variant: Variant
    source_key: str
    verdict: Verdict | None = None
    measurement: Measurement | None = None
    profile: Profile | None = None
    roofline: Roofline | None = None
    findings: tuple[Finding, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    judgement: Judgement | None = None
    failure: Failure | None = None
    seconds: Mapping[str, float] = field(factory=dict)  # where the evaluation's time went
    counters: Profile | None = None
    notes: tuple[str, ...] = ()


@frozen
class TrajectoryStep:
    """One step of the path from the original to the best variant, with its evidence."""

    step: Step
    evidence: Mapping[str, float | str]
    gain: float | None  # factor on the time of the variant before


@frozen
class NodeRecord:
    """One node of the finished tree, for the report and the store."""

    identifier: int
    parent: int | None
    step: Step | None
    state: OutcomeState
    reason: str
    time: float | None
    speedup: float | None
    visits: int
    reward: float
    prior: float
    order: int  # of evaluation


@frozen
class SearchEvent:
    """Progress: one of started, evaluated, new-best, phase, stopped."""

    kind: Literal["started", "evaluated", "new-best", "phase", "stopped"]
    evaluations: int
    seconds: float
    text: str
    state: OutcomeState | None = None
    step: str = ""
    best_speedup: float | None = None
    best_kind: Literal["measured", "predicted"] | None = None


StopReason = Literal[
    "budget-seconds",
    "budget-evaluations",
    "roofline",
    "no-improvement",
    "exhausted",
    "cancelled",
    "original-misbehaves",
]


@frozen
class SearchResult:
    """What a search came to. ``best`` None means: no verified variant is better than the original."""

    kernel: str
    device: str
    target: str
    origin: Origin
    launches: tuple[str, ...]
    baseline: Outcome
    best: Outcome | None
    trajectory: tuple[TrajectoryStep, ...]
    patch: str
    nodes: tuple[NodeRecord, ...]
    evaluations: int
    seconds: float
    stopped: StopReason
    notes: tuple[str, ...] = ()
    spent: Mapping[str, float] = field(factory=dict)  # seconds by kind of work, added up over all processes
