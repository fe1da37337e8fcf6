"""What works on this machine, what does not, and how to get it back: the toolchain's part of ``optiml doctor``.

Each room that can be missing something contributes a list of ``Capability``; the command line joins them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from optiml_core.records import Capability
from optiml_core.toolchain.children.confinement import landlock_version
from optiml_core.toolchain.discovery import Tool, Toolchain

_PROBE = Path(__file__).parent / "children" / "driver_probe.py"
_OLDEST_GXX = 12
_OLDEST_PYTHON = (3, 11)


def capabilities(toolchain: Toolchain) -> tuple[Capability, ...]:
    """Platform, Python packages, compilers, tools, driver, GPU, permission to read counters. Never raises."""
    gpus = _gpu_driver()
    return (
        _platform(),
        _packages(
            "parsing and numbers", ("attrs", "cattrs", "libclang", "ml-dtypes", "numpy", "tree-sitter"), "optiml"
        ),
        _packages("language server", ("pygls", "lsprotocol", "watchdog"), "optiml"),
        _host_compiler(toolchain.tool("g++")),
        _tool(toolchain.tool("nvrtc"), "NVRTC (compiles candidates)"),
        _tool(toolchain.tool("nvcc"), "nvcc (compiles winners and whole files)"),
        _headers(toolchain),
        _tool(toolchain.tool("nvdisasm"), "nvdisasm (machine code by line)"),
        _tool(toolchain.tool("cuobjdump"), "cuobjdump"),
        _confinement(),
        gpus,
        _tool(toolchain.tool("ncu"), "Nsight Compute (ncu)"),
        _counter_permission(toolchain.tool("ncu"), gpus.available),
        _tool(toolchain.tool("compute-sanitizer"), "compute-sanitizer"),
        _packages("Nsight reports", ("ncu-report",), "optiml[gpu]"),
        _packages("PyCUDA", ("pycuda",), "optiml", "optiml setup-gpu"),
        _packages("local language models", ("torch", "transformers", "safetensors"), "optiml[llm]"),
        _packages("chat endpoints", ("openai",), "optiml[llm]"),
        _packages("several machines", ("ray",), "optiml[ray]"),
    )


def _platform() -> Capability:
    system, machine = platform.system(), platform.machine()
    detail = f"{system} {machine}, Python {platform.python_version()}"
    if sys.version_info < _OLDEST_PYTHON:
        return Capability("platform", False, detail, "use Python 3.11 or later")
    if system == "Linux" and machine in ("x86_64", "aarch64"):
        return Capability("platform", True, detail)
    cure = "use WSL" if system == "Windows" else "use Linux; here, only static findings work"
    return Capability("platform", False, detail, cure)


def _packages(name: str, packages: Sequence[str], extra: str, cure: str = "") -> Capability:
    present, missing = [], []
    for package in packages:
        try:
            present.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return Capability(name, False, f"not installed: {', '.join(missing)}", cure or f"pip install '{extra}'")
    return Capability(name, True, ", ".join(present))


def _host_compiler(tool: Tool) -> Capability:
    name = "g++ (builds kernels for the emulator)"
    if tool.path is not None and int((tool.version or "0").split(".")[0]) < _OLDEST_GXX:
        return Capability(name, False, f"{tool.path} is version {tool.version}", "install g++ 12 or later")
    return _tool(tool, name)


def _tool(tool: Tool, name: str) -> Capability:
    if tool.path is None:
        return Capability(name, False, tool.reason, tool.cure)
    return Capability(name, True, f"{tool.version} at {tool.path}")


def _headers(toolchain: Toolchain) -> Capability:
    name = "CUDA headers (cuda_fp16.h, cooperative_groups.h, cub)"
    tools = [toolchain.tool("cuda_headers"), toolchain.tool("cccl_headers")]
    missing = [tool for tool in tools if tool.path is None]
    if missing:
        return Capability(name, False, "; ".join(tool.reason for tool in missing), missing[0].cure)
    return Capability(name, True, "; ".join(f"{tool.version} at {tool.path}" for tool in tools))


def _confinement() -> Capability:
    version = landlock_version()
    name = "confined compilers (Landlock)"
    if version == 0:
        cure = "use Linux 5.13 or later with Landlock enabled (lsm=landlock,...)"
        return Capability(name, False, "compilers run with limits only: the kernel cannot keep them from files", cure)
    return Capability(name, True, f"Landlock version {version}")


def _gpu_driver() -> Capability:
    name = "GPU and driver"
    cure = "install the NVIDIA driver, 580 or later for CUDA 13; without one, kernels run in the emulator"
    try:
        ran = subprocess.run(
            [sys.executable, "-I", "-S", str(_PROBE)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES") if name in os.environ},
        )
        answer = json.loads(ran.stdout or "{}")
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return Capability(name, False, f"the driver does not answer: {error}", cure)
    if "error" in answer:
        return Capability(name, False, str(answer["error"]), cure)
    if not answer.get("gpus"):
        return Capability(name, False, "the driver sees no GPU", cure)
    gpus = ", ".join(f"cuda:{number} {gpu}" for number, gpu in enumerate(answer["gpus"]))
    if float(answer["driver"]) < 13:
        return Capability(name, False, f"{gpus}; the driver is for CUDA {answer['driver']}", cure)
    return Capability(name, True, f"{gpus}; the driver is for CUDA {answer['driver']}")


def _counter_permission(ncu: Tool, has_gpu: bool) -> Capability:
    """Whether ncu may read counters: NVIDIA's driver restricts them to administrators unless told otherwise
    (https://developer.nvidia.com/ERR_NVGPUCTRPERM)."""
    name = "permission to read GPU counters"
    if not has_gpu or ncu.path is None:
        return Capability(name, False, "needs a GPU and Nsight Compute", ncu.cure or "see GPU and driver")
    try:
        parameters = Path("/proc/driver/nvidia/params").read_text()
    except OSError as error:
        return Capability(name, False, f"the driver's settings cannot be read: {error}", "run a profile to find out")
    restricted = re.search(r"RmProfilingAdminOnly:\s*1", parameters) is not None
    if not restricted or _may_administer():
        return Capability(name, True, "for every user" if not restricted else "for this user, who is an administrator")
    cure = (
        "as root, write 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' to a file in /etc/modprobe.d and "
        "reboot; without it, profiles come from the emulator and from static analysis"
    )
    return Capability(name, False, "the driver lets only administrators read counters", cure)


def _may_administer() -> bool:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    effective = re.search(r"CapEff:\s*([0-9a-f]+)", status)
    return effective is not None and bool(int(effective[1], 16) >> 21 & 1)  # CAP_SYS_ADMIN
