"""Compilers in limited child processes, resource usage, machine code, occupancy, GPU facts, discovery."""

from optiml_core.toolchain.candidate_includes import refuse_new_includes
from optiml_core.toolchain.capabilities import capabilities
from optiml_core.toolchain.compile_commands import ProjectFlags, project_flags
from optiml_core.toolchain.compile_pool import CompilePool
from optiml_core.toolchain.compile_records import CompiledKernel, CompileLimits, CompileRequest, compile_request
from optiml_core.toolchain.device_slice import DeviceSlice, SliceHeader, device_slice
from optiml_core.toolchain.discovery import TOOL_NAMES, Tool, Toolchain, discover
from optiml_core.toolchain.flags import allowed_flags, architecture_of
from optiml_core.toolchain.gpu_facts import DEFAULT_GPU, GpuFacts, compile_architecture, gpu_facts, known_gpus
from optiml_core.toolchain.limited_process import ProcessLimits, ProcessResult, run_limited
from optiml_core.toolchain.nvcc import compile_file_with_nvcc
from optiml_core.toolchain.occupancy import Occupancy, occupancy
from optiml_core.toolchain.sass import KernelSass, SassLine, SassLoop, sass_by_line
from optiml_core.toolchain.slice_includes import HEADERS_FOLDER

__all__ = [
    "DEFAULT_GPU",
    "HEADERS_FOLDER",
    "TOOL_NAMES",
    "CompileLimits",
    "CompilePool",
    "CompileRequest",
    "CompiledKernel",
    "DeviceSlice",
    "GpuFacts",
    "KernelSass",
    "Occupancy",
    "ProcessLimits",
    "ProcessResult",
    "ProjectFlags",
    "SassLine",
    "SassLoop",
    "SliceHeader",
    "Tool",
    "Toolchain",
    "allowed_flags",
    "architecture_of",
    "capabilities",
    "compile_architecture",
    "compile_file_with_nvcc",
    "compile_request",
    "device_slice",
    "discover",
    "gpu_facts",
    "known_gpus",
    "occupancy",
    "project_flags",
    "refuse_new_includes",
    "run_limited",
    "sass_by_line",
]
