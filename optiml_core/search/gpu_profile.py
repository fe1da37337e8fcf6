"""Profiles a launch on a GPU: timed by our own events, counted by ncu, and counted in the emulator where it can run."""

from __future__ import annotations

import statistics

from attrs import evolve, frozen

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Contents, MeasuringDevice
from optiml_core.measurement import predict
from optiml_core.profiling import find_findings, profile_on_device, roofline
from optiml_core.profiling.nsight import findings_of, profile_of
from optiml_core.profiling.nsight.run import count_launch
from optiml_core.records import Failure, Finding, Kernel, Launch, Profile, Roofline, Variant
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import Workload, make_contents

TIMINGS = 7
REPETITIONS = 5


@frozen
class GpuProfile:
    """``profile``: ncu's where there is one, else the emulator's, with the measured time. ``problem``: why ncu's is
    missing."""

    profile: Profile
    roofline: Roofline | None
    findings: tuple[Finding, ...]
    problem: Failure | None


def profile_on_gpu(
    variant: Variant,
    unit: TranslationUnit,
    kernel: Kernel,
    workload: Workload,
    launch: Launch,
    device: MeasuringDevice,
    gpu: GpuFacts,
    toolchain: Toolchain,
) -> GpuProfile | Failure:
    """A Failure if the launch does not run; without counters (no ncu, no permission) the time is still measured."""
    built = device.build(variant, launch.template_arguments)
    if isinstance(built, Failure):
        return built
    made = make_contents(launch, 0)
    if isinstance(made, Failure):
        return made
    contents = Contents(made)
    times = []
    with device.exclusive() as held:
        if isinstance(held, Failure):
            return held
        for _ in range(TIMINGS):
            seconds = device.time_launches(built, launch, contents, REPETITIONS, False)
            if isinstance(seconds, Failure):
                return seconds
            times.append(seconds)
    time = statistics.median(times)
    counted = count_launch(device, built, launch, contents)
    with EmulatorDevice() as emulator:
        emulated = profile_on_device(variant, workload, emulator, gpu, toolchain)
    others = () if isinstance(emulated, Failure) else find_findings(emulated, unit, kernel, launch)
    bound = None if isinstance(emulated, Failure) else measured_roofline(emulated, gpu, time)
    if isinstance(counted, Failure):
        if isinstance(emulated, Failure):
            return counted
        timed = evolve(emulated, time=time, time_kind="measured")
        return GpuProfile(timed, bound, others, counted)
    profile = profile_of(counted, variant.file, kernel.qualified, "ncu")
    # A reported time never comes from ncu, whose replays and flushed caches make another one.
    profile = evolve(profile, time=time, time_kind="measured", resources=built.resources or profile.resources)
    findings = findings_of(counted, profile, unit, kernel, launch, others)
    return GpuProfile(profile, bound or roofline(profile, gpu, time), findings, None)


def measured_roofline(emulated: Profile, gpu: GpuFacts, time: float) -> Roofline | None:
    """The roofline that the emulator's counts give, at a measured time (seconds)."""
    predicted = predict(emulated, gpu)
    if isinstance(predicted, Failure):
        return None
    return evolve(predicted.roofline, fraction=min(1.0, predicted.roofline.floor / time))
