"""compute-sanitizer and Nsight Compute on a real GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.cuda.tools import CHECKERS, profile_with_ncu, sanitize
from optiml_core.device.protocol import Contents
from optiml_core.profiling.nsight import profile_of, read_report
from optiml_core.records import Launch
from optiml_core.toolchain import discover

from .test_cuda_device import SAXPY, buffer, build, scalar

pytestmark = pytest.mark.gpu


def saxpy_launch() -> tuple[Launch, Contents]:
    x, y = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    arguments = (scalar("n", 4096), scalar("a", 2.0, "float"), buffer("x", x), buffer("y", y))
    return Launch((16, 1, 1), (256, 1, 1), 0, arguments), Contents({"x": x, "y": y})


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_clean_kernel_has_a_clean_summary(gpu: CudaDevice, checker: str) -> None:
    launch, contents = saxpy_launch()
    check = sanitize(gpu, build(gpu, SAXPY), launch, contents, discover(), checker)
    assert check.result == "passed", check


FAULTS: dict[str, Any] = {
    "memcheck": SAXPY.replace("y[i] = a", "y[i + 100000000] = a"),
    "racecheck": SAXPY.replace("int i =", "__shared__ float s[1]; s[0] = threadIdx.x; int i =").replace(
        "+ y[i]", "+ s[0]"
    ),
}


@pytest.mark.parametrize("checker", FAULTS)
def test_a_fault_is_found(gpu: CudaDevice, checker: str) -> None:
    launch, contents = saxpy_launch()
    check = sanitize(gpu, build(gpu, FAULTS[checker]), launch, contents, discover(), checker)
    assert check.result == "failed", check


def test_a_report_is_made_and_read(gpu: CudaDevice, tmp_path: Path) -> None:
    launch, contents = saxpy_launch()
    report = tmp_path / "saxpy.ncu-rep"
    assert profile_with_ncu(gpu, build(gpu, SAXPY), launch, contents, discover(), report) is None
    reported = read_report(report)
    assert isinstance(reported, tuple), reported
    assert "saxpy" in reported[0].function
    profile = profile_of(reported[0], "k.cu", "saxpy", "ncu")
    assert profile.time is not None
    assert 0 < profile.time < 1e-3
    # Two loads and a store of 4096 floats by 16 blocks of 8 warps, four sectors each.
    assert profile.metrics["global_requests"] == 3 * 128
    assert profile.metrics["global_sectors"] == 4 * 3 * 128
