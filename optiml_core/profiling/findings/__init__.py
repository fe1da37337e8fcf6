"""Diagnosed bottlenecks, one module per kind: each looks at a profile and says where, how bad, and what answers."""

from __future__ import annotations

from collections.abc import Callable

from optiml_core.profiling.findings import (
    accidental_double,
    atomic_contention,
    barrier_bound,
    divergence,
    latency_bound_launch,
    low_occupancy,
    memory_latency,
    narrow_access,
    redundant_global_traffic,
    register_spill,
    repeated_pass,
    shared_bank_conflict,
    uncoalesced_access,
)
from optiml_core.profiling.findings.context import FindingContext, context_of
from optiml_core.records import Finding, Kernel, Launch, Profile
from optiml_core.source import TranslationUnit

FINDERS: tuple[Callable[[FindingContext], tuple[Finding, ...]], ...] = (
    uncoalesced_access.find,
    shared_bank_conflict.find,
    redundant_global_traffic.find,
    low_occupancy.find,
    register_spill.find,
    divergence.find,
    atomic_contention.find,
    latency_bound_launch.find,
    accidental_double.find,
    narrow_access.find,
    barrier_bound.find,
    memory_latency.find,
    repeated_pass.find,
)

_SEVERITY = {"high": 0, "medium": 1, "low": 2}


def find_findings(
    profile: Profile, unit: TranslationUnit, kernel: Kernel, launch: Launch | None
) -> tuple[Finding, ...]:
    """All findings of a profile, the most promising first. ``launch`` None: only what needs no launch."""
    context = context_of(profile, unit, kernel, launch)
    found = [finding for finder in FINDERS for finding in finder(context)]
    return tuple(
        sorted(found, key=lambda f: (_SEVERITY[f.severity], -(f.estimated_gain or 1.0), f.range.start_byte, f.kind))
    )
