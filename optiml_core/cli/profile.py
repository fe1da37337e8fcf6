"""``optiml profile FILE[:KERNEL]``: what limits a kernel, line by line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optiml_core.cli.compile_flags import choose_flags
from optiml_core.cli.failure import DONE, CommandFailure
from optiml_core.cli.output import print_json, range_json, results
from optiml_core.cli.target import Target, open_target
from optiml_core.cli.target_device import choose_device, choose_gpu
from optiml_core.cli.workload_file import read_workload_file
from optiml_core.profiling import find_findings
from optiml_core.profiling.nsight_report import read_report
from optiml_core.records import Failure, Finding, Kernel
from optiml_core.report.numbers import time_text
from optiml_core.search.devices import open_device
from optiml_core.search.profile import KernelProfile, profile_kernel
from optiml_core.toolchain import discover


def run(arguments: argparse.Namespace) -> int:
    """Profiles one kernel, or all of them if none is named. Exit status 0 if at least one could be profiled."""
    target = open_target(arguments.target, arguments.kernel, needs_kernel=False)
    if arguments.report:
        return _from_report(arguments, target)
    kernels = [target.kernel] if target.kernel is not None else list(target.unit.kernels)
    flags = choose_flags(arguments, target.path)
    device_name = choose_device(arguments.device)
    gpu = choose_gpu(arguments.gpu, flags, device_name)
    toolchain = discover()
    device = open_device(device_name, toolchain)
    if isinstance(device, Failure):
        raise CommandFailure(device)
    toml = read_workload_file(arguments.workload)
    found: list[tuple[Kernel, KernelProfile]] = []
    try:
        found.extend(
            (kernel, profile_kernel(target.unit, kernel, flags, toml, device, gpu, toolchain)) for kernel in kernels
        )
    finally:
        device.close()
    if arguments.json:
        print_json({"kernels": [profile_json(kernel, profile) for kernel, profile in found]})
    else:
        _print(found)
    return DONE


def _from_report(arguments: argparse.Namespace, target: Target) -> int:
    """The kernels of the file that an Nsight Compute report holds, with its lines' counters."""
    profiles = read_report(Path(arguments.report), str(target.path))
    if isinstance(profiles, Failure):
        raise CommandFailure(profiles)
    found: list[tuple[Kernel, KernelProfile]] = []
    for profile in profiles:
        name = profile.kernel.split("(")[0].split("<")[0].split("::")[-1].split(" ")[-1]
        kernel = next((k for k in target.unit.kernels if k.name == name), None)
        if kernel is None or (target.kernel is not None and kernel.qualified != target.kernel.qualified):
            continue
        findings = find_findings(profile, target.unit, kernel, None)
        found.append((kernel, KernelProfile(profile, None, findings, None)))
    if not found:
        names = ", ".join(sorted({profile.kernel for profile in profiles}))
        raise CommandFailure(Failure("bad-input", f"the report holds other kernels: {names}", arguments.report), 2)
    if arguments.json:
        print_json({"kernels": [profile_json(kernel, item) for kernel, item in found]})
    else:
        _print(found)
    return DONE


def profile_json(kernel: Kernel, found: KernelProfile) -> dict[str, Any]:
    """One kernel as design.md section 6 has it; ``problem`` says why a time is missing."""
    profile = found.profile
    return {
        "name": kernel.qualified,
        "target": profile.target,
        "time_us": None if profile.time is None else profile.time * 1e6,
        "kind": profile.time_kind,
        "roofline": None
        if found.roofline is None
        else {"fraction": found.roofline.fraction, "bound_by": found.roofline.bound_by},
        "metrics": dict(profile.metrics),
        "findings": [finding_json(finding) for finding in found.findings],
        "problem": found.problem.message if found.problem else None,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "file": finding.range.file,
        "range": range_json(finding.range),
        "severity": finding.severity,
        "message": finding.message,
        "evidence": dict(finding.evidence),
        "estimated_gain": finding.estimated_gain,
        "rewrites": list(finding.rewrites),
    }


def _print(found: list[tuple[Kernel, KernelProfile]]) -> None:
    console = results()
    if not found:
        console.print("no kernels")
    for kernel, item in found:
        profile = item.profile
        console.print(f"[bold]{kernel.qualified}[/]  {kernel.file}:{kernel.range.start_line}")
        if item.problem is not None:
            console.print(f"  static only: {item.problem.message}", markup=False)
            if item.problem.cure:
                console.print(f"    cure: {item.problem.cure}", markup=False)
        if profile.time is not None:
            bound = item.roofline
            limit = f", bound by {bound.bound_by} at {bound.fraction:.0%} of the roofline" if bound else ""
            console.print(f"  {time_text(profile.time)} {profile.time_kind} for {profile.target}{limit}")
        if profile.resources is not None:
            usage = profile.resources
            spills = f", {usage.spill_stores + usage.spill_loads} bytes spilled" if usage.spill_stores else ""
            console.print(f"  {usage.registers} registers, {usage.shared} bytes of shared memory{spills}")
        for finding in item.findings:
            gain = f", est. {finding.estimated_gain:.1f}x" if finding.estimated_gain else ""
            console.print(
                f"  line {finding.range.start_line}: {finding.message} ({finding.severity}{gain})", markup=False
            )
            if finding.rewrites:
                console.print(f"    answers: {', '.join(finding.rewrites)}", markup=False)
