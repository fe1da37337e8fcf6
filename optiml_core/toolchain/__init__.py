"""Compilers in limited child processes, resource usage, machine code, occupancy, GPU facts, discovery."""

from optiml_core.toolchain.discovery import TOOL_NAMES, Tool, Toolchain, discover
from optiml_core.toolchain.gpu_facts import DEFAULT_GPU, GpuFacts, compile_architecture, gpu_facts, known_gpus
from optiml_core.toolchain.occupancy import Occupancy, occupancy

__all__ = [
    "DEFAULT_GPU",
    "TOOL_NAMES",
    "GpuFacts",
    "Occupancy",
    "Tool",
    "Toolchain",
    "compile_architecture",
    "discover",
    "gpu_facts",
    "known_gpus",
    "occupancy",
]
