"""Shared by the tests of the fences: a plain kernel, and objects that no fence has seen."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.emulator.worker import Worker, start_worker
from optiml_core.records import BufferArgument, BufferContent, Failure, Launch
from optiml_core.source import element_type_of

KERNEL = "__global__ void k(int* x) {\n  x[0] = 1;\n}\n"

INT = element_type_of("int")
assert INT is not None
ONE = Launch((1, 1, 1), (1, 1, 1), 0, (BufferArgument("x", INT, 1, BufferContent("zeros")),))


def hostile_object(folder: Path, body: str, *flags: str) -> bytes:
    """An object that no fence has seen: plain C++ with whatever it likes."""
    source, target = folder / "hostile.cpp", folder / "hostile.so"
    source.write_text(f'extern "C" {{\n{PRELUDE}\n{body}\n}}\n')
    subprocess.run(
        ["g++", "-O1", "-fPIC", "-shared", "-nostdlib", "-w", *flags, str(source), "-o", str(target)], check=True
    )
    return target.read_bytes()


PRELUDE = """
static long call(long n, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long r10 asm("r10") = d; register long r8 asm("r8") = e; register long r9 asm("r9") = f;
  asm volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}
"""


def request(parameters: int = 0, **changes: Any) -> wire.Request:
    """One launch of one thread, with ``parameters`` arguments of 64 bytes each at the front of the payload."""
    table = np.zeros(parameters, wire.PARAMETER)
    table["value_offset"] = wire.PAYLOAD + 64 * np.arange(parameters)
    values: dict[str, Any] = {
        "sequence": 1, "grid": (1, 1, 1), "block": (1, 1, 1), "dynamic_shared": 0, "lockstep": False, "races": False,
        "initialisation": False, "traffic": False, "poison": 255, "schedule": 0, "steps": 0, "output_limit": 0,
        "shared_limit": 0, "memory_limit": 0, "parameters": table, "ranges": np.zeros(0, wire.RANGE),
        "fills": np.zeros(0, wire.COPY), "read_backs": np.zeros(0, wire.COPY), "blocks": np.zeros(0, np.uint32),
    }  # fmt: skip
    return wire.Request(**{**values, **changes})


def started(
    toolbox: Toolbox, spawner: ThreadPoolExecutor, folder: Path, data: bytes, memory: int = 1 << 30
) -> Worker | Failure:
    return start_worker(spawner, toolbox.worker, folder, data, fenced=True, memory=memory)
