"""Lanes of a warp want different words of one bank of shared memory."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.records import Finding

KIND = "shared-bank-conflict"
LEAST_EXCESS = 1.5  # wavefronts over the ideal


def find(context: FindingContext) -> tuple[Finding, ...]:
    """One finding for each shared load or store that takes half as many passes again as it needs."""
    found = []
    for access in context.accesses(lambda a: a.space == "shared" and a.kind != "atomic" and a.ideal_wavefronts > 0):
        excess = access.wavefronts / access.ideal_wavefronts
        if excess < LEAST_EXCESS:
            continue
        metrics = context.metrics
        saved = float(access.wavefronts - access.ideal_wavefronts)
        warps = max(1.0, metrics.get("warps", 1.0))
        gain = context.gain_if(
            {"shared_cycles": max(0.0, metrics.get("shared_cycles", 0.0) - saved)}
            | context.with_shorter_warps(saved / warps)
        )
        message = f"{access.kind} of shared memory takes {excess:.1f} passes where 1 would do"
        evidence: dict[str, float | str] = {
            "wavefronts_per_request": access.wavefronts / max(1, access.requests),
            "ideal_wavefronts_per_request": access.ideal_wavefronts / max(1, access.requests),
            "worst_degree": float(access.max_degree),
        }
        finding = context.finding(KIND, access_range(context, access), message, evidence, gain, ("pad-shared",))
        found.append(in_line(finding, access.line))
    return without_duplicates(found)
