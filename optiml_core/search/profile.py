"""Profiles one kernel of a file: dynamic where it can run, static where it cannot."""

from __future__ import annotations

from attrs import frozen

from optiml_core.device.protocol import Device, MeasuringDevice
from optiml_core.measurement import predict
from optiml_core.profiling import find_findings, profile_on_device, static_profile
from optiml_core.records import Failure, Finding, Kernel, Launch, Profile, Roofline, Variant
from optiml_core.search.gpu_profile import profile_on_gpu
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import Workload, find_workload, resolve_launch


@frozen
class KernelProfile:
    """``problem`` says why the kernel was not run, if only the static profile could be made, or why a GPU gave no
    counters. ``notes``: what to keep in mind of an imported profile."""

    profile: Profile
    roofline: Roofline | None
    findings: tuple[Finding, ...]
    problem: Failure | None
    notes: tuple[str, ...] = ()


def profile_kernel(
    unit: TranslationUnit,
    kernel: Kernel,
    flags: tuple[str, ...],
    toml: str | None,
    device: Device,
    gpu: GpuFacts,
    toolchain: Toolchain,
) -> KernelProfile:
    """Runs the kernel with counts on ``device``; a kernel that cannot run still gets its static findings."""
    workload = find_workload(unit, kernel, toml)
    launch = resolve_launch(workload)
    problem = launch if isinstance(launch, Failure) else None
    if not isinstance(launch, Failure):
        variant = Variant(unit.source.path, unit.source.data, kernel.qualified, flags)
        profiled = _run(variant, unit, kernel, workload, launch, device, gpu, toolchain)
        if isinstance(profiled, KernelProfile):
            return profiled
        problem = profiled
    profile = static_profile(unit, kernel, None, gpu)
    known = None if isinstance(launch, Failure) else launch
    return KernelProfile(profile, None, find_findings(profile, unit, kernel, known), problem)


def _run(
    variant: Variant,
    unit: TranslationUnit,
    kernel: Kernel,
    workload: Workload,
    launch: Launch,
    device: Device,
    gpu: GpuFacts,
    toolchain: Toolchain,
) -> KernelProfile | Failure:
    if isinstance(device, MeasuringDevice):
        found = profile_on_gpu(variant, unit, kernel, workload, launch, device, gpu, toolchain)
        if isinstance(found, Failure):
            return found
        return KernelProfile(found.profile, found.roofline, found.findings, found.problem)
    profile = profile_on_device(variant, workload, device, gpu, toolchain)
    if isinstance(profile, Failure):
        return profile
    prediction = predict(profile, gpu)
    roofline = None if isinstance(prediction, Failure) else prediction.roofline
    return KernelProfile(profile, roofline, find_findings(profile, unit, kernel, launch), None)
