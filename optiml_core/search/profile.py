"""Profiles one kernel of a file: dynamic where it can run, static where it cannot."""

from __future__ import annotations

from attrs import frozen

from optiml_core.device.protocol import Device
from optiml_core.measurement import predict
from optiml_core.profiling import find_findings, profile_on_device, static_profile
from optiml_core.records import Failure, Finding, Kernel, Profile, Roofline, Variant
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import find_workload, resolve_launch


@frozen
class KernelProfile:
    """``problem`` says why the kernel was not run, if only the static profile could be made."""

    profile: Profile
    roofline: Roofline | None
    findings: tuple[Finding, ...]
    problem: Failure | None


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
        profile = profile_on_device(variant, workload, device, gpu, toolchain)
        if not isinstance(profile, Failure):
            prediction = predict(profile, gpu)
            roofline = None if isinstance(prediction, Failure) else prediction.roofline
            return KernelProfile(profile, roofline, find_findings(profile, unit, kernel, launch), None)
        problem = profile
    profile = static_profile(unit, kernel, None, gpu)
    known = None if isinstance(launch, Failure) else launch
    return KernelProfile(profile, None, find_findings(profile, unit, kernel, known), problem)
