"""Cache shares, reuse curves, sharing between blocks, traffic by level."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.profiling.traffic import (
    CacheShares,
    SiteTraffic,
    buffer_sharing,
    cache_shares,
    cache_traffic,
    curve_at,
    first_touches,
    scaled,
    written_back,
)
from optiml_core.records import AccessCounts, Failure
from optiml_core.toolchain import GpuFacts, gpu_facts


def h200() -> GpuFacts:
    facts = gpu_facts("H200")
    assert not isinstance(facts, Failure)
    return facts


GPU = h200()


def curve(*steps: tuple[int, float]) -> tuple[int, ...]:
    """A curve of 21 entries from (exponent, count): each count holds from its exponent on."""
    values, current = [], 0.0
    known = dict(steps)
    for exponent in range(21):
        current = known.get(exponent, current)
        values.append(int(current))
    return tuple(values)


def load(
    buffer: str = "x",
    sectors: int = 4000,
    requests: int = 1000,
    reuse: tuple[int, ...] | None = None,
    distinct: int | None = None,
    kind: str = "load",
    other_warp: int = 0,
) -> AccessCounts:
    reuse = reuse if reuse is not None else curve((0, sectors))
    return AccessCounts(
        7, kind, "global", 4, requests, requests * 32, requests * 128, sectors, sectors, lines=requests, buffer=buffer,  # type: ignore[arg-type]
        distinct_sectors=reuse[-1] if distinct is None else distinct, other_warp=other_warp, sector_reuse=reuse,
        request_reuse=tuple(min(requests, entry) for entry in reuse),
    )  # fmt: skip


SHARES = CacheShares(l1_lines=1024, l2_lines=4096, resident_blocks=100)


def traffic(
    *accesses: AccessCounts, sizes: dict[str, int] | None = None, warm: bool = False, **more: object
) -> list[SiteTraffic]:
    sharing = buffer_sharing(accesses, first_touches(accesses), sizes or {}, SHARES, int(more.pop("blocks_run", 1)))  # type: ignore[call-overload]
    return list(cache_traffic(accesses, sharing, SHARES, GPU, warm, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "missed"),
    [(1, 1000), (16, 1000), (32, 100), (64, 100), (22.627, 550), (1 << 30, 100), (0.1, 1000)],
)
def test_a_curve_is_read_between_its_entries(lines: float, missed: float) -> None:
    assert curve_at(curve((0, 1000), (5, 100)), lines) == pytest.approx(missed, rel=0.01)


@given(st.lists(st.integers(0, 10**9), min_size=21, max_size=21), st.floats(1, 1e9), st.floats(1, 1e9))
def test_a_larger_cache_never_misses_more(values: list[int], one: float, other: float) -> None:
    falling = sorted(values, reverse=True)
    small, large = sorted((one, other))
    assert curve_at(falling, large) <= curve_at(falling, small) + 1e-6


@pytest.mark.parametrize(
    ("blocks", "per_multiprocessor", "shared", "l1_lines"),
    [
        (10_000, 8, 0, 256 * 1024 / 128 / 8),
        (132, 8, 0, 256 * 1024 / 128),  # one block each, whatever would fit
        (10_000, 2, 40 << 10, (256 - 96) * 1024 / 128 / 2),
        (10_000, 1, 227 << 10, (256 - 256 + 16) * 1024 / 128),
    ],
)
def test_blocks_divide_the_caches(blocks: int, per_multiprocessor: int, shared: int, l1_lines: float) -> None:
    shares = cache_shares(GPU, blocks, per_multiprocessor, shared)
    assert shares.l1_lines == l1_lines
    assert shares.resident_blocks == min(blocks, per_multiprocessor * 132)


def test_scaling_keeps_what_was_not_watched_apart() -> None:
    access = AccessCounts(7, "load", "global", 4, 10, 320, 1280, 40)
    assert scaled(access, 3.0).requests == 30
    assert scaled(access, 3.0).distinct_sectors == -1
    assert scaled(load(), 2.0).sector_reuse[-1] == 8000


def test_a_stream_goes_to_dram_once_and_every_request_waits() -> None:
    # 10 M sectors are 320 MB: more than L2.
    (site,) = traffic(load(sectors=10_000_000, requests=2_500_000))
    assert (site.l2_sectors, site.dram_sectors) == (10_000_000, 10_000_000)
    assert (site.l2_share, site.dram_share) == (1.0, 1.0)


@pytest.mark.parametrize(("warm", "dram"), [(False, 4000), (True, 0)])
def test_what_fits_in_l2_comes_from_dram_the_first_time_only(warm: bool, dram: int) -> None:
    (site,) = traffic(load(), warm=warm)
    assert site.l2_sectors == 4000
    assert site.dram_sectors == dram


def test_reuse_within_reach_of_l1_stays_there() -> None:
    # Each sector is used eight times, at most 32 lines apart.
    (site,) = traffic(load(sectors=8000, requests=1000, reuse=curve((0, 8000), (5, 1000))))
    assert site.l2_sectors == 1000
    assert site.lines == 1000


def test_reuse_beyond_the_share_of_l2_goes_to_dram_again() -> None:
    # Three passes over rows that are longer than a block's share of L2.
    far = load(sectors=30_000_000, requests=7_500_000, reuse=curve((0, 30_000_000), (20, 10_000_000)))
    near = load(sectors=30_000_000, requests=7_500_000, reuse=curve((0, 30_000_000), (11, 10_000_000)))
    assert traffic(far)[0].dram_sectors == pytest.approx(30_000_000)
    assert traffic(near)[0].dram_sectors == pytest.approx(10_000_000)


def test_blocks_that_share_a_buffer_fetch_it_together() -> None:
    # Each of the blocks touches the whole buffer of 3.2 M sectors; another buffer makes the launch larger than L2.
    shared = load("b", sectors=320_000_000, requests=80_000_000)
    other = load("a", sectors=10_000_000, requests=2_500_000)
    site = traffic(shared, other, sizes={"b": 3_200_000 * 32})[0]
    assert site.l2_sectors == 320_000_000
    assert site.dram_sectors == pytest.approx(3_200_000)


def test_scattered_meetings_are_not_sharing() -> None:
    # Blocks meet eight times a sector over the launch, but neighbours have nothing in common.
    gathered = load("x", sectors=16_000_000, requests=500_000)
    sizes = {"x": 2_000_000 * 32}
    together = traffic(gathered, sizes=sizes, blocks_run=1)[0]
    scattered = traffic(gathered, sizes=sizes, blocks_run=5)[0]
    assert together.dram_sectors == pytest.approx(2_000_000)
    assert scattered.dram_sectors > 4 * together.dram_sectors
    overlapping = evolve(gathered, distinct_sectors=8_000_000)
    assert traffic(overlapping, sizes=sizes, blocks_run=5)[0].dram_sectors == pytest.approx(2_000_000)


@pytest.mark.parametrize(("other_warp", "share"), [(0, 0.0625), (15_000, 0.47)])
def test_warps_that_ask_for_one_line_wait_together(other_warp: int, share: float) -> None:
    access = load(sectors=16_000, requests=16_000, reuse=curve((0, 16_000), (5, 1000)), other_warp=other_warp)
    site = traffic(access, warps_per_block=8.0)[0]
    assert site.l2_share == pytest.approx(share, abs=0.01)


def test_stores_and_atomics_go_through_to_l2() -> None:
    store, atomic = traffic(load(kind="store"), load("y", kind="atomic"))
    assert store.l2_sectors == atomic.l2_sectors == 4000


def test_what_is_stored_twice_far_apart_is_written_back_twice() -> None:
    big = 10_000_000
    once = traffic(load("y", sectors=big, requests=big // 4, kind="store"))
    assert written_back(once) == big
    # The second store follows a load of the same sectors, after the first ones have left L2.
    twice = traffic(
        load("y", sectors=big, requests=big // 4, kind="store"),
        load("y", sectors=big, requests=big // 4, reuse=curve((0, big), (20, 0))),
        load("y", sectors=big, requests=big // 4, reuse=curve((0, 0)), kind="store"),
    )
    assert written_back(twice) == pytest.approx(2 * big)
    read_only = traffic(load("x", sectors=big, requests=big // 4))
    assert written_back(read_only) == 0
