"""A profile of a launch on a GPU, with stand-ins for the GPU and its counters: whose time, whose lines, what lacks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optiml_core.device.protocol import Built
from optiml_core.profiling.nsight import run as nsight_run
from optiml_core.profiling.nsight.report import InstructionCounters, ReportedKernel, RuleResult
from optiml_core.records import Failure, Variant
from optiml_core.search.gpu_profile import GpuProfile, profile_on_gpu
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import GpuFacts, discover, gpu_facts
from optiml_core.workload import find_workload, resolve_launch

SOURCE = b"""// optiml: n = 4096, x[n * 32]: normal, y[n], block = 128, grid = n / 128
__global__ void k(const float* x, float* y) {
  int i = blockIdx.x * 128 + threadIdx.x;
  y[i] = x[i * 32];
}
"""
LOAD = {
    "inst_executed": 128.0,
    "thread_inst_executed_true": 4096.0,
    "memory_l2_theoretical_sectors_global": 4096.0,
    "memory_l2_theoretical_sectors_global_ideal": 512.0,
    "memory_l1_tag_requests_global": 4096.0,
    "smsp__pcsamp_sample_count": 80.0,
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard": 80.0,
}
REPORTED = ReportedKernel(
    "k",
    "k(const float *, float *)",
    "_Z1kPKfPf",
    {
        "gpu__time_duration.sum": 99000.0,
        "device__attribute_display_name": "NVIDIA H200",
        "launch__grid_size": 32.0,
        "launch__block_size": 128.0,
        "smsp__inst_executed.sum": 1000.0,
    },
    (
        InstructionCounters("/elsewhere/k.cu", 4, "LDG.E R2, desc[UR4][R2.64]", LOAD),
        InstructionCounters("/elsewhere/k.cu", 3, "IMAD R0, R1, R2", {"smsp__pcsamp_sample_count": 20.0}),
    ),
    (RuleResult("UncoalescedGlobalAccess", "", "", True, 50.0, True),),
    {},
    {},
)


class StandIn:
    """A GPU that takes three microseconds, and counts unless ``problem`` says why not."""

    name = "cuda:0"

    def __init__(self, problem: Failure | None = None) -> None:
        self._problem = problem

    def build(self, variant: Variant, template_arguments: Any = (), widened: bool = False) -> Built:
        return Built("token", variant)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        yield None

    def time_launches(self, *_: Any) -> float:
        return 3e-6

    def write_ncu_report(self, built: Built, launch: Any, contents: Any, report: Path) -> str | Failure:
        return self._problem or REPORTED.mangled


def profiled(device: Any, monkeypatch: pytest.MonkeyPatch) -> GpuProfile:
    monkeypatch.setattr(nsight_run, "read_report", lambda path: (REPORTED,))
    gpu = gpu_facts("H200")
    assert isinstance(gpu, GpuFacts)
    unit = parse(SourceFile("k.cu", SOURCE))
    kernel = unit.kernels[0]
    workload = find_workload(unit, kernel)
    launch = resolve_launch(workload)
    assert not isinstance(launch, Failure)
    variant = Variant("k.cu", SOURCE, "k")
    found = profile_on_gpu(variant, unit, kernel, workload, launch, device, gpu, discover())
    assert isinstance(found, GpuProfile), found
    return found


def test_counters_are_ncus_and_the_time_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = profiled(StandIn(), monkeypatch)
    assert (found.profile.origin, found.profile.time_kind, found.problem) == ("ncu", "measured", None)
    assert found.profile.time == 3e-6  # not the 99 us of the replayed launch
    assert found.profile.line_metrics[4]["sectors_per_request"] == 32.0
    assert found.profile.line_metrics[4]["stall_share"] == pytest.approx(0.8)
    assert found.roofline is not None
    assert 0 < found.roofline.fraction <= 1


def test_findings_of_ncu_the_emulator_and_the_rules_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [f for f in profiled(StandIn(), monkeypatch).findings if f.kind == "uncoalesced-access"]
    assert [f.range.start_line for f in found] == [4]
    finding = found[0]
    assert finding.origin == "ncu"
    assert "`x`" in finding.message or "28 of 32" in finding.message
    assert finding.evidence["ncu_estimated_gain"] == 2.0  # half of the run time
    model = finding.evidence["model_estimated_gain"]
    assert isinstance(model, float)
    assert finding.estimated_gain == pytest.approx((2.0 * model) ** 0.5, rel=0.01)


def test_without_counters_the_emulators_stand_with_the_measured_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Failure("no-permission", "the driver does not let this user read GPU counters")
    found = profiled(StandIn(problem), monkeypatch)
    assert found.problem == problem
    assert (found.profile.origin, found.profile.time, found.profile.time_kind) == ("emulator", 3e-6, "measured")
    assert any(f.kind == "uncoalesced-access" for f in found.findings)
