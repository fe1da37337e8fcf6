"""How fast a variant is: predicted from its profile on the emulator, measured in pairs on a GPU."""

from __future__ import annotations

from attrs import evolve, frozen

from optiml_core.device.protocol import Contents, MeasuringDevice
from optiml_core.measurement import PairPlan, PreparedRun, measure_prepared_pairs, predict, speedup_prediction
from optiml_core.measurement.statistics import StoppingRule
from optiml_core.profiling.profiler import Profiler
from optiml_core.records import Failure, Measurement, Profile, Roofline, Variant
from optiml_core.search.problem import ProfileMode
from optiml_core.toolchain import GpuFacts
from optiml_core.workload import Workload, make_contents, resolve_launch

# Inside the search a comparison is short; what is offered is measured again at length.
SEARCH_PLAN = PairPlan(rule=StoppingRule(half_width=0.02, least=6, most=24, step=6), seconds=12.0)
FINAL_PLAN = PairPlan(rule=StoppingRule(half_width=0.01, least=12, most=120, step=6), seconds=30.0)
# Beside the final measurement: each launch alone, after L2 was emptied.
COLD_PLAN = PairPlan(rule=StoppingRule(half_width=0.02, least=10, most=40, step=6), seconds=8.0, flush=True)


@frozen
class Timing:
    """A variant's profile and its time against the original's. ``other_launches``: the workload's further
    launches, for the guardrail against regressions."""

    profile: Profile | None
    measurement: Measurement
    roofline: Roofline | None
    other_launches: tuple[Measurement, ...] = ()


def predicted_timing(
    variant: Variant, original: Timing | None, workload: Workload, profiler: Profiler, gpu: GpuFacts
) -> Timing | Failure:
    """Counts on the emulator and predicts; ``original`` None means that ``variant`` is the original itself.

    Both must come from the same profiler: a prediction with machine code is not comparable to one without.
    """
    profile = profiler.profile(variant, workload)
    if isinstance(profile, Failure):
        return profile
    prediction = predict(profile, gpu)
    if isinstance(prediction, Failure):
        return prediction
    if original is None or original.profile is None:
        measurement = Measurement("predicted", gpu.name, prediction.time, prediction.time, 1.0, 1.0, 1.0)
    else:
        predicted = speedup_prediction(original.profile, profile, gpu)
        if isinstance(predicted, Failure):
            return predicted
        measurement = predicted
    return Timing(profile, measurement, prediction.roofline)


class GpuTimer:
    """Times variants of one original on a GPU; its contents stay on the GPU from comparison to comparison."""

    def __init__(self, original: Variant, workload: Workload, device: MeasuringDevice, target: str, seed: int) -> None:
        self._original = original
        self._workload = workload
        self._device = device
        self._target = target
        self._seed = seed
        self._prepared: PreparedRun | None = None

    def measure(self, variant: Variant, plan: PairPlan = SEARCH_PLAN, floor: float = 0.0) -> Measurement | Failure:
        """The variant against the original, interleaved. ``floor``: seconds below which no time is believed."""
        original = self._original_run()
        if isinstance(original, Failure):
            return original
        candidate = self._run_of(variant, original.contents)
        if isinstance(candidate, Failure):
            return candidate
        with self._device.exclusive() as held:
            if isinstance(held, Failure):
                return held
            # The first launch uploads the contents, which must not count against the comparison's time.
            for side in (original, candidate):
                first = self._device.time_launches(side.built, side.launch, side.contents, 1, plan.flush)
                if isinstance(first, Failure):
                    return first
            self._device.conditions()  # of what came before
            # The roofline's floor assumes the caches cold; a warm L2 may beat DRAM, so half of it is the bound.
            measured = measure_prepared_pairs(
                original,
                candidate,
                self._device,
                self._target,
                evolve(plan, floor=floor * 0.5, seed=self._seed),
                clock=self._device.clock,
            )
        if isinstance(measured, Failure):
            return measured
        return evolve(measured, notes=(*measured.notes, *self._device.conditions()))

    def _original_run(self) -> PreparedRun | Failure:
        if self._prepared is None:
            launch = resolve_launch(self._workload)
            if isinstance(launch, Failure):
                return launch
            made = make_contents(launch, self._seed)
            if isinstance(made, Failure):
                return made
            prepared = self._run_of(self._original, Contents(made))
            if isinstance(prepared, Failure):
                return prepared
            self._prepared = prepared
        return self._prepared

    def _run_of(self, variant: Variant, contents: Contents) -> PreparedRun | Failure:
        launch = resolve_launch(self._workload, 0, None, variant.launch_change)
        if isinstance(launch, Failure):
            return launch
        built = self._device.build(variant, launch.template_arguments)
        return built if isinstance(built, Failure) else PreparedRun(built, launch, contents)


__all__ = ["COLD_PLAN", "FINAL_PLAN", "SEARCH_PLAN", "GpuTimer", "ProfileMode", "Timing", "predicted_timing"]
