"""Rewrites as proposals: which steps a node invites, how promising each is, and applying one.

Priors: a rewrite that answers a finding gets that finding's estimated gain, shared among its options in their
order; a rewrite no finding asks for keeps a small prior, so that the tree may still try it late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import evolve

from optiml_core.records import Edit, Failure, Finding, Kernel, Launch, Step, Variant
from optiml_core.rewrites import CATALOGUE, Option, OutsideLaunch, Refusal, Rewrite, RewriteContext
from optiml_core.search.callers import launches_of
from optiml_core.search.records import Proposal
from optiml_core.source import SourceFile, TranslationUnit, apply_edits, parse
from optiml_core.toolchain import GpuFacts
from optiml_core.workload import Workload

BACKGROUND_PRIOR = 0.05
OPTION_DECAY = 0.6  # each further option of one rewrite is this much less likely
SEVERITY_WEIGHT = {"high": 1.0, "medium": 0.5, "low": 0.25}


def rewrite_prior(rewrite: Rewrite, findings: tuple[Finding, ...]) -> tuple[float, str]:
    """The prior of a rewrite and the finding's message behind it (empty without one)."""
    best, message = BACKGROUND_PRIOR, ""
    for finding in findings:
        if rewrite.name not in finding.rewrites and finding.kind not in rewrite.answers:
            continue
        gain = math.log(max(finding.estimated_gain or 1.1, 1.01))
        # The finding's own list is ordered: the rewrite named first is the one that answers it best.
        rank = finding.rewrites.index(rewrite.name) if rewrite.name in finding.rewrites else len(finding.rewrites)
        value = (SEVERITY_WEIGHT[finding.severity] + gain) * 0.7**rank
        if value > best:
            best, message = value, finding.message
    return best, message


def rewrite_context(
    variant: Variant,
    unit: TranslationUnit,
    kernel: Kernel,
    workload: Workload,
    launch: Launch,
    findings: tuple[Finding, ...],
    allow: frozenset[str],
    gpu: GpuFacts,
    other_files: Mapping[str, bytes],
) -> RewriteContext:
    """What a rewrite is given. ``other_files`` are the workspace's files that were searched for launches."""
    outside = []
    changed = dict(variant.companions)
    for path, data in sorted(other_files.items()):
        other = parse(SourceFile(path, changed.get(path, data)))
        outside += [OutsideLaunch(other, site) for site in launches_of(kernel, other)]
    return RewriteContext(unit, kernel, workload, launch, findings, allow, gpu, tuple(outside), variant.launch_change)


def propose_rewrites(context: RewriteContext, only: tuple[str, ...] = ()) -> tuple[Proposal, ...]:
    """All options of the catalogue as proposals, in a fixed order; refusals simply propose nothing.

    ``only``: names of the rewrites to look at; empty means all.
    """
    proposals = []
    for rewrite in CATALOGUE:
        if only and rewrite.name not in only:
            continue
        options = rewrite.options(context)
        if isinstance(options, Refusal):
            continue
        prior, message = rewrite_prior(rewrite, context.findings)
        for index, option in enumerate(options):
            rationale = "; ".join(part for part in (message, option.note) if part)
            proposals.append(Proposal(rewrite.name, dict(option.parameters), rationale, prior * OPTION_DECAY**index))
    return tuple(proposals)


def apply_proposal(
    variant: Variant, proposal: Proposal, context: RewriteContext, other_files: Mapping[str, bytes]
) -> Variant | Failure:
    """The variant with one more step, or why the step does not apply."""
    if proposal.replacement is not None:
        step = Step(proposal.name, dict(proposal.parameters), proposal.rationale, proposal.proposer)
        return evolve(variant, data=proposal.replacement, steps=(*variant.steps, step))
    rewrite = next((entry for entry in CATALOGUE if entry.name == proposal.name), None)
    if rewrite is None:
        return Failure("refused", f"there is no rewrite called {proposal.name}")
    rewritten = rewrite.apply(context, Option(dict(proposal.parameters)))
    if isinstance(rewritten, Refusal):
        return Failure("refused", rewritten.reason)
    companions = _companions(variant, rewritten.edits, other_files)
    if isinstance(companions, Failure):
        return companions
    data = apply_edits(variant.data, [edit for edit in rewritten.edits if edit.file == variant.file])
    if isinstance(data, Failure):
        return data
    if data == variant.data and rewritten.launch_change == variant.launch_change:
        return Failure("refused", f"{rewrite.name} changes nothing here")
    step = Step(proposal.name, dict(proposal.parameters), rewritten.rationale or proposal.rationale)
    return evolve(
        variant,
        data=data,
        launch_change=rewritten.launch_change,
        steps=(*variant.steps, step),
        not_checked=tuple(dict.fromkeys((*variant.not_checked, *rewritten.not_checked))),
        companions=companions,
    )


def _companions(
    variant: Variant, edits: tuple[Edit, ...], other_files: Mapping[str, bytes]
) -> tuple[tuple[str, bytes], ...] | Failure:
    """The other files with a step's edits of their launches applied. They are host code: shown, never run."""
    changed = dict(variant.companions)
    for path in sorted({edit.file for edit in edits if edit.file != variant.file}):
        before = changed.get(path, other_files.get(path))
        if before is None:
            return Failure("refused", f"{path} would have to change too, and it was not searched")
        after = apply_edits(before, [edit for edit in edits if edit.file == path])
        if isinstance(after, Failure):
            return after
        changed[path] = after
    return tuple(sorted(changed.items()))
