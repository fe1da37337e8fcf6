"""Fixtures of the emulator's tests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_toolbox import Toolbox, build_toolbox, find_compiler


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def toolbox() -> Toolbox:
    compiler = find_compiler()
    assert isinstance(compiler, str)
    found = build_toolbox(BuildCache(), compiler)
    assert isinstance(found, Toolbox)
    return found


@pytest.fixture(scope="module")
def spawner() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield executor
