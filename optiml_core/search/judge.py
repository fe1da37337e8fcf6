"""The judge: reads the evidence before and after, diagnoses, and can veto. It never adds reward.

This is the rule-based judge, which works with no model. Each rule is a function from the evidence to a veto,
a flag or nothing. The rules come from trust.md's cases: a result too good to be true is refused, not celebrated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from optiml_core.records import Measurement, Profile, Roofline, Verdict
from optiml_core.search.records import Judgement


@frozen
class Evidence:
    """What is known of the original and of a variant. Never the proposer's own claims."""

    original: Profile | None
    variant: Profile | None
    measurement: Measurement
    original_roofline: Roofline | None
    roofline: Roofline | None
    verdict: Verdict
    compulsory_bytes: int | None = None  # outputs written once, inputs read once
    original_source: str = ""
    variant_source: str = ""


class Judge(Protocol):
    def review(self, evidence: Evidence) -> Judgement: ...


@frozen
class RuleJudgement:
    veto: str = ""
    flag: str = ""


Rule = Callable[[Evidence], RuleJudgement | None]

# A time this far below what the variant's own bytes allow cannot be explained by the model's own error.
FLOOR_TOLERANCE = 0.9


def below_roofline_floor(evidence: Evidence) -> RuleJudgement | None:
    """No correct kernel with this work runs faster than the floor (trust.md items 7, 8 and 9)."""
    floor = evidence.original_roofline.floor if evidence.original_roofline else None
    if floor is None or evidence.measurement.kind != "measured" or floor <= 0:
        return None
    if evidence.measurement.time < FLOOR_TOLERANCE * floor:
        return RuleJudgement(
            veto=f"measured {evidence.measurement.time * 1e6:.2f} us, below the roofline floor of {floor * 1e6:.2f} us"
        )
    return None


def moves_too_few_bytes(evidence: Evidence) -> RuleJudgement | None:
    """A kernel must at least write its outputs and read what they depend on."""
    if evidence.compulsory_bytes is None or evidence.variant is None:
        return None
    requested = evidence.variant.metrics.get("requested_bytes")
    if requested is not None and requested < 0.5 * evidence.compulsory_bytes:
        return RuleJudgement(
            veto=f"requests {requested:.0f} bytes where inputs and outputs alone are {evidence.compulsory_bytes}"
        )
    return None


def does_no_work(evidence: Evidence) -> RuleJudgement | None:
    """An empty kernel, or one whose work the compiler removed."""
    if evidence.variant is None or evidence.original is None:
        return None
    before = evidence.original.metrics.get("requested_bytes", 0.0)
    after = evidence.variant.metrics.get("requested_bytes")
    if after is not None and after == 0 and before > 0:
        return RuleJudgement(veto="the variant reads and writes nothing")
    return None


def gain_without_cause(evidence: Evidence) -> RuleJudgement | None:
    """A large gain must be visible in some counter, or in occupancy; else it is noise or a trick."""
    if evidence.original is None or evidence.variant is None or evidence.measurement.speedup < 1.5:
        return None
    names = (
        "dram_bytes",
        "l2_bytes",
        "sectors",
        "shared_wavefronts",
        "executed_instructions",
        "requested_bytes",
        "same_address_atomics",
        "barriers",
    )
    comparable = False
    for name in names:
        before, after = evidence.original.metrics.get(name), evidence.variant.metrics.get(name)
        if before is None or after is None:
            continue
        comparable = True
        if before > 0 and after < 0.9 * before:
            return None
    for name in ("achieved_occupancy", "active_warps", "warps_launched", "memory_parallelism"):
        before, after = evidence.original.metrics.get(name), evidence.variant.metrics.get(name)
        if before is not None and after is not None and after > 1.1 * before:
            return None
    if not comparable:
        return None
    text = f"{evidence.measurement.speedup:.2f}x faster, yet no counter improved by a tenth"
    return RuleJudgement(veto=text) if evidence.measurement.speedup > 3 else RuleJudgement(flag=text)


def far_too_good(evidence: Evidence) -> RuleJudgement | None:
    """More than tenfold is possible (uncoalesced code), but a person should look."""
    if evidence.measurement.speedup > 10:
        text = f"{evidence.measurement.speedup:.1f}x is unusual: read the evidence before trusting it"
        return RuleJudgement(flag=text)
    return None


def unequal_verdict(evidence: Evidence) -> RuleJudgement | None:
    if evidence.verdict.equivalent is not True:
        return RuleJudgement(veto=f"not verified: {evidence.verdict.reason}")
    return None


def inconclusive_timing(evidence: Evidence) -> RuleJudgement | None:
    if evidence.measurement.inconclusive:
        return RuleJudgement(flag="the timing is inconclusive: its interval did not become tight enough")
    return None


def keeps_state_between_launches(evidence: Evidence) -> RuleJudgement | None:
    """Results cached in device globals survive a launch (trust.md item 8)."""
    added = _global_declarations(evidence.variant_source) - _global_declarations(evidence.original_source)
    if added:
        names = ", ".join(sorted(added))
        text = f"adds device memory that outlives a launch ({names}): a result could be cached there"
        return RuleJudgement(veto=text)
    return None


def _global_declarations(source: str) -> set[str]:
    found = set()
    depth = 0
    for line in source.splitlines():
        text = line.strip()
        if depth == 0 and text.startswith(("__device__", "static __device__", "__managed__", "__device__ static")):
            if "(" not in text.split("=")[0]:
                found.add(text.split("=")[0].split("[")[0].rstrip(" ;").split()[-1])
        elif depth > 0 and text.startswith(("static __device__", "__device__ static", "static __managed__")):
            found.add(text.split("=")[0].split("[")[0].rstrip(" ;").split()[-1])
        depth += line.count("{") - line.count("}")
    return found


RULES: tuple[Rule, ...] = (
    unequal_verdict,
    below_roofline_floor,
    does_no_work,
    moves_too_few_bytes,
    gain_without_cause,
    keeps_state_between_launches,
    far_too_good,
    inconclusive_timing,
)


@frozen
class RuleJudge:
    """Runs every rule; the first veto wins, flags add up."""

    rules: tuple[Rule, ...] = RULES

    def review(self, evidence: Evidence) -> Judgement:
        flags: list[str] = []
        for rule in self.rules:
            said = rule(evidence)
            if said is None:
                continue
            if said.veto:
                return Judgement(True, said.veto, tuple(flags), diagnose(evidence))
            if said.flag:
                flags.append(said.flag)
        return Judgement(False, "", tuple(flags), diagnose(evidence))


def diagnose(evidence: Evidence) -> str:
    """One sentence on what bounds the variant now and what changed most."""
    parts = []
    if evidence.original_roofline and evidence.roofline:
        before, after = evidence.original_roofline, evidence.roofline
        now = f"now by {after.bound_by} ({after.fraction:.0%} of its ceiling)"
        parts.append(f"bound by {before.bound_by} before, {now}")
    if evidence.original is not None and evidence.variant is not None:
        changes = []
        for name, before_value in evidence.original.metrics.items():
            after_value = evidence.variant.metrics.get(name)
            if after_value is None or before_value <= 0 or after_value <= 0:
                continue
            ratio = after_value / before_value
            changes.append((max(ratio, 1 / ratio), name, before_value, after_value))
        changes.sort(key=lambda change: (-change[0], change[1]))
        if changes and changes[0][0] > 1.05:
            _, name, old, new = changes[0]
            parts.append(f"{name.replace('_', ' ')} went from {old:.4g} to {new:.4g}")
    return "; ".join(parts)
