"""Counts one launch on a GPU with Nsight Compute, and makes sure that what came back is that launch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from optiml_core.device.protocol import Built, Contents, MeasuringDevice
from optiml_core.profiling.nsight.profile import DURATION
from optiml_core.profiling.nsight.report import ReportedKernel, read_report
from optiml_core.records import Failure, Launch


def count_launch(device: MeasuringDevice, built: Built, launch: Launch, contents: Contents) -> ReportedKernel | Failure:
    """ncu's counters of one launch, with its rules' results. A profiler that ran and counted nothing is a Failure."""
    with tempfile.TemporaryDirectory(prefix="optiml-ncu-") as folder:
        report = Path(folder) / "launch.ncu-rep"
        symbol = device.write_ncu_report(built, launch, contents, report)
        if isinstance(symbol, Failure):
            return symbol
        reported = read_report(report)
    return reported if isinstance(reported, Failure) else launch_of(reported, symbol)


def launch_of(reported: tuple[ReportedKernel, ...], symbol: str) -> ReportedKernel | Failure:
    """The launch of the kernel with this mangled name; demangled ones differ between tools."""
    own = [kernel for kernel in reported if kernel.mangled == symbol]
    if not own:
        names = ", ".join(sorted({kernel.mangled for kernel in reported}))
        return Failure("no-counters", f"ncu profiled {names} and not {symbol}")
    if not own[0].number(DURATION):
        return Failure("no-counters", "ncu ran and measured nothing")
    return own[0]
