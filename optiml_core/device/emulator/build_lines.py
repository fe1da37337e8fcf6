"""Code addresses of a candidate to lines of the user's file, through addr2line and its debug information."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from optiml_core.device.emulator.build_command import Confinement, run_compiler
from optiml_core.records import Failure

_PER_CALL = 2000


class LineTable:
    """Offsets in one object -> lines, asked of addr2line in ``folder`` (4 ms) and then remembered."""

    def __init__(self, path: Path, own_file: str, folder: Path, confinement: Confinement) -> None:
        self._path = path
        self._folder = folder
        self._confinement = Confinement(confinement.launcher, (*confinement.readable, str(path)))
        self._own_file = own_file
        self._lines: dict[int, int | None] = {}
        self._places: dict[int, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def lines(self, offsets: Iterable[int]) -> dict[int, int | None]:
        """For each return address (an offset from the object's base): the line of the call, or None.

        Of inlined code the innermost line in the candidate's own file counts, so that an access inside a
        function of the shim belongs to the line that called it.
        """
        wanted = set(offsets)
        with self._lock:
            unknown = sorted(wanted - self._lines.keys())
            for start in range(0, len(unknown), _PER_CALL):
                self._lines.update(self._ask(unknown[start : start + _PER_CALL]))
            return {offset: self._lines.get(offset) for offset in wanted}

    def same_place(self, first: int, second: int) -> bool:
        """Whether two return addresses come from one place in the source: one call that g++ has duplicated.

        The places are compared with all the calls that were inlined around them.
        """
        self.lines((first, second))
        with self._lock:
            return bool(self._places.get(first)) and self._places.get(first) == self._places.get(second)

    def _ask(self, offsets: list[int]) -> dict[int, int | None]:
        tool = shutil.which("addr2line")
        found: dict[int, int | None] = dict.fromkeys(offsets)
        if tool is None:
            return found
        # One byte before the return address lies in the call itself.
        command = [tool, "-i", "-a", "-e", str(self._path), *(hex(max(offset - 1, 0)) for offset in offsets)]
        output = run_compiler(command, self._folder, confinement=self._confinement)
        if isinstance(output, Failure):
            return found
        current = -1
        for line in output.splitlines():
            if line.startswith("0x"):
                current += 1
                continue
            name, _, number = line.rpartition(":")
            number = number.split(" ")[0]  # without a discriminator, which tells copies of a line apart
            if 0 <= current < len(offsets) and number.isdigit():
                place = f"{os.path.basename(name)}:{number}"
                self._places[offsets[current]] = (*self._places.get(offsets[current], ()), place)
            own = os.path.basename(name) == self._own_file and number.isdigit()
            if own and 0 <= current < len(offsets) and found[offsets[current]] is None:
                found[offsets[current]] = int(number)
        return found
