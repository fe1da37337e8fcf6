"""What of the GPU works here: for `optiml doctor`."""

from __future__ import annotations

import importlib.util

from optiml_core.device.cuda.discovery import find_gpus
from optiml_core.records import Capability


def gpu_capabilities() -> tuple[Capability, ...]:
    """The driver and its GPUs, PyCUDA, the reader of Nsight reports; each with its cure. Loads nothing."""
    inventory = find_gpus()
    if not inventory.gpus:
        found = [Capability("GPU", False, inventory.reason, inventory.cure)]
    else:
        found = [
            Capability(
                f"GPU {gpu.index}",
                True,
                f"{gpu.name}, driver {gpu.driver}, {gpu.memory >> 30} GiB"
                + (", MIG is on" if gpu.mig else "")
                + (f", busy ({gpu.utilization} %): timings will be inconclusive" if gpu.busy else ""),
            )
            for gpu in inventory.gpus
        ]
    cure = "run `optiml setup-gpu`" if inventory.gpus else "needed only with an NVIDIA GPU"
    found.append(_package("pycuda", "runs kernels on a GPU", cure))
    found.append(_package("ncu_report", "reads Nsight Compute reports", "pip install 'optiml[gpu]'"))
    return tuple(found)


def _package(name: str, what: str, cure: str) -> Capability:
    there = importlib.util.find_spec(name) is not None
    return Capability(name, there, f"{what}" if there else f"not installed: {what}", "" if there else cure)
