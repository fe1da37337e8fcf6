"""Counts one launch on a GPU with Nsight Compute, and makes sure that what came back is that launch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.cuda.tools import profile_with_ncu
from optiml_core.device.protocol import Built, Contents
from optiml_core.profiling.nsight.profile import DURATION
from optiml_core.profiling.nsight.report import ReportedKernel, read_report
from optiml_core.records import Failure, Launch
from optiml_core.toolchain import Toolchain


def count_launch(
    device: CudaDevice, built: Built, launch: Launch, contents: Contents, toolchain: Toolchain
) -> ReportedKernel | Failure:
    """ncu's counters of one launch, with its rules' results. A profiler that ran and counted nothing is a Failure."""
    image = device.image_of(built)
    if image is None:
        return Failure("bad-input", "this variant was built by another device")
    with tempfile.TemporaryDirectory(prefix="optiml-ncu-") as folder:
        report = Path(folder) / "launch.ncu-rep"
        failed = profile_with_ncu(device, built, launch, contents, toolchain, report)
        if failed is not None:
            return failed
        reported = read_report(report)
    if isinstance(reported, Failure):
        return reported
    return launch_of(reported, image.symbol)


def launch_of(reported: tuple[ReportedKernel, ...], symbol: str) -> ReportedKernel | Failure:
    """The launch of the kernel with this mangled name; demangled ones differ between tools."""
    own = [kernel for kernel in reported if kernel.mangled == symbol]
    if not own:
        names = ", ".join(sorted({kernel.mangled for kernel in reported}))
        return Failure("no-counters", f"ncu profiled {names} and not {symbol}")
    if not own[0].number(DURATION):
        return Failure("no-counters", "ncu ran and measured nothing")
    return own[0]
