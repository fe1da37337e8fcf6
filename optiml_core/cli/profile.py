"""``optiml profile FILE[:KERNEL]``: what limits a kernel, line by line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optiml_core.cli.compile_flags import choose_flags
from optiml_core.cli.failure import BAD_INPUT, DONE, CommandFailure
from optiml_core.cli.output import print_json, range_json, results
from optiml_core.cli.target import open_target, split_target
from optiml_core.cli.target_device import choose_device, choose_gpu
from optiml_core.cli.workload_file import read_workload_file
from optiml_core.profiling import roofline
from optiml_core.profiling.nsight import ImportedKernel, ReportedKernel, import_kernels, read_report
from optiml_core.profiling.nsight.imported import with_launches
from optiml_core.records import Failure, Finding, Kernel, Profile
from optiml_core.report.numbers import time_text
from optiml_core.search.devices import open_device
from optiml_core.search.profile import KernelProfile, profile_kernel
from optiml_core.source import parse_with_includes
from optiml_core.toolchain import discover, gpu_facts

# Lines shown of a profile that knows where warps wait.
MOST_LINES = 5
LEAST_SHARE = 0.02


def run(arguments: argparse.Namespace) -> int:
    """Profiles one kernel, or all of them if none is named. Exit status 0 if at least one could be profiled."""
    if arguments.report:
        return _from_reports(arguments)
    target = open_target(arguments.target, arguments.kernel, needs_kernel=False)
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
    _show(arguments, found)
    return DONE


def _from_reports(arguments: argparse.Namespace) -> int:
    """The kernels of the file, and of what it includes by a quoted name, that Nsight Compute reports hold."""
    file, name = split_target(arguments.target)
    name = arguments.kernel or name
    parsed = parse_with_includes(file)
    if isinstance(parsed, Failure):
        raise CommandFailure(parsed, BAD_INPUT)
    reported: list[ReportedKernel] = []
    for path in arguments.report:
        read = read_report(Path(path))
        if isinstance(read, Failure):
            raise CommandFailure(read)
        reported.extend(read)
    imported = import_kernels(reported, parsed.units)
    chosen = [entry for entry in imported.kernels if name is None or _is_named(entry, name)]
    if not chosen:
        reports = ", ".join(arguments.report)
        others = sorted({*imported.others, *(entry.kernel.qualified for entry in imported.kernels)})
        message = f"{'no kernel of ' + file if name is None else name} is in {reports}; it holds: {', '.join(others)}"
        raise CommandFailure(Failure("bad-input", message, file), BAD_INPUT)
    found = []
    for entry in chosen:
        gpu = gpu_facts(entry.profile.target)
        bound = None if isinstance(gpu, Failure) else roofline(entry.profile, gpu)
        profile = with_launches(entry)
        found.append((entry.kernel, KernelProfile(profile, bound, entry.findings, None, entry.notes)))
    _show(arguments, found, [", ".join(entry.template_arguments) for entry in chosen])
    return DONE


def _is_named(entry: ImportedKernel, name: str) -> bool:
    plain, _, arguments = name.removesuffix(">").partition("<")
    wanted = tuple(part.strip() for part in arguments.split(",")) if arguments else None
    if plain.isdigit():
        lines = entry.kernel.range
        return lines.start_line <= int(plain) <= lines.end_line
    return plain in (entry.kernel.qualified, entry.kernel.name) and wanted in (None, entry.template_arguments)


def _show(
    arguments: argparse.Namespace, found: list[tuple[Kernel, KernelProfile]], instances: list[str] | None = None
) -> None:
    instances = instances or [""] * len(found)
    if arguments.json:
        entries = []
        for (kernel, profile), instance in zip(found, instances, strict=True):
            entries.append({**profile_json(kernel, profile), "template_arguments": instance})
        print_json({"kernels": entries})
    else:
        _print(found, instances)


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
        "lines": [{"line": line, **row} for line, row in sorted(profile.line_metrics.items())],
        "origin": profile.origin,
        "notes": list(found.notes),
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


def waiting_lines(profile: Profile) -> list[str]:
    """The lines where warps wait most, with the main reason and what their accesses cost, for people."""
    rows = sorted(profile.line_metrics.items(), key=lambda entry: -entry[1].get("stall_share", 0.0))
    texts = []
    for line, row in rows[:MOST_LINES]:
        share = row.get("stall_share", 0.0)
        if share < LEAST_SHARE:
            break
        reasons = {name: value for name, value in row.items() if name.startswith("stall_share_")}
        main = max(reasons, key=lambda name: reasons[name]).removeprefix("stall_share_").replace("_", " ")
        text = f"line {line}: {share:.0%} of the samples wait here, most for {main}"
        if "sectors_per_request" in row:
            text += f"; {row['sectors_per_request']:.1f} sectors per request"
        texts.append(text)
    return texts


def _print(found: list[tuple[Kernel, KernelProfile]], instances: list[str]) -> None:
    console = results()
    if not found:
        console.print("no kernels that can be read")
    for (kernel, item), instance in zip(found, instances, strict=True):
        profile = item.profile
        name = kernel.qualified + (f"<{instance}>" if instance else "")
        console.print(f"{name}  {kernel.file}:{kernel.range.start_line}", style="bold", markup=False)
        if item.problem is not None:
            what = "static only" if profile.origin == "static" else "no counters of the GPU"
            console.print(f"  {what}: {item.problem.message}", markup=False)
            if item.problem.cure:
                console.print(f"    cure: {item.problem.cure}", markup=False)
        if profile.time is not None:
            bound = item.roofline
            limit = f", bound by {bound.bound_by} at {bound.fraction:.0%} of the roofline" if bound else ""
            how = "as ncu replayed it on" if profile.origin == "imported" else f"{profile.time_kind} for"
            console.print(f"  {time_text(profile.time)} {how} {profile.target}{limit}")
        if profile.resources is not None:
            usage = profile.resources
            spills = f", {usage.spill_stores + usage.spill_loads} bytes spilled" if usage.spill_stores else ""
            console.print(f"  {usage.registers} registers, {usage.shared} bytes of shared memory{spills}")
        for text in (*item.notes, *waiting_lines(profile)):
            console.print(f"  {text}", markup=False)
        for finding in item.findings:
            gain = f", est. {finding.estimated_gain:.1f}x" if finding.estimated_gain else ""
            console.print(
                f"  line {finding.range.start_line}: {finding.message} ({finding.severity}{gain})", markup=False
            )
            if finding.rewrites:
                console.print(f"    answers: {', '.join(finding.rewrites)}", markup=False)
