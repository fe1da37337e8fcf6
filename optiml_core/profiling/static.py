"""A profile from the source and the compiler alone, for kernels that cannot run here."""

from __future__ import annotations

import math

from optiml_core.profiling.traffic import SECTOR
from optiml_core.records import AccessCounts, Kernel, Profile, ResourceUsage
from optiml_core.source import MemoryAccess, TranslationUnit, accesses
from optiml_core.toolchain import GpuFacts

LANES = 32
BANKS = 32


def static_profile(unit: TranslationUnit, kernel: Kernel, resources: ResourceUsage | None, gpu: GpuFacts) -> Profile:
    """What is known without a run: resource usage, and what one request of each access with an affine index costs.

    Each such access counts as one request of a full warp along threadIdx.x, so that its sectors and wavefronts are
    those of a request; how often it runs is not known, so there is no time.
    """
    known = [counts for access in accesses(unit, kernel) if (counts := request_of(access)) is not None]
    on_global = [counts for counts in known if counts.space == "global"]
    metrics: dict[str, float] = {}
    if on_global:
        metrics["global_requests"] = float(len(on_global))
        metrics["global_sectors"] = float(sum(counts.sectors for counts in on_global))
        metrics["global_ideal_sectors"] = float(sum(counts.ideal_sectors for counts in on_global))
    return Profile(
        kernel=kernel.qualified,
        target=gpu.name,
        origin="static",
        time=None,
        time_kind=None,
        metrics=metrics,
        line_metrics={},
        accesses=tuple(known),
        resources=resources,
    )


def request_of(access: MemoryAccess) -> AccessCounts | None:
    """One request of a warp whose lanes follow threadIdx.x; None where the index or the element's size is not known.

    A stride that is not a number (a row's length, say) counts as a long one.
    """
    if access.affine is None or not access.size or access.space not in ("global", "shared"):
        return None
    coefficient = access.affine.coefficient("threadIdx.x")
    if coefficient is None:
        return None
    stride = access.size * abs(coefficient.value) if coefficient.value is not None else None
    line = access.range.start_line
    moved = LANES * access.size
    if access.space == "global":
        reach = LANES * SECTOR if stride is None else (LANES - 1) * stride + access.size
        each = max(1, access.size // SECTOR)
        sectors = min(LANES * each, math.ceil(reach / SECTOR)) if stride != 0 else each
        ideal = math.ceil((access.size if stride == 0 else moved) / SECTOR)
        return AccessCounts(
            line, access.kind, "global", access.size, 1, LANES, moved, sectors, ideal, buffer=access.array
        )
    if stride is None or stride % 4 or access.size > 4:
        return None
    words = stride // 4
    degree = math.gcd(words, BANKS) if words else 1
    return AccessCounts(
        line, access.kind, "shared", access.size, 1, LANES, moved, wavefronts=degree, ideal_wavefronts=1,
        max_degree=degree, buffer=access.array,
    )  # fmt: skip
