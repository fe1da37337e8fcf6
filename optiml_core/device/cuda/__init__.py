"""Runs variants on an NVIDIA GPU, in a worker process per GPU."""

from optiml_core.device.cuda.device import CudaDevice
from optiml_core.device.cuda.discovery import Gpu, GpuInventory, find_gpus

__all__ = ["CudaDevice", "Gpu", "GpuInventory", "find_gpus"]
