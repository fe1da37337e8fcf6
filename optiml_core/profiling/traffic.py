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
# Neighbouring blocks that have less than this of a buffer's sectors in common do not share it.
LEAST_OVERLAP = 0.05
# DRAM is read 64 bytes at a time; of a scattered sector only half of that is wanted.
SCATTERED_FETCH = 2.0


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
        other_warp=times(access.other_warp),
        sector_reuse=tuple(times(entry) for entry in access.sector_reuse),
        request_reuse=tuple(times(entry) for entry in access.request_reuse),
    )


def lines_of(access: AccessCounts) -> float:
    """128-byte lines of all requests: counted, else what the sectors need at least."""
    if access.lines:
        return float(access.lines)
    return max(float(access.requests), access.sectors / 4)


@frozen
class Sharing:
    """How the blocks of a launch share one buffer.

    ``blocks``: resident blocks that touch the same sector at about the same time (at least 1).
    ``distinct_share``: distinct sectors over the sum of what each block touches. ``scattered``: blocks
    do meet at the same sectors over the launch, but not neighbouring blocks.
    """

    blocks: float
    distinct_share: float
    scattered: bool


def first_touches(accesses: Sequence[AccessCounts]) -> dict[str, float]:
    """Sectors that each block touches at least once, summed over blocks, by buffer of global memory."""
    touched: dict[str, float] = {}
    for access in accesses:
        if access.space in ("global", "module"):
            cold = access.sector_reuse[-1] if access.sector_reuse else access.sectors
            touched[access.buffer] = touched.get(access.buffer, 0.0) + cold
    return touched


def buffer_sharing(
    sampled: Sequence[AccessCounts],
    touched: Mapping[str, float],
    buffer_bytes: Mapping[str, int],
    shares: CacheShares,
    blocks_run: int,
) -> dict[str, Sharing]:
    """Sharing by buffer. ``sampled``: counts of the blocks that ran, which contain neighbours; ``touched``:
    first touches scaled to the launch; ``buffer_bytes``: the most that can be distinct."""
    own = first_touches(sampled)
    result = {}
    for name, cold in touched.items():
        distinct = min(cold, max(1.0, buffer_bytes[name] / SECTOR)) if name in buffer_bytes else cold
        meetings = cold / distinct if distinct else 1.0
        known = [a.distinct_sectors for a in sampled if a.buffer == name and a.distinct_sectors >= 0]
        overlap = 1.0 - sum(known) / own[name] if known and own.get(name) else 1.0
        scattered = blocks_run >= 3 and meetings >= 2.0 and overlap < LEAST_OVERLAP
        together = 1.0 if scattered else max(1.0, min(meetings, shares.resident_blocks))
        result[name] = Sharing(together, distinct / cold if cold else 1.0, scattered)
    return result


def cache_traffic(
    accesses: Sequence[AccessCounts],
    sharing: Mapping[str, Sharing],
    shares: CacheShares,
    gpu: GpuFacts,
    warm: bool,
    warps_per_block: float = 1.0,
) -> tuple[SiteTraffic, ...]:
    """Traffic of each global access site of a launch; ``accesses`` are scaled to the whole launch.

    ``warm``: the launch follows another one on the same data, so that what fits in L2 is there already.
    """
    touched = first_touches(accesses)
    footprint = SECTOR * sum(cold * sharing[name].distinct_share for name, cold in touched.items())
    held = min(1.0, L2_SHARE * gpu.l2_bytes / footprint) if footprint else 1.0
    return tuple(
        _site(access, shares, sharing[access.buffer], held, warm, warps_per_block)
        for access in accesses
        if access.space in ("global", "module")
    )


def _with_company(missing: float, access: AccessCounts, warps_per_block: float) -> float:
    """Requests that wait for a miss: their own, or that of another warp which asked for the line just before."""
    shared = max(0, access.other_warp)
    accompanied = missing * (1.0 + (warps_per_block - 1.0) * shared / max(1, access.requests))
    return min(accompanied, missing + shared)


def _site(
    access: AccessCounts, shares: CacheShares, sharing: Sharing, held: float, warm: bool, warps_per_block: float
) -> SiteTraffic:
    """``held``: the part of the launch's footprint that L2 can hold, 1 when all of it fits."""
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
    lines = shares.l2_lines * sharing.blocks
    beyond = min(curve_at(access.sector_reuse, lines), l2) if watched else l2
    beyond_requests = min(curve_at(access.request_reuse, lines), l2_requests) if watched else l2_requests
    own_distinct = cold * sharing.distinct_share
    if held >= 1.0:
        dram = 0.0 if warm else own_distinct
    elif sharing.scattered:
        # Whoever comes later finds a sector with the chance that L2 still holds it.
        dram = own_distinct + max(0.0, beyond - own_distinct) * (1.0 - held)
    else:
        # What resident blocks share, the first to come fetches.
        dram = max(own_distinct, beyond / sharing.blocks)
    share = min(1.0, dram / beyond) if beyond > 0 else 0.0
    dram_requests = beyond_requests * share
    if access.kind == "load":
        l2_requests = _with_company(l2_requests, access, warps_per_block)
        dram_requests = _with_company(dram_requests, access, warps_per_block)
        dram = min(dram, l2)
        if sharing.scattered:
            dram *= SCATTERED_FETCH
    return SiteTraffic(
        access, lines_of(access), l2, dram, min(1.0, l2_requests / requests), min(1.0, dram_requests / requests)
    )


def written_back(sites: Sequence[SiteTraffic]) -> float:
    """Sectors that L2 writes back to DRAM: a sector is written as often as it was fetched or made anew and then
    changed, and no more often than it was stored."""
    fetched: dict[str, float] = {}
    stored: dict[str, float] = {}
    for site in sites:
        name = site.counts.buffer
        fetched[name] = fetched.get(name, 0.0) + site.dram_sectors
        if site.counts.kind != "load":
            stored[name] = stored.get(name, 0.0) + site.counts.sectors
    return sum(min(fetched[name], count) for name, count in stored.items())
