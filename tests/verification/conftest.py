"""One emulator for all tests of the room; the original's side of every proof kernel is found once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.verification import Verifier
from tests.verification.proof import verifier_of


@pytest.fixture(scope="session")
def emulator() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as device:
        yield device


@pytest.fixture(scope="session")
def verifier(emulator: EmulatorDevice) -> Callable[[str], Verifier]:
    """The verifier of a proof kernel by name, kept for the session."""
    return cache(lambda kernel: verifier_of(kernel, emulator))
