"""A profile from the source and the compiler alone, for kernels that cannot run here."""

from __future__ import annotations

from optiml_core.records import Kernel, Profile, ResourceUsage
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts


def static_profile(unit: TranslationUnit, kernel: Kernel, resources: ResourceUsage | None, gpu: GpuFacts) -> Profile:
    """What is known without a run: resource usage. No counts, so no time; findings that need none still work."""
    return Profile(
        kernel=kernel.qualified,
        target=gpu.name,
        origin="static",
        time=None,
        time_kind=None,
        metrics={},
        line_metrics={},
        resources=resources,
    )
