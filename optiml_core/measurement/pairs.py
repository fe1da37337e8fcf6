"""Paired timing of two built variants on one device, adaptive, with every failure as a value."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from attrs import frozen

from optiml_core.device.protocol import Built, Contents
from optiml_core.measurement.statistics import (
    RatioInterval,
    StoppingRule,
    order_plan,
    ratio_interval,
    speed_verdict,
    within_resolution,
)
from optiml_core.records import Failure, Launch, Measurement, Variant
from optiml_core.workload import Workload, make_contents, resolve_launch

# One timed batch should last this long (seconds): a CUDA event resolves about half a microsecond,
# so the clock then contributes less than a quarter of a percent.
BATCH_SECONDS = 2e-4
MOST_REPETITIONS = 200
DEFAULT_RULE = StoppingRule()


class TimingDevice(Protocol):
    """What paired timing needs of a device with a clock of its own."""

    @property
    def name(self) -> str:
        """``cuda:0`` and the like."""
        ...

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        """As :class:`optiml_core.device.protocol.Device` does."""
        ...

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        """Mean seconds of one launch over ``repetitions``, by the device's own events.

        With ``flush`` the L2 cache is emptied before each launch and only the launch is timed;
        without, launches follow each other. A kernel that writes what it reads gets fresh contents
        before every launch, outside the timed span. A warm-up launch comes first, untimed.
        """
        ...


@frozen
class PreparedRun:
    """One side of a comparison, ready to launch."""

    built: Built
    launch: Launch
    contents: Contents


@frozen
class PairPlan:
    """How to compare: when to stop, how long at most, which cache state, what cannot be true.

    ``seconds`` bounds the whole comparison by the wall clock. ``floor`` is the roofline's floor in
    seconds: no correct kernel is faster, so a smaller time is refused. ``noise`` is the relative
    difference an A/A comparison shows on this device.
    """

    rule: StoppingRule = DEFAULT_RULE
    seconds: float = 10.0
    flush: bool = False
    floor: float = 0.0
    noise: float = 0.0
    seed: int = 0


DEFAULT_PLAN = PairPlan()


def _timed(
    device: TimingDevice, run: PreparedRun, repetitions: int, plan: PairPlan, clock: Callable[[], float]
) -> float | Failure:
    """One timing, checked against our own clock and the floor before anyone believes it."""
    started = clock()
    seconds = device.time_launches(run.built, run.launch, run.contents, repetitions, plan.flush)
    elapsed = clock() - started
    if isinstance(seconds, Failure):
        return seconds
    if not math.isfinite(seconds) or seconds <= 0.0:
        return Failure("bad-timing", f"{device.name} reported a time of {seconds!r} seconds")
    if seconds * repetitions > elapsed:
        return Failure(
            "bad-timing",
            f"{device.name} reported {repetitions} launches of {seconds:.3g} s, but only {elapsed:.3g} s passed here",
        )
    if seconds < plan.floor:
        return Failure(
            "refused",
            f"a launch of {seconds:.3g} s is faster than the roofline allows ({plan.floor:.3g} s); "
            "it cannot have done the work",
        )
    return seconds


def measure_prepared_pairs(
    original: PreparedRun,
    candidate: PreparedRun,
    device: TimingDevice,
    target: str,
    plan: PairPlan = DEFAULT_PLAN,
    clock: Callable[[], float] = time.monotonic,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measurement | Failure:
    """Times both sides in random balanced order until the interval is tight or the budget ends.

    ``target`` names the GPU for people. Any Failure of either side ends the comparison and is
    returned. A budget that ends before the interval is tight gives ``inconclusive``.
    """
    begun = clock()
    first = _timed(device, original, 1, plan, clock)
    if isinstance(first, Failure):
        return first
    repetitions = 1 if plan.flush else max(1, min(MOST_REPETITIONS, math.ceil(BATCH_SECONDS / first)))
    times: dict[str, list[float]] = {"original": [], "candidate": []}
    sides = {"original": original, "candidate": candidate}
    order = order_plan(plan.rule.most, plan.seed)
    interval: RatioInterval | None = None
    out_of_time = False
    while not out_of_time and (more := plan.rule.next_round(interval, len(times["original"]))) > 0:
        done = len(times["original"])
        for pair in order[done : done + more]:
            if cancelled():
                return Failure("cancelled", "the comparison was cancelled")
            for side in pair:
                seconds = _timed(device, sides[side], repetitions, plan, clock)
                if isinstance(seconds, Failure):
                    return seconds
                times[side].append(seconds)
            if clock() - begun > plan.seconds:
                out_of_time = True
                break
        if len(times["original"]) >= 4:
            before, after = np.asarray(times["original"]), np.asarray(times["candidate"])
            interval = within_resolution(ratio_interval(before, after, plan.seed), before, after)
    if interval is None:
        return Failure("timeout", f"fewer than four pairs could be timed within {plan.seconds:g} s")
    verdict = speed_verdict(interval, plan.rule, plan.noise)
    notes = [f"{interval.samples} pairs of {repetitions} launches in random order: {verdict}"]
    if interval.outliers:
        notes.append(f"{interval.outliers} pairs lay far outside the others; the trimmed mean bounds their weight")
    return Measurement(
        kind="measured",
        target=target,
        time=float(np.median(times["candidate"])),
        original_time=float(np.median(times["original"])),
        speedup=interval.ratio,
        low=interval.low,
        high=interval.high,
        samples=interval.samples,
        cache="cold" if plan.flush else "warm",
        inconclusive=verdict == "inconclusive",
        notes=tuple(notes),
    )


def measure_pairs(
    original: Variant,
    candidate: Variant,
    workload: Workload,
    device: TimingDevice,
    target: str,
    *,
    index: int = 0,
    plan: PairPlan = DEFAULT_PLAN,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measurement | Failure:
    """Builds both variants, launches both on the same contents of launch ``index``, and compares their times."""
    sides = []
    for variant in (original, candidate):
        launch = resolve_launch(workload, index, None, variant.launch_change)
        if isinstance(launch, Failure):
            return launch
        made = make_contents(launch, plan.seed)
        if isinstance(made, Failure):
            return made
        built = device.build(variant, launch.template_arguments)
        if isinstance(built, Failure):
            return built
        sides.append(PreparedRun(built, launch, Contents(made)))
    return measure_prepared_pairs(sides[0], sides[1], device, target, plan, cancelled=cancelled)
