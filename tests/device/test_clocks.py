"""What is said of a GPU's clocks; reading them needs a driver, and tests/gpu."""

from __future__ import annotations

import pytest

from optiml_core.device.cuda.clocks import UNKNOWN, ClockLog, ClockReader, reasons_of


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x0, ()),
        (0x1, ()),  # idle: nothing holds it down
        (0x2, ()),  # clocks that somebody asked for
        (0x4, ("power cap",)),
        (0x4 | 0x40 | 0x1, ("power cap", "hardware thermal slowdown")),
        (0x8, ("hardware slowdown",)),
    ],
)
def test_reasons(bits: int, reasons: tuple[str, ...]) -> None:
    assert reasons_of(bits) == reasons


@pytest.mark.parametrize(
    ("seen", "notes"),
    [
        ([], ()),
        ([(None, ())], ()),
        ([(1980, ()), (1980, ())], ("clock 1980 MHz",)),
        (
            [(1980, ()), (1500, ("power cap",)), (1755, ("power cap", "power brake"))],
            ("clock 1500 to 1980 MHz", "the GPU was held down by: power cap, power brake"),
        ),
    ],
)
def test_notes(seen: list[tuple[int | None, tuple[str, ...]]], notes: tuple[str, ...]) -> None:
    log = ClockLog()
    for mhz, reasons in seen:
        log.add(mhz, reasons)
    assert log.take() == notes
    assert log.take() == ()  # of the timings since the last time only


def test_without_nvml_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", no_library)
    assert ClockReader("0000:00:00.0").read() == UNKNOWN
