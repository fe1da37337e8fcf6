"""Compilers in limited child processes, resource usage, machine code, occupancy, GPU facts, discovery."""

from optiml_core.toolchain.device_slice import DeviceSlice, SliceHeader, device_slice
from optiml_core.toolchain.discovery import TOOL_NAMES, Tool, Toolchain, discover
from optiml_core.toolchain.gpu_facts import DEFAULT_GPU, GpuFacts, compile_architecture, gpu_facts, known_gpus
from optiml_core.toolchain.occupancy import Occupancy, occupancy
from optiml_core.toolchain.slice_includes import HEADERS_FOLDER

__all__ = [
    "DEFAULT_GPU",
    "HEADERS_FOLDER",
    "TOOL_NAMES",
    "DeviceSlice",
    "GpuFacts",
    "Occupancy",
    "SliceHeader",
    "Tool",
    "Toolchain",
    "compile_architecture",
    "device_slice",
    "discover",
    "gpu_facts",
    "known_gpus",
    "occupancy",
]
