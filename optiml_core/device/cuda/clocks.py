"""The GPU's clock and what holds it down, from NVML, the driver's management library. Runs in the worker.

Where NVML is missing or does not answer, nothing is known; a measurement is made all the same.
"""

from __future__ import annotations

import ctypes
import time

from attrs import frozen

SM_CLOCK = 1  # NVML_CLOCK_SM
# nvmlClocksThrottleReasons of NVIDIA's NVML reference; idling and clocks that somebody asked for are none of them.
REASONS: dict[int, str] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
EVERY_SECONDS = 0.05  # a look takes tens of microseconds, and clocks change in milliseconds


@frozen
class Clocks:
    """``mhz`` of the multiprocessors, None where unknown; ``held_down_by``: reasons, empty for none."""

    mhz: int | None = None
    held_down_by: tuple[str, ...] = ()


UNKNOWN = Clocks()


def reasons_of(bits: int) -> tuple[str, ...]:
    """The reasons that a mask of NVML names."""
    return tuple(text for bit, text in REASONS.items() if bits & bit)


class ClockReader:
    """Reads the clocks of the GPU with a PCI bus id such as ``0000:3b:00.0``, at most every ``EVERY_SECONDS``."""

    def __init__(self, bus_id: str) -> None:
        self._library: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        self._last = UNKNOWN
        self._looked = -EVERY_SECONDS
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            ready = library.nvmlInit_v2() == 0
            if ready and library.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(self._handle)) == 0:
                self._library = library
        except (OSError, AttributeError):
            return  # no driver library, or one without these functions: nothing is known

    def read(self) -> Clocks:
        """The clock now, and what holds it down."""
        now = time.monotonic()
        if self._library is None or now - self._looked < EVERY_SECONDS:
            return self._last
        self._looked = now
        mhz, bits = ctypes.c_uint(), ctypes.c_ulonglong()
        known = self._library.nvmlDeviceGetClockInfo(self._handle, SM_CLOCK, ctypes.byref(mhz)) == 0
        asked = self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(bits)) == 0
        self._last = Clocks(mhz.value if known else None, reasons_of(bits.value) if asked else ())
        return self._last


class ClockLog:
    """What was seen since the last ``take``, for the notes of a measurement."""

    def __init__(self) -> None:
        self._mhz: list[int] = []
        self._reasons: dict[str, None] = {}

    def add(self, mhz: int | None, reasons: tuple[str, ...]) -> None:
        if mhz is not None:
            self._mhz.append(mhz)
        self._reasons.update(dict.fromkeys(reasons))

    def take(self) -> tuple[str, ...]:
        """Sentences: the clock's range, and what held it down. Empty where nothing was seen."""
        notes = []
        if self._mhz:
            low, high = min(self._mhz), max(self._mhz)
            notes.append(f"clock {low} MHz" if low == high else f"clock {low} to {high} MHz")
        if self._reasons:
            notes.append(f"the GPU was held down by: {', '.join(self._reasons)}")
        self._mhz, self._reasons = [], {}
        return tuple(notes)
