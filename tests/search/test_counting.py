"""When ncu counts the nodes of a search, how often, and what happens where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optiml_core.device.protocol import Built
from optiml_core.profiling.nsight import run as nsight_run
from optiml_core.profiling.nsight.report import ReportedKernel
from optiml_core.records import Failure, Measurement, Variant
from optiml_core.search import optimize
from optiml_core.search.counting import LaunchCounter
from optiml_core.search.records import Outcome, Proposal
from optiml_core.search.tree import SearchTree
from optiml_core.source import SourceFile, parse
from optiml_core.workload import find_workload

SOURCE = b"""// optiml: n = 64, x[n]: normal, block = 32, grid = 2
__global__ void k(float* x, int n) { x[blockIdx.x * 32 + threadIdx.x] *= 2.0f; }
"""
VARIANT = Variant("k.cu", SOURCE, "k")
KERNEL = ReportedKernel("k", "k(float *, int)", "_Z1kPfi", {"gpu__time_duration.sum": 1000.0}, (), (), {}, {})


def measured(speedup: float) -> Measurement:
    return Measurement("measured", "GPU", 1.0, speedup, speedup, speedup, speedup)


class Counted:
    """A device that is asked for reports and answers each time with the next of ``answers``."""

    def __init__(self, *answers: str | Failure) -> None:
        self.answers = list(answers)
        self.asked = 0

    def build(self, variant: Variant, template_arguments: Any = (), widened: bool = False) -> Built:
        return Built("token", variant)

    def write_ncu_report(self, built: Built, launch: Any, contents: Any, report: Path) -> str | Failure:
        self.asked += 1
        return self.answers.pop(0)


def counter(device: Any, mode: Any, monkeypatch: pytest.MonkeyPatch) -> LaunchCounter:
    monkeypatch.setattr(nsight_run, "read_report", lambda path: (KERNEL,))
    unit = parse(SourceFile("k.cu", SOURCE))
    return LaunchCounter(find_workload(unit, unit.kernels[0]), device, mode, 0)


@pytest.mark.parametrize(
    ("mode", "speedup", "parent", "counts"),
    [
        ("all", 0.5, 1.0, True),
        ("best", 1.5, 1.0, True),
        ("best", 1.5, 2.0, False),  # faster than the original, slower than its parent
        ("best", 0.9, 1.0, False),
        ("best", 0.9, 0.8, True),
        ("none", 5.0, 1.0, False),
    ],
)
def test_what_is_worth_counting(
    mode: str, speedup: float, parent: float, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counter(Counted(), mode, monkeypatch).worth_it(measured(speedup), parent) == counts
    assert counter(Counted(), mode, monkeypatch).counts_originals == (mode != "none")


def test_each_source_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Counted("_Z1kPfi", "_Z1kPfi")
    found = counter(device, "best", monkeypatch)
    assert found.count(VARIANT, "one") == KERNEL
    assert found.count(VARIANT, "one") == KERNEL
    assert device.asked == 1
    assert found.count(VARIANT, "two") == KERNEL
    assert device.asked == 2


def test_another_kernels_counters_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counter(Counted("_Z5otherPf"), "best", monkeypatch)
    assert found.count(VARIANT, "one") is None
    assert found.problem is None


def test_what_lasts_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Counted(Failure("crash", "this one only"), Failure("no-permission", "no counters for you"))
    found = counter(device, "best", monkeypatch)
    assert found.count(VARIANT, "one") is None
    assert found.problem is None
    assert found.count(VARIANT, "two") is None
    assert found.problem == Failure("no-permission", "no counters for you")
    assert found.count(VARIANT, "three") is None
    assert device.asked == 2


def test_a_node_knows_how_fast_its_parent_was() -> None:
    root = Outcome("not-better", "", 0.0, VARIANT, "root", measurement=measured(1.0), proposals=(step("a"),))
    tree = SearchTree.start(root)
    child = tree.select()
    assert child is not None
    assert optimize._task(child, frozenset(), None).parent_speedup == 1.0
    tree.complete(child, Outcome("better", "", 1.0, VARIANT, "a", measurement=measured(1.7), proposals=(step("b"),)))
    grandchild = tree.select()
    assert grandchild is not None
    assert grandchild.parent is child
    assert optimize._task(grandchild, frozenset(), None).parent_speedup == 1.7


def step(name: str) -> Proposal:
    return Proposal(name, {}, "", 1.0)
