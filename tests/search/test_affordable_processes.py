"""Large buffers are held by fewer processes on a GPU machine."""

from __future__ import annotations

import pytest

from optiml_core.records import Failure, Launch
from optiml_core.search.run import affordable_processes
from optiml_core.source import SourceFile, parse
from optiml_core.workload import find_workload, resolve_launch


def launch_of(elements: int) -> Launch:
    text = f"// optiml: n = {elements}, x[n]: normal, y[n], block = 256, grid = ceil_div(n, 256)\n"
    unit = parse(SourceFile("f.cu", (text + "__global__ void f(const float* x, float* y, int n) {}\n").encode()))
    launch = resolve_launch(find_workload(unit, unit.kernels[0]))
    assert not isinstance(launch, Failure), launch
    return launch


@pytest.mark.parametrize(
    ("device", "elements", "processes"),
    [
        ("cuda:0", 1 << 20, 8),
        ("cuda:0", 8192 * 50257, 1),
        ("cuda:0", 1 << 28, 3),
        ("emulator", 8192 * 50257, 8),
    ],
)
def test_processes(device: str, elements: int, processes: int) -> None:
    assert affordable_processes(device, [launch_of(1), launch_of(elements)], 8) == processes
