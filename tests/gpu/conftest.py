"""Tests on a real GPU: skipped, with the reason, where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optiml_core.device.cuda import CudaDevice, find_gpus
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover


@pytest.fixture(scope="session")
def gpu() -> Iterator[CudaDevice]:
    """The first GPU. One worker for all tests: what one test does to it must not reach the next."""
    inventory = find_gpus()
    if not inventory.usable:
        pytest.skip(f"no usable GPU: {inventory.reason}")
    device = open_device("cuda:0", discover())
    assert isinstance(device, CudaDevice), device
    yield device
    device.close()
