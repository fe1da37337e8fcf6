"""The CUDA compiler takes the candidate, and a GPU takes its block: the emulator's C++ compiler is more lenient.

Arrays of variable length, host variables and functions compile there and not here; a launch bound below the block's
threads, or more registers than a multiprocessor has, stop the launch on a GPU only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from optiml_core.device.cuda.device import CompiledForGpu
from optiml_core.records import Failure, Launch, Variant

# (variant, template arguments, "sm_90") -> compiled
GpuCompiler = Callable[[Variant, tuple[str, ...], str], CompiledForGpu | Failure]

REGISTERS = 65536  # of a multiprocessor, on every GPU since Kepler; given out in units of 256 to a warp
_REGISTER_UNIT = 256
_MOST_THREADS = re.compile(r"\.maxntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_ARCHITECTURE = re.compile(r"(?:sm|compute)_\d+[af]?")
_DEFAULT_ARCHITECTURE = "sm_90"


def architecture(flags: tuple[str, ...]) -> str:
    """The GPU architecture that the project compiles for, else a recent one."""
    found = [match.group() for flag in flags for match in _ARCHITECTURE.finditer(flag)]
    return found[0].replace("compute_", "sm_") if found else _DEFAULT_ARCHITECTURE


def launch_problem(compiled: CompiledForGpu, launch: Launch) -> str | None:
    """Why a GPU would not launch this block, or None."""
    threads = prod(launch.block)
    bound = _MOST_THREADS.search(compiled.ptx)
    if bound is not None:
        most = prod(int(one or 1) for one in bound.groups())
        if threads > most:
            return f"blocks of {threads} threads; its launch bound allows {most}"
    if compiled.resources is not None:
        of_a_warp = -(-compiled.resources.registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
        needed = -(-threads // 32) * of_a_warp
        if needed > REGISTERS:
            return f"blocks of {threads} threads need {needed} registers; a multiprocessor has {REGISTERS}"
    return None
