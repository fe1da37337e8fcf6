"""Statistics of paired timings, as pure functions: order, outliers, interval, stopping, verdict.

Two versions are timed alternately, so that drift of clocks and temperature hits both alike. All
arithmetic is on the logarithm of the ratio original / candidate of each pair: a factor of two up
and a factor of two down then weigh the same.

The location is a trimmed mean and its interval is bootstrap-t with the winsorised standard error
(Yuen 1974; Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", section 4.4): unlike
the percentile bootstrap it keeps its coverage with ten samples and with heavy tails.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

Samples = npt.NDArray[np.float64]

TRIM = 0.2  # Share cut from each end; 20 % is Wilcox's general recommendation.
# Nominal level of the bootstrap. Stopping once the interval is narrow favours samples that look
# quieter than they are; the two points above 95 % pay for that.
LEVEL = 0.97
WIDEST = 50.0  # On the logarithm, so that an interval that knows nothing is still a finite number.
RESAMPLES = 999  # One less than a thousand, so that the 2.5 % and 97.5 % ranks are whole numbers.


@frozen
class RatioInterval:
    """How much faster the candidate is: ``ratio`` original / candidate with its 95 % interval.

    ``samples`` counts the pairs that entered, ``outliers`` those outside Tukey's far fences (they
    stay in: trimming bounds their influence, and dropping slow samples by hand would be a choice).
    """

    ratio: float
    low: float
    high: float
    samples: int
    outliers: int

    @property
    def half_width(self) -> float:
        """Half the interval's width relative to the ratio: 0.01 means "known to 1 %"."""
        return 0.5 * (self.high - self.low) / self.ratio


def order_plan(rounds: int, seed: int) -> tuple[tuple[str, str], ...]:
    """Which of ``"original"`` and ``"candidate"`` runs first in each round.

    Random, but balanced in every two rounds: whatever the first run of a round pays (a warm-up, a
    clock step) falls on both equally often.
    """
    generator = np.random.default_rng(seed)
    plan: list[tuple[str, str]] = []
    while len(plan) < rounds:
        first = ("original", "candidate")
        second = ("candidate", "original")
        plan += [first, second] if generator.random() < 0.5 else [second, first]
    return tuple(plan[:rounds])


def count_outliers(values: Samples) -> int:
    """How many values lie outside Tukey's far fences (three quartile ranges beyond the quartiles)."""
    if len(values) < 4:
        return 0
    low, high = np.quantile(values, [0.25, 0.75])
    reach = 3.0 * (high - low)
    return int(np.sum((values < low - reach) | (values > high + reach)))


def _trimmed_mean_and_error(sorted_rows: Samples) -> tuple[Samples, Samples]:
    """Trimmed means and their standard errors of rows that are sorted along the last axis."""
    n = sorted_rows.shape[-1]
    cut = int(TRIM * n)
    kept = sorted_rows[..., cut : n - cut]
    winsorised = np.clip(sorted_rows, kept[..., :1], kept[..., -1:])
    spread = np.std(winsorised, axis=-1, ddof=1)
    return np.mean(kept, axis=-1), spread / ((1 - 2 * cut / n) * math.sqrt(n))


def ratio_interval(original: Samples, candidate: Samples, seed: int = 0) -> RatioInterval:
    """The ratio original / candidate of paired times (seconds, same length >= 4) and its interval.

    Raises ValueError for unpaired, too few, non-finite or non-positive times: a caller checks those first
    (``measure_pairs`` returns them as a Failure).
    """
    if len(original) != len(candidate) or len(original) < 4:
        raise ValueError("paired times of equal number, at least four, are needed")
    both = np.concatenate([original, candidate])
    if not bool(np.all(np.isfinite(both) & (both > 0))):
        raise ValueError("times must be finite and above zero")
    logs = np.sort(np.log(original) - np.log(candidate))
    centre, error = _trimmed_mean_and_error(logs)
    outliers = count_outliers(logs)
    n = len(logs)
    if float(error) == 0.0:
        # All kept pairs are alike to the clock's resolution; the whole range is the honest interval.
        return RatioInterval(math.exp(centre), math.exp(logs[0]), math.exp(logs[-1]), n, outliers)
    generator = np.random.default_rng(seed)
    resampled = np.sort(logs[generator.integers(0, n, size=(RESAMPLES, n))], axis=-1)
    centres, errors = _trimmed_mean_and_error(resampled)
    # A resample of equal values has no error of its own and says nothing; the sample's stands in.
    errors = np.where(errors > 0, errors, error)
    # The symmetric form: Wilcox finds its coverage the most accurate of the bootstrap-t variants.
    reach = float(np.quantile(np.abs((centres - centre) / errors), LEVEL)) * float(error)
    reach = min(reach, WIDEST)
    return RatioInterval(
        math.exp(centre), math.exp(float(centre) - reach), math.exp(float(centre) + reach), n, outliers
    )


def clock_step(times: Samples) -> float:
    """The step of the clock that ``times`` (seconds) were read from: the smallest difference between two of them.

    Differences below a hundred-thousandth of the times are rounding. Times that no clock's step shows in give a step
    that small.
    """
    gaps = np.diff(np.sort(times))
    rounding = 1e-5 * float(np.median(times))
    return float(np.min(gaps[gaps > rounding], initial=np.inf)) if bool(np.any(gaps > rounding)) else 0.0


def within_resolution(interval: RatioInterval, original: Samples, candidate: Samples) -> RatioInterval:
    """The interval widened by half a step of the clock on either side: no difference below the clock's resolution is
    one, however many pairs agree on it."""
    # Both sides are read from one clock, and one of them may show no step because its times are all alike.
    step = clock_step(np.concatenate([original, candidate]))
    reach = math.log1p(0.5 * step / float(np.median(original)) + 0.5 * step / float(np.median(candidate)))
    return evolve(interval, low=interval.low * math.exp(-reach), high=interval.high * math.exp(reach))


@frozen
class StoppingRule:
    """When enough pairs were timed: ``half_width`` reached after ``least`` pairs, or ``most`` pairs.

    The rule looks only at the width, never at whether the interval excludes 1: stopping on
    significance would make an A/A comparison win sooner or later.
    """

    half_width: float = 0.01
    least: int = 10
    most: int = 100
    step: int = 5

    def next_round(self, interval: RatioInterval | None, done: int) -> int:
        """How many pairs more to time now; 0 means stop."""
        if done < self.least:
            return self.least - done
        if done >= self.most or (interval is not None and interval.half_width <= self.half_width):
            return 0
        return min(self.step, self.most - done)


SpeedVerdict = Literal["faster", "slower", "same", "inconclusive"]


def speed_verdict(interval: RatioInterval, rule: StoppingRule, noise: float = 0.0) -> SpeedVerdict:
    """What the interval allows to be said.

    ``noise`` is the relative difference that an A/A comparison on this device shows by itself: a
    candidate is called faster or slower only if its interval lies beyond 1 ± noise. "same" needs an
    interval as tight as the rule asks; whatever is left is inconclusive.
    """
    if interval.low > 1.0 + noise:
        return "faster"
    if interval.high < 1.0 / (1.0 + noise):
        return "slower"
    return "same" if interval.half_width <= max(rule.half_width, noise) else "inconclusive"
