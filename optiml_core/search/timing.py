"""How fast a variant is: predicted from its profile on the emulator, measured in pairs on a GPU."""

from __future__ import annotations

from attrs import frozen

from optiml_core.device.protocol import Device
from optiml_core.measurement import predict, speedup_prediction
from optiml_core.profiling import profile_on_device
from optiml_core.records import Failure, Measurement, Profile, Roofline, Variant
from optiml_core.search.problem import ProfileMode
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import Workload


@frozen
class Timing:
    """A variant's profile and its time against the original's. ``other_launches``: the workload's further
    launches, for the guardrail against regressions."""

    profile: Profile | None
    measurement: Measurement
    roofline: Roofline | None
    other_launches: tuple[Measurement, ...] = ()


def time_variant(
    variant: Variant,
    original: Timing | None,
    workload: Workload,
    device: Device,
    gpu: GpuFacts,
    toolchain: Toolchain,
    mode: ProfileMode,
) -> Timing | Failure:
    """Times ``variant``; ``original`` None means that it is the original itself."""
    profile = profile_on_device(variant, workload, device, gpu, toolchain)
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
