"""Which bytes of a launch L1, L2 and DRAM serve, from counts and reuse curves of sampled blocks.

A reuse curve says what a cache of any size misses within one block. Blocks share caches: a block has
its part of L1 (divided by the blocks resident on its multiprocessor) and of L2 (divided by all
resident blocks, multiplied by how many of them touch the same data). What several resident blocks
miss together comes from DRAM once. Ours; the model is deliberately simple, and benchmarks/results/
prediction.md shows how far it carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from optiml_core.records import AccessCounts
from optiml_core.toolchain import GpuFacts

LINE = 128
SECTOR = 32
# Shared memory is carved out of L1 in steps (Tuning Guides of 8.0 to 9.0: 0, 8, 16, 32, 64, 100, ...).
CARVE_OUT_STEP = 32 << 10
SMALLEST_L1 = 16 << 10
# Hashing and other kernels' data leave about this much of L2 to keep something until it is used again.
L2_SHARE = 0.7


@frozen
class SiteTraffic:
    """One access site, scaled to the launch.

    ``lines``: look-ups in L1. ``l2_sectors`` and ``dram_sectors``: 32-byte sectors that leave L1 and L2.
    ``l2_share`` and ``dram_share``: the part of the requests that wait for L2, for DRAM (0..1).
    """

    counts: AccessCounts
    lines: float
    l2_sectors: float
    dram_sectors: float
    l2_share: float
    dram_share: float


@frozen
class CacheShares:
    """Lines of L1 and of L2 (before sharing) that one resident block has, and how many blocks are resident."""

    l1_lines: float
    l2_lines: float
    resident_blocks: float


def cache_shares(gpu: GpuFacts, blocks: int, blocks_per_multiprocessor: int, shared_per_block: int) -> CacheShares:
    """How the caches divide among the blocks that run at the same time. ``shared_per_block`` in bytes."""
    on_one = max(1, min(blocks_per_multiprocessor, math.ceil(blocks / gpu.multiprocessors)))
    shared = on_one * (shared_per_block + gpu.reserved_shared_per_block) if shared_per_block else 0
    carved = math.ceil(shared / CARVE_OUT_STEP) * CARVE_OUT_STEP
    l1 = max(SMALLEST_L1, gpu.l1_bytes - carved)
    resident = max(1, min(blocks, blocks_per_multiprocessor * gpu.multiprocessors))
    return CacheShares(l1 / LINE / on_one, L2_SHARE * gpu.l2_bytes / LINE / resident, float(resident))


def curve_at(curve: Sequence[float], lines: float) -> float:
    """What a cache of ``lines`` misses: entry k of ``curve`` is for 2**k lines, the last for endless ones."""
    if not curve:
        return 0.0
    last = len(curve) - 2
    position = min(max(math.log2(max(lines, 1.0)), 0.0), float(last))
    low = int(position)
    high = min(low + 1, last)
    weight = position - low
    return (1.0 - weight) * curve[low] + weight * curve[high]


def scaled(access: AccessCounts, factor: float) -> AccessCounts:
    """The counts of one site times ``factor``: from the blocks that were run to all of them."""

    def times(value: int) -> int:
        return round(value * factor) if value > 0 else value

    return evolve(
        access,
        requests=times(access.requests),
        lanes=times(access.lanes),
        bytes=times(access.bytes),
        sectors=times(access.sectors),
        ideal_sectors=times(access.ideal_sectors),
        wavefronts=times(access.wavefronts),
        ideal_wavefronts=times(access.ideal_wavefronts),
        same_address=times(access.same_address),
        lines=times(access.lines),
        distinct_sectors=times(access.distinct_sectors),
        sector_reuse=tuple(times(entry) for entry in access.sector_reuse),
        request_reuse=tuple(times(entry) for entry in access.request_reuse),
    )


def lines_of(access: AccessCounts) -> float:
    """128-byte lines of all requests: counted, else what the sectors need at least."""
    if access.lines:
        return float(access.lines)
    return max(float(access.requests), access.sectors / 4)


def cache_traffic(
    accesses: Sequence[AccessCounts],
    shares: CacheShares,
    gpu: GpuFacts,
    buffer_bytes: Mapping[str, int],
    warm: bool,
) -> tuple[SiteTraffic, ...]:
    """Traffic of each global access site of a launch; ``accesses`` are scaled to the whole launch.

    ``buffer_bytes``: sizes of the arguments, the most that can be distinct. ``warm``: the launch follows
    another one on the same data, so that what fits in L2 is there already.
    """
    sites = [access for access in accesses if access.space in ("global", "module")]
    per_block: dict[str, float] = {}  # sectors that each block touches at least once, summed over blocks
    for access in sites:
        cold = access.sector_reuse[-1] if access.sector_reuse else access.sectors
        per_block[access.buffer] = per_block.get(access.buffer, 0.0) + cold
    distinct = {
        name: min(cold, max(1.0, buffer_bytes[name] / SECTOR)) if name in buffer_bytes else cold
        for name, cold in per_block.items()
    }
    footprint = SECTOR * sum(distinct.values())
    fits = footprint <= L2_SHARE * gpu.l2_bytes
    result = []
    for access in sites:
        name = access.buffer
        sharing = min(per_block[name] / distinct[name], shares.resident_blocks) if distinct[name] else 1.0
        result.append(_site(access, shares, max(1.0, sharing), fits, warm, per_block[name], distinct[name]))
    return tuple(result)


def _site(
    access: AccessCounts,
    shares: CacheShares,
    sharing: float,
    fits: bool,
    warm: bool,
    per_block: float,
    distinct: float,
) -> SiteTraffic:
    requests = max(1.0, float(access.requests))
    watched = bool(access.sector_reuse)
    if access.kind == "load" and access.space != "module":
        l2 = curve_at(access.sector_reuse, shares.l1_lines) if watched else float(access.sectors)
        l2_requests = curve_at(access.request_reuse, shares.l1_lines) if watched else requests
    elif access.kind == "load":
        l2 = l2_requests = 0.0  # Constants come from their own cache.
    else:
        # Stores go through to L2 and atomics are done there.
        l2, l2_requests = float(access.sectors), requests
    cold = float(access.sector_reuse[-1]) if watched else l2
    beyond = curve_at(access.sector_reuse, shares.l2_lines * sharing) if watched else l2
    beyond_requests = curve_at(access.request_reuse, shares.l2_lines * sharing) if watched else requests
    own_distinct = cold * (distinct / per_block if per_block else 1.0)
    # What resident blocks share, the first to come fetches.
    dram = max(own_distinct, min(beyond, l2) / sharing)
    if fits:
        dram = 0.0 if warm else own_distinct
    share = dram / min(beyond, l2) if min(beyond, l2) > 0 else 0.0
    dram_requests = min(l2_requests, beyond_requests) * min(1.0, share)
    return SiteTraffic(
        access, lines_of(access), l2, min(dram, l2) if access.kind == "load" else dram,
        min(1.0, l2_requests / requests), min(1.0, dram_requests / requests),
    )  # fmt: skip
