"""Synthetic noise in, known answers out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.measurement.statistics import (
    RatioInterval,
    StoppingRule,
    clock_step,
    count_outliers,
    order_plan,
    ratio_interval,
    speed_verdict,
    within_resolution,
)


def noisy_times(kind: str, generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Paired times of two equal kernels of 1 ms under one kind of noise."""
    drift = np.exp(0.002 * np.cumsum(generator.standard_normal(n)))  # shared by both sides of a pair
    shape = (2, n)
    if kind == "normal":
        noise = 1 + 0.02 * generator.standard_normal(shape)
    elif kind == "heavy-tailed":
        noise = 1 + 0.01 * np.abs(generator.standard_t(2, size=shape))
    elif kind == "spikes":
        noise = 1 + 0.005 * generator.standard_normal(shape) + (generator.random(shape) < 0.05) * 1.5
    else:  # two clock states
        noise = np.where(generator.random(shape) < 0.3, 1.06, 1.0) * (1 + 0.003 * generator.standard_normal(shape))
    both = 1e-3 * drift * noise
    return both[0], both[1]


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "spikes", "two clocks"])
@pytest.mark.parametrize("n", [10, 25])
def test_of_100_comparisons_with_itself_at_least_92_contain_one(kind: str, n: int) -> None:
    hits = 0
    for trial in range(100):
        a, b = noisy_times(kind, np.random.default_rng([trial, n]), n)
        interval = ratio_interval(a, b, seed=trial)
        hits += interval.low <= 1.0 <= interval.high
    assert hits >= 92


def test_the_interval_is_not_wide_for_nothing() -> None:
    """Coverage alone would be met by an interval without end: at 2 % noise, 25 pairs know it to 2 %."""
    widths = []
    for trial in range(30):
        a, b = noisy_times("normal", np.random.default_rng([trial, 1]), 25)
        widths.append(ratio_interval(a, b, seed=trial).half_width)
    assert float(np.median(widths)) < 0.02


@pytest.mark.parametrize("kind", ["normal", "heavy-tailed", "spikes", "two clocks"])
@pytest.mark.parametrize("factor", [0.8, 1.25, 3.0])
def test_a_true_difference_is_found_and_covered(kind: str, factor: float) -> None:
    covered = 0
    for trial in range(40):
        a, b = noisy_times(kind, np.random.default_rng([trial, 7]), 20)
        interval = ratio_interval(a * factor, b, seed=trial)
        covered += interval.low <= factor <= interval.high
        assert speed_verdict(interval, StoppingRule()) == ("faster" if factor > 1 else "slower")
    assert covered >= 36


def test_adaptive_stopping_keeps_the_coverage() -> None:
    """The rule looks at the width only, so stopping early must not make equal kernels differ."""
    hits = 0
    for trial in range(100):
        a, b = noisy_times("normal", np.random.default_rng([trial, 3]), 100)
        rule, interval, done = StoppingRule(half_width=0.012), None, 0
        while more := rule.next_round(interval, done):
            done += more
            interval = ratio_interval(a[:done], b[:done], seed=trial)
        assert interval is not None
        hits += interval.low <= 1.0 <= interval.high
    assert hits >= 92


def test_a_drift_that_both_share_does_not_widen_the_interval() -> None:
    generator = np.random.default_rng(5)
    drift = np.linspace(1.0, 2.0, 30)
    a = 1e-3 * drift * (1 + 0.001 * generator.standard_normal(30))
    b = 1e-3 * drift * (1 + 0.001 * generator.standard_normal(30))
    assert ratio_interval(a, b).half_width < 0.002


def test_one_wild_pair_moves_little_and_is_counted() -> None:
    generator = np.random.default_rng(6)
    a = 1e-3 * (1 + 0.005 * generator.standard_normal(20))
    b = 1e-3 * (1 + 0.005 * generator.standard_normal(20))
    clean = ratio_interval(a, b)
    a[3] *= 50
    spoiled = ratio_interval(a, b)
    assert spoiled.outliers == 1
    assert abs(spoiled.ratio - clean.ratio) < 0.005


def test_identical_times_give_a_ratio_of_exactly_one() -> None:
    same = np.full(10, 2e-6)
    interval = ratio_interval(same, same)
    assert (interval.ratio, interval.low, interval.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("original", "candidate"),
    [
        ([1.0] * 4, [1.0] * 5),
        ([1.0] * 3, [1.0] * 3),
        ([1.0, 1.0, 1.0, 0.0], [1.0] * 4),
        ([1.0, 1.0, 1.0, float("nan")], [1.0] * 4),
        ([1.0, 1.0, 1.0, -1.0], [1.0] * 4),
    ],
)
def test_unusable_times_are_refused(original: list[float], candidate: list[float]) -> None:
    with pytest.raises(ValueError, match="times"):
        ratio_interval(np.asarray(original), np.asarray(candidate))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=4, max_size=30),
    st.floats(1e-3, 1e3),
    st.integers(0, 2**31),
)
def test_swapping_the_sides_inverts_the_ratio_and_units_do_not_matter(
    times: list[float], unit: float, seed: int
) -> None:
    a = np.asarray(times)
    b = np.asarray(list(reversed(times))) * 1.5
    forward, backward = ratio_interval(a, b, seed), ratio_interval(b, a, seed)
    assert forward.low <= forward.ratio <= forward.high
    assert forward.ratio == pytest.approx(1 / backward.ratio, rel=1e-9)
    scaled = ratio_interval(a * unit, b * unit, seed)
    assert scaled.ratio == pytest.approx(forward.ratio, rel=1e-9)


@pytest.mark.parametrize(("rounds", "seed"), [(1, 0), (2, 1), (7, 2), (100, 3)])
def test_the_order_is_balanced_and_reproducible(rounds: int, seed: int) -> None:
    plan = order_plan(rounds, seed)
    assert len(plan) == rounds
    assert plan == order_plan(rounds, seed)
    original_first = sum(pair[0] == "original" for pair in plan)
    assert abs(2 * original_first - rounds) <= 1
    assert all(set(pair) == {"original", "candidate"} for pair in plan)


def test_the_order_is_not_a_fixed_alternation() -> None:
    firsts = [pair[0] for pair in order_plan(40, 0)]
    assert any(a == b for a, b in itertools.pairwise(firsts))
    assert order_plan(40, 0) != order_plan(40, 1)


@pytest.mark.parametrize(
    ("values", "count"),
    [([1, 1, 1], 0), ([1, 2, 3, 4, 5], 0), ([1, 2, 3, 4, 100], 1), ([-90, 1, 2, 3, 4, 100], 2)],
)
def test_outliers_are_counted(values: list[float], count: int) -> None:
    assert count_outliers(np.asarray(values, dtype=float)) == count


@pytest.mark.parametrize(
    ("interval", "noise", "verdict"),
    [
        ((1.10, 1.08, 1.12), 0.0, "faster"),
        ((0.90, 0.88, 0.92), 0.0, "slower"),
        ((1.00, 0.995, 1.005), 0.0, "same"),
        ((1.10, 0.90, 1.30), 0.0, "inconclusive"),
        ((1.02, 1.01, 1.03), 0.03, "same"),
        ((0.98, 0.97, 0.99), 0.04, "same"),
        ((1.00, 1.00, 1.00), 0.0, "same"),
    ],
)
def test_verdicts(interval: tuple[float, float, float], noise: float, verdict: str) -> None:
    assert speed_verdict(RatioInterval(*interval, samples=20, outliers=0), StoppingRule(), noise) == verdict


@pytest.mark.parametrize(
    ("half_width", "done", "more"),
    [(None, 0, 10), (None, 4, 6), (0.5, 10, 5), (0.005, 10, 0), (0.5, 98, 2), (0.5, 100, 0)],
)
def test_stopping(half_width: float | None, done: int, more: int) -> None:
    interval = None if half_width is None else RatioInterval(1.0, 1 - half_width, 1 + half_width, max(done, 4), 0)
    assert StoppingRule().next_round(interval, done) == more


@pytest.mark.parametrize(
    ("times", "step"),
    [
        ([6.40e-6, 6.43e-6, 6.40e-6, 6.46e-6], 0.03e-6),
        ([1.0, 1.0, 1.0], 0.0),
        ([1.0, 1.0 + 1e-9, 2.0], 1.0 - 1e-9),  # what rounding does is no step
    ],
)
def test_steps_of_a_clock(times: list[float], step: float) -> None:
    assert clock_step(np.asarray(times)) == pytest.approx(step, rel=1e-6, abs=1e-12)


def test_a_difference_below_the_clocks_step_is_none() -> None:
    """trust: wins smaller than the resolution are not claimed, however many pairs agree on them."""
    generator = np.random.default_rng(0)
    step = 32e-9

    def read(true: float) -> np.ndarray:
        return np.round((true + 4e-9 * generator.standard_normal(60)) / step) * step

    original, candidate = read(6.412e-6), read(6.404e-6)  # the truth differs by a quarter of a step
    plain = ratio_interval(original, candidate)
    wide = within_resolution(plain, original, candidate)
    assert wide.low < 1.0 < wide.high
    assert wide.half_width == pytest.approx(plain.half_width + step / 6.4e-6, rel=0.1)


def test_a_fine_clock_changes_nothing() -> None:
    original, candidate = noisy_times("normal", np.random.default_rng(3), 50)
    plain = ratio_interval(original, candidate)
    assert within_resolution(plain, original, candidate).half_width == pytest.approx(plain.half_width, rel=0.01)
