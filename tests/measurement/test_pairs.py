"""Paired timing against a device whose times are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from optiml_core.device.protocol import Built, Contents
from optiml_core.measurement.pairs import DEFAULT_PLAN, PairPlan, PreparedRun, measure_prepared_pairs
from optiml_core.measurement.statistics import StoppingRule
from optiml_core.records import Failure, Launch, Measurement, Variant


class SyntheticDevice:
    """Answers with a time per token times noise, and moves a clock of its own forward by it."""

    def __init__(self, times: dict[str, Callable[[], float | Failure]], honest_clock: bool = True) -> None:
        self.times, self.honest_clock = times, honest_clock
        self.now = 0.0
        self.built: list[Variant] = []
        self.calls: list[tuple[str, int, bool]] = []

    @property
    def name(self) -> str:
        return "cuda:0"

    def clock(self) -> float:
        return self.now

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        self.built.append(variant)
        return Built(variant.data.decode(), variant)

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        self.calls.append((built.token, repetitions, flush))
        seconds = self.times[built.token]()
        if isinstance(seconds, float):
            self.now += seconds * repetitions * (1.1 if self.honest_clock else 0.5) + 1e-6
        return seconds


def prepared(token: str) -> PreparedRun:
    variant = Variant("k.cu", b"", "k")
    return PreparedRun(Built(token, variant), Launch((1, 1, 1), (32, 1, 1), 0, ()), Contents({}))


def noisy(seconds: float, seed: int, noise: float = 0.01) -> Callable[[], float]:
    generator = np.random.default_rng(seed)
    return lambda: float(seconds * (1 + noise * generator.standard_normal()))


def measure(
    device: SyntheticDevice, plan: PairPlan = DEFAULT_PLAN, cancelled: Callable[[], bool] = lambda: False
) -> Measurement | Failure:
    return measure_prepared_pairs(prepared("a"), prepared("b"), device, "NVIDIA H200", plan, device.clock, cancelled)


@pytest.mark.parametrize(("original", "candidate"), [(1e-3, 5e-4), (1e-3, 1e-3), (2e-6, 8e-6)])
def test_the_ratio_is_found_and_stays_tight(original: float, candidate: float) -> None:
    device = SyntheticDevice({"a": noisy(original, 1), "b": noisy(candidate, 2)})
    result = measure(device)
    assert isinstance(result, Measurement)
    assert result.kind == "measured"
    assert result.target == "NVIDIA H200"
    assert not result.inconclusive
    assert result.low <= original / candidate <= result.high
    assert (result.high - result.low) / 2 <= 0.011 * result.speedup
    assert result.time == pytest.approx(candidate, rel=0.02)
    assert result.original_time == pytest.approx(original, rel=0.02)


def test_short_kernels_are_timed_in_batches_and_both_sides_alike() -> None:
    device = SyntheticDevice({"a": noisy(4e-6, 1), "b": noisy(1e-6, 2)})
    measure(device)
    assert {repetitions for _, repetitions, _ in device.calls[1:]} == {50}


def test_a_flushed_cache_is_said_and_times_single_launches() -> None:
    device = SyntheticDevice({"a": noisy(4e-6, 1), "b": noisy(1e-6, 2)})
    result = measure(device, PairPlan(flush=True))
    assert isinstance(result, Measurement)
    assert result.cache == "cold"
    assert {(repetitions, flush) for _, repetitions, flush in device.calls} == {(1, True)}


def test_too_much_noise_is_inconclusive_after_the_most_pairs() -> None:
    device = SyntheticDevice({"a": noisy(1e-3, 1, 0.15), "b": noisy(1e-3, 2, 0.15)})
    result = measure(device, PairPlan(StoppingRule(half_width=0.005, most=40)))
    assert isinstance(result, Measurement)
    assert result.samples == 40
    assert result.inconclusive


def test_the_wall_clock_ends_it() -> None:
    device = SyntheticDevice({"a": noisy(0.5, 1, 0.1), "b": noisy(0.5, 2, 0.1)})
    result = measure(device, PairPlan(seconds=8.0))
    assert isinstance(result, Measurement)
    assert result.inconclusive
    assert device.now < 12.0
    too_slow = SyntheticDevice({"a": noisy(5.0, 1), "b": noisy(5.0, 2)})
    late = measure(too_slow, PairPlan(seconds=8.0))
    assert isinstance(late, Failure)
    assert late.kind == "timeout"


@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        (lambda: Failure("crash", "the worker died"), "crash"),
        (lambda: float("nan"), "bad-timing"),
        (lambda: 0.0, "bad-timing"),
        (lambda: 1e-9, "refused"),
    ],
)
def test_what_cannot_be_is_a_failure(candidate: Callable[[], float | Failure], kind: str) -> None:
    device = SyntheticDevice({"a": noisy(1e-3, 1), "b": candidate})
    result = measure(device, PairPlan(floor=1e-5))
    assert isinstance(result, Failure)
    assert result.kind == kind


def test_more_device_time_than_passed_here_is_refused() -> None:
    device = SyntheticDevice({"a": noisy(1e-3, 1), "b": noisy(1e-3, 2)}, honest_clock=False)
    result = measure(device)
    assert isinstance(result, Failure)
    assert result.kind == "bad-timing"


def test_cancelling_ends_it() -> None:
    device = SyntheticDevice({"a": noisy(1e-3, 1), "b": noisy(1e-3, 2)})
    result = measure(device, cancelled=lambda: len(device.calls) > 5)
    assert isinstance(result, Failure)
    assert result.kind == "cancelled"
    assert len(device.calls) <= 7


def test_wild_pairs_are_mentioned() -> None:
    original = noisy(1e-3, 1)
    spikes = iter([False] * 5 + [True] + [False] * 300)
    device = SyntheticDevice({"a": lambda: 1.0 if next(spikes) else original(), "b": noisy(1e-3, 2)})
    result = measure(device)
    assert isinstance(result, Measurement)
    assert any("far outside" in note for note in result.notes)
