"""How long a draft's launch takes: measured on a GPU, else predicted from the emulator's counts. For ordering."""

from __future__ import annotations

from optiml_core.device.protocol import Contents, Device
from optiml_core.measurement import TimingDevice
from optiml_core.profiling import Profiler
from optiml_core.records import Failure
from optiml_core.synthesis.checking import build, variant_of
from optiml_core.synthesis.records import Draft
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import make_contents, resolve_launch

REPETITIONS = 20


def measured_seconds(draft: Draft, device: TimingDevice) -> float | None:
    """Mean seconds of a launch at the declared sizes on a device with a clock; None if it cannot be timed."""
    made = build(draft, device)
    if isinstance(made, Failure):
        return None
    built, workload = made
    launch = resolve_launch(workload)
    contents = launch if isinstance(launch, Failure) else make_contents(launch, 0)
    if isinstance(launch, Failure) or isinstance(contents, Failure):
        return None
    seconds = device.time_launches(built, launch, Contents(contents), REPETITIONS, True)
    return None if isinstance(seconds, Failure) else seconds


def predicted_seconds(draft: Draft, device: Device, gpu: GpuFacts, toolchain: Toolchain) -> float | None:
    """Predicted seconds of a launch at the declared sizes on ``gpu``; None if nothing can be predicted."""
    made = build(draft, device)
    if isinstance(made, Failure):
        return None
    with Profiler(device, gpu, toolchain) as profiler:
        profile = profiler.profile(variant_of(draft), made[1])
    return None if isinstance(profile, Failure) else profile.time
