"""NVIDIA's tools on one launch: compute-sanitizer's checkers and Nsight Compute, each with a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from optiml_core.device.cuda.device import CudaDevice, lay_out
from optiml_core.device.cuda.replay import write_replay
from optiml_core.device.cuda.requests import LaunchNumbers, RunRequest
from optiml_core.device.protocol import Built, Contents
from optiml_core.records import Check, Failure, Launch
from optiml_core.toolchain import Toolchain

CHECKERS = ("memcheck", "racecheck", "initcheck", "synccheck")
SANITIZER_SECONDS = 90.0
NCU_SECONDS = 60.0
CLEAN = ("ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")
SECTIONS = (
    *("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "WarpStateStats", "SourceCounters"),
    *("InstructionStats", "ComputeWorkloadAnalysis"),
)


def sanitize(
    device: CudaDevice, built: Built, launch: Launch, contents: Contents, toolchain: Toolchain, checker: str
) -> Check:
    """One checker on one launch. Only an explicit clean summary passes; anything else is failed or not run."""
    tool = toolchain.tool("compute-sanitizer")
    name = f"compute-sanitizer {checker}"
    if tool.path is None:
        return Check(name, "not_run", tool.reason)
    command = [tool.path, "--tool", checker, "--error-exitcode", "99"]
    done = _on_replay(device, built, launch, contents, command, SANITIZER_SECONDS)
    if isinstance(done, Failure):
        return Check(name, "not_run", done.message)
    output = done.stdout + done.stderr
    if done.returncode == 0 and any(summary in output for summary in CLEAN):
        return Check(name, "passed", "explicit clean summary")
    if done.returncode == 99:
        lines = [line for line in output.splitlines() if "=========" in line and len(line) > 12]
        return Check(name, "failed", lines[1][10:200].strip() if len(lines) > 1 else "errors were reported")
    return Check(name, "not_run", f"no clean summary (status {done.returncode})")


def profile_with_ncu(
    device: CudaDevice, built: Built, launch: Launch, contents: Contents, toolchain: Toolchain, report: Path
) -> Failure | None:
    """Writes a report of one launch to ``report``. Clocks are left alone; a kernel that hangs under replay is ended.

    ncu replays the kernel, restoring what it wrote between the passes; where that fails (the memory to restore does not
    fit beside it, say) the whole launching process is replayed instead.
    """
    tool = toolchain.tool("ncu")
    if tool.path is None:
        return Failure("missing-tool", tool.reason, cure=tool.cure)
    image = device.image_of(built)
    if image is None:
        return Failure("bad-input", "this variant was built by another device")
    command = [tool.path, "--force-overwrite", "--export", str(report), "--clock-control", "none"]
    command += ["--target-processes", "all", "--launch-count", "1"]
    command += ["--kernel-name-base", "mangled", "--kernel-name", image.symbol]
    for section in SECTIONS:
        command += ["--section", section]
    failed: Failure | None = None
    for mode in ("kernel", "application"):
        done = _on_replay(device, built, launch, contents, [*command, "--replay-mode", mode], NCU_SECONDS)
        if isinstance(done, Failure):
            return done
        output = done.stdout + done.stderr
        if "ERR_NVGPUCTRPERM" in output:
            cure = "let users read counters: the driver option NVreg_RestrictProfilingToAdminUsers=0"
            return Failure("no-permission", "the driver does not let this user read GPU counters", cure=cure)
        if done.returncode == 0 and report.is_file():
            return None
        lines = [line for line in output.splitlines() if "ERROR" in line] or output.splitlines()[-1:]
        # What the first attempt said is the cause; the second's words would hide it.
        failed = failed or Failure("crash", f"ncu failed: {lines[0] if lines else done.returncode}")
        report.unlink(missing_ok=True)
    return failed


def _on_replay(
    device: CudaDevice, built: Built, launch: Launch, contents: Contents, command: list[str], seconds: float
) -> subprocess.CompletedProcess[str] | Failure:
    image = device.image_of(built)
    if image is None:
        return Failure("bad-input", "this variant was built by another device")
    laid = lay_out(launch, contents)
    numbers = LaunchNumbers(launch.grid, launch.block, launch.shared)
    request = RunRequest(built.token, numbers, laid.parameters, laid.buffers, laid.globals, 256, 0xFF)
    with tempfile.TemporaryDirectory(prefix="optiml-replay-") as folder, device.exclusive() as held:
        if isinstance(held, Failure):
            return held
        path = Path(folder) / "request"
        write_replay(path, device.index, image, request)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        try:
            return subprocess.run(
                [*command, sys.executable, "-m", "optiml_core.device.cuda.replay", str(path)],
                env=environment, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Failure("timeout", f"{Path(command[0]).name} did not end within {seconds:g} s")
        except OSError as error:
            return Failure("crash", f"{command[0]}: {error}")
