"""Which GPUs this machine has and whether we may use them, without loading the driver into our own process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess

from attrs import frozen

QUERY = (
    *("index", "name", "uuid", "compute_cap"),
    *("driver_version", "memory.total", "mig.mode.current", "utilization.gpu"),
)
SECONDS = 10.0
BUSY_PERCENT = 10


@frozen
class Gpu:
    """One GPU as nvidia-smi reports it. ``index`` counts within CUDA_VISIBLE_DEVICES, as CUDA does."""

    index: int
    name: str
    uuid: str
    capability: tuple[int, int]
    driver: str
    memory: int  # bytes
    mig: bool
    utilization: int | None  # percent, by anyone

    @property
    def busy(self) -> bool:
        """Whether somebody else seems to be using it: timings would not be worth much."""
        return self.utilization is not None and self.utilization > BUSY_PERCENT


@frozen
class GpuInventory:
    """The visible GPUs; ``reason`` and ``cure`` say why there are none or why they cannot be used."""

    gpus: tuple[Gpu, ...]
    reason: str = ""
    cure: str = ""
    pycuda: bool = False

    @property
    def usable(self) -> bool:
        return bool(self.gpus) and self.pycuda


def find_gpus(program: str | None = None) -> GpuInventory:
    """Asks nvidia-smi (``program`` overrides where it is). Never raises."""
    pycuda = importlib.util.find_spec("pycuda") is not None
    path = program or shutil.which("nvidia-smi")
    if path is None:
        return GpuInventory((), "no NVIDIA driver: nvidia-smi was not found", "install NVIDIA's driver", pycuda)
    try:
        done = subprocess.run(
            [path, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return GpuInventory((), f"nvidia-smi did not answer: {error}", "check the driver's installation", pycuda)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        return GpuInventory(
            (), f"nvidia-smi failed: {said[-1] if said else done.returncode}", "check the driver's installation", pycuda
        )
    gpus = [gpu for line in done.stdout.splitlines() if (gpu := _read(line)) is not None]
    visible = _visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not visible:
        hidden = "CUDA_VISIBLE_DEVICES hides every GPU" if gpus else "nvidia-smi lists no GPU"
        return GpuInventory((), hidden, "unset CUDA_VISIBLE_DEVICES" if gpus else "", pycuda)
    if not pycuda:
        return GpuInventory(tuple(visible), "PyCUDA is not installed", "run `optiml setup-gpu`", False)
    return GpuInventory(tuple(visible), pycuda=True)


def _read(line: str) -> Gpu | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(QUERY):
        return None
    try:
        major, minor = (int(part) for part in fields[3].split("."))
        return Gpu(
            int(fields[0]),
            fields[1],
            fields[2],
            (major, minor),
            fields[4],
            int(float(fields[5])) << 20,
            fields[6].lower() == "enabled",
            int(fields[7]) if fields[7].isdigit() else None,
        )
    except ValueError:
        return None


def _visible(gpus: list[Gpu], setting: str | None) -> list[Gpu]:
    """CUDA_VISIBLE_DEVICES as CUDA reads it: numbers or UUID prefixes, up to the first that names nothing."""
    if setting is None:
        return gpus
    chosen: list[Gpu] = []
    for part in (text.strip() for text in setting.split(",")):
        found = [gpu for gpu in gpus if part and (part == str(gpu.index) or gpu.uuid.startswith(part))]
        if len(found) != 1:
            break
        gpu = found[0]
        chosen.append(
            Gpu(
                len(chosen),
                gpu.name,
                gpu.uuid,
                gpu.capability,
                gpu.driver,
                gpu.memory,
                gpu.mig,
                gpu.utilization,
            )
        )
    return chosen
