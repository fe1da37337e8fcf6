"""``optiml setup-gpu``: installs PyCUDA and tries it with one kernel; says exactly what failed."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from pathlib import Path

import numpy as np

from optiml_core.cli.failure import DONE, MISSING, CommandFailure
from optiml_core.cli.output import messages
from optiml_core.device.cuda import find_gpus
from optiml_core.device.cuda.pycuda_build import build_and_install, install_from_wheels
from optiml_core.device.protocol import Contents, RunResult
from optiml_core.records import BufferArgument, BufferContent, Failure, Launch, Variant
from optiml_core.search.devices import open_device
from optiml_core.source import element_type_of
from optiml_core.toolchain import Toolchain, discover

PROBE = b"__global__ void probe(float* x) { x[threadIdx.x] += 1.0f; }\n"


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 if a kernel ran on the GPU, 3 if something is missing."""
    console = messages()
    toolchain = discover()
    if importlib.util.find_spec("pycuda") is None:
        console.print(f"installing PyCUDA {f'from {arguments.wheels}' if arguments.wheels else '(one to two minutes)'}")
        failure = install_from_wheels(Path(arguments.wheels)) if arguments.wheels else build_and_install(toolchain)
        if failure is not None:
            raise CommandFailure(failure, MISSING)
        importlib.invalidate_caches()
    console.print("PyCUDA is installed")
    inventory = find_gpus()
    if not inventory.usable:
        raise CommandFailure(Failure("no-device", inventory.reason, cure=inventory.cure), MISSING)
    problem = _try_kernel(toolchain)
    if problem is not None:
        raise CommandFailure(problem, MISSING)
    console.print(f"a kernel ran on {inventory.gpus[0].name}: --device cuda:0 works")
    return DONE


def _try_kernel(toolchain: Toolchain) -> Failure | None:
    device = open_device("cuda:0", toolchain)
    if isinstance(device, Failure):
        return device
    try:
        built = device.build(Variant("probe.cu", PROBE, "probe"))
        if isinstance(built, Failure):
            return built
        element = element_type_of("float")
        assert element is not None
        launch = Launch((1, 1, 1), (32, 1, 1), 0, (BufferArgument("x", element, 32, BufferContent("zeros")),))
        result = device.run(built, launch, Contents({"x": np.zeros(32, np.float32)}))
        if isinstance(result, Failure):
            return result
        assert isinstance(result, RunResult)
        if not bool((result.buffers["x"] == 1).all()):
            return Failure("crash", "the probe kernel gave a wrong result")
        return None
    finally:
        device.close()
