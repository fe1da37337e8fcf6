"""The judge: reads the evidence before and after, diagnoses, and can veto. It never adds reward.

This is the rule-based judge, which works with no model. Each rule is a function from the evidence to a veto,
a flag or nothing. The rules come from trust.md's cases: a result too good to be true is refused, not celebrated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import field, frozen

from optiml_core.records import Measurement, Profile, Roofline, Verdict
from optiml_core.search.records import Judgement
from optiml_core.search.source_evidence import (
    APPROXIMATE_WORDS,
    NARROW_WORDS,
    SUSPECT_WORDS,
    added_numbers,
    added_words,
    lasting_state,
)


@frozen
class Evidence:
    """What is known of the original and of a variant. Never the proposer's own claims."""

    original: Profile | None
    variant: Profile | None
    measurement: Measurement
    original_roofline: Roofline | None
    roofline: Roofline | None
    verdict: Verdict
    original_source: str = ""
    variant_source: str = ""
    sizes: Mapping[str, int | float] = field(factory=dict)  # the workload's evaluated names


class Judge(Protocol):
    def review(self, evidence: Evidence) -> Judgement: ...


@frozen
class RuleJudgement:
    veto: str = ""
    flag: str = ""


Rule = Callable[[Evidence], RuleJudgement | None]

# A time this far below what the variant's own bytes allow cannot be explained by the model's own error.
FLOOR_TOLERANCE = 0.9
SECTOR_BYTES = 32

# Metrics of which less explains a gain, and of which more does (profiling's names).
COSTS = (
    *("dram_bytes", "l2_read_bytes", "l2_write_bytes", "global_sectors", "global_requests", "local_sectors"),
    *("shared_wavefronts", "l1_cycles", "shared_cycles", "warp_instructions", "warp_steps", "warp_cycles"),
    *("same_address_atomics", "atomic_cycles", "barriers", "divergent_branches", "fp64_cycles"),
)
# How many pairs were timed is said of every measurement.
ROUTINE_REMARK = re.compile(r"\d+ pairs of \d+ launches")
MEANS = ("achieved_occupancy", "warps", "busy_multiprocessors", "resident_blocks")


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
    if evidence.original is None or evidence.variant is None:
        return None
    compulsory = evidence.original.metrics.get("compulsory_bytes")
    sectors = evidence.variant.metrics.get("global_sectors")
    if compulsory is None or sectors is None or sectors * SECTOR_BYTES >= 0.5 * compulsory:
        return None
    text = f"touches {sectors * SECTOR_BYTES:.0f} bytes where inputs and outputs alone are {compulsory:.0f}"
    return RuleJudgement(veto=text)


def does_no_work(evidence: Evidence) -> RuleJudgement | None:
    """An empty kernel, or one whose work the compiler removed."""
    if evidence.variant is None or evidence.original is None:
        return None
    before = evidence.original.metrics.get("global_requests", 0.0)
    after = evidence.variant.metrics.get("global_requests")
    if after is not None and after == 0 and before > 0:
        return RuleJudgement(veto="the variant reads and writes nothing")
    return None


def gain_without_cause(evidence: Evidence) -> RuleJudgement | None:
    """A large gain must be visible in some counter, or in occupancy; else it is noise or a trick."""
    if evidence.original is None or evidence.variant is None or evidence.measurement.speedup < 1.5:
        return None
    comparable = False
    for name in COSTS:
        before, after = evidence.original.metrics.get(name), evidence.variant.metrics.get(name)
        if before is None or after is None:
            continue
        comparable = True
        if before > 0 and after < 0.9 * before:
            return None
    for name in MEANS:
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
    added = lasting_state(evidence.variant_source) - lasting_state(evidence.original_source)
    if not added:
        return None
    names = ", ".join(sorted(added))
    return RuleJudgement(veto=f"adds memory that outlives a launch ({names}): a result could be cached there")


def does_suspect_things(evidence: Evidence) -> RuleJudgement | None:
    """Streams, pinned cache lines, clocks, assembly: nothing that a faster kernel needs (trust.md 7 to 10)."""
    added = added_words(evidence.original_source, evidence.variant_source, SUSPECT_WORDS)
    if not added:
        return None
    return RuleJudgement(veto=f"adds {SUSPECT_WORDS[added[0]]} ({', '.join(added)})")


def computes_more_coarsely(evidence: Evidence) -> RuleJudgement | None:
    """Narrower types and approximate functions win time by losing digits (trust.md item 6)."""
    added = added_words(evidence.original_source, evidence.variant_source, NARROW_WORDS | APPROXIMATE_WORDS)
    if not added:
        return None
    return RuleJudgement(flag=f"computes with {', '.join(added)}, which the original does not use")


def knows_the_size(evidence: Evidence) -> RuleJudgement | None:
    """A size of the workload written into the code may hold for this workload alone (trust.md item 21)."""
    numbers = added_numbers(evidence.original_source, evidence.variant_source)
    known = sorted(name for name, value in evidence.sizes.items() if value in numbers and value > 64)
    if not known:
        return None
    return RuleJudgement(flag=f"the value of {', '.join(known)} stands in the code as a number")


def impossible_numbers(evidence: Evidence) -> RuleJudgement | None:
    """Times of zero, more than the whole of a ceiling, shares above one: the instrument is broken or fooled."""
    measurement = evidence.measurement
    for name, value in (("time", measurement.time), ("speedup", measurement.speedup)):
        if not math.isfinite(value) or value <= 0:
            return RuleJudgement(veto=f"a {name} of {value} cannot be")
    if measurement.low > measurement.speedup or measurement.high < measurement.speedup:
        return RuleJudgement(veto="the speedup lies outside its own interval")
    if evidence.roofline is not None and evidence.roofline.fraction > 1 / FLOOR_TOLERANCE:
        return RuleJudgement(veto=f"{evidence.roofline.fraction:.0%} of the roofline cannot be")
    occupancy = evidence.variant.metrics.get("achieved_occupancy") if evidence.variant is not None else None
    if occupancy is not None and not 0 <= occupancy <= 1.01:
        return RuleJudgement(veto=f"an occupancy of {occupancy:.2f} cannot be")
    return None


def timing_remarks(evidence: Evidence) -> RuleJudgement | None:
    """Whatever the measurement itself remarked: throttling, clocks that disagree, a busy GPU."""
    # A prediction says of itself that it is one; that is shown with it everywhere and needs no flag.
    if evidence.measurement.kind == "predicted":
        return None
    remarks = [note for note in evidence.measurement.notes if not ROUTINE_REMARK.match(note)]
    return RuleJudgement(flag="; ".join(remarks)) if remarks else None


RULES: tuple[Rule, ...] = (
    unequal_verdict,
    impossible_numbers,
    below_roofline_floor,
    does_no_work,
    moves_too_few_bytes,
    gain_without_cause,
    keeps_state_between_launches,
    does_suspect_things,
    computes_more_coarsely,
    knows_the_size,
    far_too_good,
    inconclusive_timing,
    timing_remarks,
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
        now = f"now by {after.bound_by} ({after.fraction:.0%} of the roofline)"
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
