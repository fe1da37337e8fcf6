"""What ncu's rules say, as findings of our kinds in our words; and one list from several lists of findings.

A rule's global estimate is a share of the run time that would go away; a local one speaks of one unit's use and is kept
as evidence only (Nsight Compute's documentation, "Rules with estimated speedups"). Rules that restate how busy a unit
is, or that nothing of ours could answer, give no finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen

from optiml_core.profiling.findings.context import (
    HIGH_GAIN,
    MEDIUM_GAIN,
    FindingContext,
    in_line,
    line_range,
    percent,
)
from optiml_core.profiling.nsight.report import ReportedKernel, RuleResult
from optiml_core.records import Finding

Severity = Literal["high", "medium", "low"]
LARGEST_SHARE = 95.0  # percent of the run time: an estimate beyond that is of a kernel that does nothing else
LEAST_GAIN = 1.02  # what only a rule reports, and is worth less, is not worth a word
LOW_OCCUPANCY = 0.5  # older versions of ncu speak of everything below 100 %
FULL_WAVE = 0.9
# What the gain of better loads cannot exceed: the part of the samples in which warps wait for them.
LOAD_STALLS = ("stall_share_long_scoreboard", "stall_share_lg_throttle")
OF_LOADS = frozenset({"narrow-access", "memory-latency"})
LEAST_SHARE_SHOWN = 0.01
LEAST_STALL_SHARE = 0.1  # of the samples, for a line to be named as where warps wait
MOST_LINES = 3
# Rule -> our kind of bottleneck. Older versions of ncu have other names for some.
KINDS: Mapping[str, str] = {
    "UncoalescedGlobalAccess": "uncoalesced-access",
    "MemoryCacheAccessPattern": "uncoalesced-access",
    "UncoalescedSharedAccess": "shared-bank-conflict",
    "SharedMemoryConflicts": "shared-bank-conflict",
    "TheoreticalOccupancy": "low-occupancy",
    "Occupancy": "low-occupancy",
    "ThreadDivergence": "divergence",
    "LaunchConfiguration": "latency-bound-launch",
}
# The rule about why warps wait has one kind for each reason that something of ours answers.
STALL_RULE = "CPIStall"
STALL_KINDS: Mapping[str, str] = {"long_scoreboard": "memory-latency", "barrier": "barrier-bound"}
SMALL_GRID = "launch__waves_per_multiprocessor"
REWRITES: Mapping[str, tuple[str, ...]] = {
    "uncoalesced-access": ("swap-thread-roles", "shared-tile-transpose", "parallel-row", "launch-shape"),
    "shared-bank-conflict": ("pad-shared",),
    "low-occupancy": ("launch-shape",),
    "divergence": ("shuffle-reduction", "swap-thread-roles", "launch-shape"),
    "latency-bound-launch": ("launch-shape", "parallel-row", "coarsen-grid-stride"),
    "memory-latency": ("load-ahead", "vectorize-access", "unroll-loop", "coarsen-grid-stride", "register-accumulator"),
    "barrier-bound": ("shuffle-reduction", "launch-shape"),
    "atomic-contention": ("privatize-atomics", "shuffle-reduction"),
}


@frozen
class RuleEstimate:
    """The rules of one kind together: the largest estimate of the whole kernel's gain, and of one unit's (percent)."""

    kind: str
    gain: float | None
    local_percent: float | None


def kind_of(rule: RuleResult) -> str | None:
    """Our kind of a rule's result; None for one that says nothing we could act on."""
    if not rule.is_finding:
        return None
    if rule.identifier == STALL_RULE:
        named = rule.title + " " + " ".join(rule.focus)
        return next((kind for reason, kind in STALL_KINDS.items() if reason in named.lower().replace(" ", "_")), None)
    if rule.identifier == "SOLBottleneck":
        return "latency-bound-launch" if SMALL_GRID in rule.focus else None
    return KINDS.get(rule.identifier)


def gain_of(rule: RuleResult) -> float | None:
    """The factor on the kernel's time that a global estimate comes to; None without one."""
    if rule.speedup is None or not rule.is_global or rule.speedup <= 0:
        return None
    return 1.0 / (1.0 - min(rule.speedup, LARGEST_SHARE) / 100)


def estimates(rules: Iterable[RuleResult]) -> dict[str, RuleEstimate]:
    """By kind. Several rules of one kind look at one thing from several sides: the largest estimate stands for it."""
    found: dict[str, RuleEstimate] = {}
    for rule in rules:
        kind = kind_of(rule)
        if kind is None:
            continue
        before = found.get(kind, RuleEstimate(kind, None, None))
        local = rule.speedup if rule.speedup is not None and not rule.is_global else None
        found[kind] = RuleEstimate(kind, larger(before.gain, gain_of(rule)), larger(before.local_percent, local))
    return found


def larger(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def with_rules(findings: Sequence[Finding], kernel: ReportedKernel, context: FindingContext) -> tuple[Finding, ...]:
    """Findings joined with what ncu's rules estimate: their gains put in, and findings added that only a rule made."""
    result = list(findings)
    for estimate in estimates(kernel.rules).values():
        kind = "atomic-contention" if is_of_atomics(estimate, context) else estimate.kind
        estimate = evolve(estimate, kind=kind, gain=bounded(estimate, context))
        members = [finding for finding in result if finding.kind == kind]
        if not members:
            result += rule_only(estimate, context)
            continue
        weights = [weight_of(finding, context) for finding in members]
        total = sum(weights)
        for finding, weight in zip(members, weights, strict=True):
            part = weight / total if total else 1.0 / len(members)
            result[result.index(finding)] = with_estimate(finding, estimate, part)
    return tuple(with_line(no_more_than_waiting(finding, context), context) for finding in result)


def with_line(finding: Finding, context: FindingContext) -> Finding:
    """The finding with what its line costs as evidence: the part of all samples in which warps wait there, and sectors
    a request."""
    row = context.profile.line_metrics.get(finding.range.start_line, {})
    evidence = dict(finding.evidence)
    if row.get("stall_share", 0.0) >= LEAST_SHARE_SHOWN:
        evidence["stall_share"] = percent(row["stall_share"])
    if "sectors_per_request" in row:
        evidence.setdefault("sectors_per_request", round(row["sectors_per_request"], 2))
    return evolve(finding, evidence=evidence)


def is_of_atomics(estimate: RuleEstimate, context: FindingContext) -> bool:
    """Whether the wasted sectors that a rule speaks of are those of atomics: scattered by nature, they have an answer
    of their own. ncu's rule does not tell them from loads and stores."""
    if estimate.kind != "uncoalesced-access":
        return False
    waste = {"atomic": 0, "other": 0}
    for access in context.profile.accesses:
        if access.space == "global":
            waste["atomic" if access.kind == "atomic" else "other"] += access.sectors - access.ideal_sectors
    return waste["atomic"] > waste["other"]


def bounded(estimate: RuleEstimate, context: FindingContext) -> float | None:
    """A rule's gain, no more than its own numbers can bear: of a launch of 1.9 waves the rule on partial waves says
    that half of the time would go away, though a full second wave would save a twentieth."""
    waves = context.metrics.get("waves", 0.0)
    if estimate.gain is None or estimate.kind != "latency-bound-launch" or waves < 1.0:
        return estimate.gain
    return min(estimate.gain, math.ceil(waves) / waves)


def no_more_than_waiting(finding: Finding, context: FindingContext) -> Finding:
    """A gain that only shortens the waiting for loads is at most what remains when that goes away. How much that is the
    sampler knows; the time model, on a part of its counters, does not."""
    if finding.kind not in OF_LOADS or finding.estimated_gain is None or LOAD_STALLS[0] not in context.metrics:
        return finding
    waiting = min(0.95, sum(context.metrics.get(name, 0.0) for name in LOAD_STALLS))
    gain = min(finding.estimated_gain, 1.0 / (1.0 - waiting))
    return evolve(finding, estimated_gain=round(gain, 3), severity=severity_of(gain))


def weight_of(finding: Finding, context: FindingContext) -> float:
    """How much of its kind's waste a finding stands for: what its line has beyond the ideal."""
    row = context.profile.line_metrics.get(finding.range.start_line, {})
    if finding.kind == "uncoalesced-access":
        return max(0.0, row.get("sectors", 0.0) - row.get("ideal_sectors", 0.0))
    if finding.kind == "shared-bank-conflict":
        return max(0.0, row.get("wavefronts", 0.0) - row.get("ideal_wavefronts", 0.0))
    return 1.0


def with_estimate(finding: Finding, estimate: RuleEstimate, part: float) -> Finding:
    """A finding with its part of a rule's estimate.

    Where the model has an estimate too, the finding's gain is the geometric mean of both; each is kept as evidence.
    """
    evidence = dict(finding.evidence)
    if estimate.local_percent is not None:
        evidence["ncu_local_estimate_percent"] = round(estimate.local_percent, 1)
    if estimate.gain is None:
        return evolve(finding, evidence=evidence)
    saved = (1.0 - 1.0 / estimate.gain) * part
    theirs = 1.0 / (1.0 - saved)
    evidence["ncu_estimated_gain"] = round(theirs, 3)
    ours = finding.estimated_gain
    if ours is not None:
        evidence["model_estimated_gain"] = round(ours, 3)
    gain = theirs if ours is None else math.sqrt(theirs * ours)
    return evolve(finding, evidence=evidence, estimated_gain=round(gain, 3), severity=severity_of(gain))


def severity_of(gain: float) -> Severity:
    return "high" if gain >= HIGH_GAIN else "medium" if gain >= MEDIUM_GAIN else "low"


def rule_only(estimate: RuleEstimate, context: FindingContext) -> list[Finding]:
    """Findings of a kind that only a rule reports: at the lines where it shows, else at the kernel's name."""
    evidence: dict[str, float | str] = {}
    if estimate.gain is not None:
        evidence["ncu_estimated_gain"] = estimate.gain
    if estimate.local_percent is not None:
        evidence["ncu_local_estimate_percent"] = estimate.local_percent
    rewrites = REWRITES.get(estimate.kind, ())
    if estimate.gain is not None and estimate.gain < LEAST_GAIN:
        return []
    if estimate.kind == "memory-latency":
        return waiting_lines(estimate, context, evidence)
    message, more = words_for(estimate.kind, context)
    if not message:
        return []
    place = context.kernel.name_range
    return [context.finding(estimate.kind, place, message, {**evidence, **more}, estimate.gain, rewrites)]


def words_for(kind: str, context: FindingContext) -> tuple[str, dict[str, float | str]]:
    """A sentence and its numbers for a finding without a line; an empty one where the numbers do not bear it out."""
    metrics = context.metrics
    sectors, ideal = metrics.get("global_sectors", 0.0), metrics.get("global_ideal_sectors", 0.0)
    passes, needed = metrics.get("shared_wavefronts", 0.0), metrics.get("shared_ideal_wavefronts", 0.0)
    if kind == "uncoalesced-access":
        if ideal and sectors > 1.1 * ideal:
            wasted = percent(1.0 - ideal / sectors)
            return f"{wasted} of the sectors of global accesses carry nothing that was asked for", {"wasted": wasted}
        return ("", {}) if ideal else ("global accesses touch more sectors than their bytes need", {})
    if kind == "shared-bank-conflict":
        if needed and passes > 1.1 * needed:
            return f"shared memory takes {passes / needed:.1f} times the passes it needs", {"excess": passes / needed}
        return ("", {}) if needed else ("accesses to shared memory meet in its banks", {})
    if kind == "low-occupancy":
        fraction = metrics.get("theoretical_occupancy")
        if fraction is None:
            return "few warps fit on a multiprocessor", {}
        if fraction > LOW_OCCUPANCY:
            return "", {}
        return f"room for {percent(fraction)} of the warps that a multiprocessor holds", {
            "theoretical_occupancy": fraction
        }
    if kind == "atomic-contention":
        return "atomic updates of one request go to many sectors", {}
    if kind == "divergence":
        return "many lanes sit out while others of their warp work", {}
    if kind == "latency-bound-launch":
        waves = metrics.get("waves")
        if waves is None:
            return "the launch is too small for the GPU", {}
        if waves >= 1.0:
            return f"the last of {waves:.1f} waves of blocks leaves a part of the GPU without work", {"waves": waves}
        if waves > FULL_WAVE:
            return "", {}
        return f"the blocks are {percent(waves)} of what the GPU runs at once", {"waves": waves}
    if kind == "barrier-bound":
        share = metrics.get("stall_share_barrier", 0.0)
        said = f": {percent(share)} of their samples" if share else ""
        return f"warps wait for each other at barriers{said}", {"stall_share_barrier": share}
    return "", {}


def waiting_lines(
    estimate: RuleEstimate, context: FindingContext, evidence: Mapping[str, float | str]
) -> list[Finding]:
    """Where warps wait for what they loaded: the few lines with the most samples of that reason."""
    name = "stall_share_long_scoreboard"
    lines = {line: row.get(name, 0.0) for line, row in context.profile.line_metrics.items()}
    worst = sorted((line for line in lines if lines[line] >= LEAST_STALL_SHARE), key=lambda line: -lines[line])
    everything = sum(lines.values())
    found = []
    for line in worst[:MOST_LINES]:
        gain = None
        if estimate.gain is not None and everything:
            gain = 1.0 / (1.0 - (1.0 - 1.0 / estimate.gain) * lines[line] / everything)
        message = f"warps wait for loads, {percent(lines[line])} of all their samples"
        numbers = {**evidence, "stall_share": percent(lines[line])}
        finding = context.finding(
            estimate.kind, line_range(context, line), message, numbers, gain, REWRITES[estimate.kind]
        )
        found.append(in_line(finding, line))
    return found


def joined(lists: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """One list from several, which report the same things: one finding a kind and line.

    The earlier list has the say over words and numbers, the later one over gains: counters of hardware come first, then
    those of the emulator, which have all that the time model needs. What only one of them knows is kept.
    """
    found: dict[tuple[str, int], Finding] = {}
    for findings in lists:
        for finding in findings:
            key = (finding.kind, finding.range.start_line)
            before = found.get(key)
            if before is None:
                found[key] = finding
                continue
            evidence = {**finding.evidence, **before.evidence}
            gain = finding.estimated_gain if finding.estimated_gain is not None else before.estimated_gain
            # The narrower place says more.
            narrower = finding.range if width(finding) < width(before) else before.range
            found[key] = evolve(
                before,
                evidence=evidence,
                estimated_gain=gain,
                range=narrower,
                rewrites=tuple(dict.fromkeys((*before.rewrites, *finding.rewrites))),
                severity=before.severity if gain is None else severity_of(gain),
            )
    return tuple(found.values())


def width(finding: Finding) -> int:
    return finding.range.end_byte - finding.range.start_byte


__all__ = ["RuleEstimate", "estimates", "gain_of", "joined", "kind_of", "with_rules"]
