"""Machine code by source line, read with nvdisasm: what the compiler made of each line of a finalist.

nvdisasm takes half a second whatever the size, so that this is for variants that stay in the race only.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure
from optiml_core.toolchain.discovery import Toolchain
from optiml_core.toolchain.limited_process import ProcessLimits, run_limited
from optiml_core.toolchain.sass_instructions import access_bytes, instruction_class

_LARGEST_LISTING = 64 << 20
_LIMITS = ProcessLimits(cpu_seconds=30, seconds=60, memory=4 << 30, output=_LARGEST_LISTING, file_size=0)


@frozen
class SassLine:
    """The instructions of one source line in one kernel, counted where they stand (not how often they run).

    ``classes``: instructions by class (``sass_instructions.INSTRUCTION_CLASSES``). ``accesses``: memory instructions by
    (class, bytes a lane). ``loop_depth``: how many machine loops enclose the innermost of them.
    """

    file: str
    line: int
    instructions: int
    classes: Mapping[str, int]
    accesses: Mapping[tuple[str, int], int]
    loop_depth: int


@frozen
class SassLoop:
    """A machine loop: a backward branch. ``lines`` of ``file`` that its instructions come from; ``depth`` from 1."""

    file: str
    lines: tuple[int, ...]
    instructions: int
    depth: int
    classes: Mapping[str, int]


@frozen
class KernelSass:
    """One kernel's machine code. ``lines`` in the order of file and line; device functions that were not inlined are
    kernels of their own here."""

    kernel: str
    instructions: int
    classes: Mapping[str, int]
    lines: tuple[SassLine, ...]
    loops: tuple[SassLoop, ...]

    def line(self, number: int, file: str | None = None) -> SassLine | None:
        """The code of one line; ``file`` None: of whichever file has that line first."""
        for line in self.lines:
            if line.line == number and (file is None or os.path.abspath(line.file) == os.path.abspath(file)):
                return line
        return None

    @property
    def integer_share(self) -> float:
        """Integer instructions among all, 0..1: address arithmetic that a loop may repeat needlessly."""
        return self.classes.get("integer", 0) / self.instructions if self.instructions else 0.0


def sass_by_line(cubin: bytes, toolchain: Toolchain) -> dict[str, KernelSass] | Failure:
    """Disassembles an object that was compiled with ``-lineinfo``. By the lowered name of each kernel.

    Failure ``missing-tool`` without nvdisasm, ``crash`` or ``timeout`` if it does not read the object.
    """
    tool = toolchain.tool("nvdisasm")
    if tool.path is None:
        return Failure("missing-tool", tool.reason, cure=tool.cure)
    with tempfile.TemporaryDirectory(prefix="optiml-sass-") as folder:
        Path(folder, "kernel.cubin").write_bytes(cubin)
        program = os.path.dirname(os.path.realpath(tool.path))
        ran = run_limited([tool.path, "-c", "-g", "kernel.cubin"], folder, execute=[program], limits=_LIMITS)
    if isinstance(ran, Failure):
        return ran
    if ran.status != 0:
        return Failure("crash", f"nvdisasm could not read the machine code: {ran.output.strip()[:200]}")
    return read_listing(ran.output)


@frozen
class _Instruction:
    address: int
    file: str
    line: int
    kind: str
    size: int | None
    target: str  # label that a branch goes to


_SECTION = re.compile(r"^\.text\.(\S+):$")
_LOCATION = re.compile(r'//## File "(.*?)", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+|\.L_\d+):")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L\w+)\)")


def read_listing(listing: str) -> dict[str, KernelSass]:
    """Reads what ``nvdisasm -c -g`` prints."""
    found: dict[str, KernelSass] = {}
    name, file, line = "", "", 0
    instructions: list[_Instruction] = []
    labels: dict[str, int] = {}
    pending: list[str] = []

    def finish() -> None:
        if name and instructions:
            found[name] = _kernel(name, instructions, labels)

    for text in listing.splitlines():
        if section := _SECTION.match(text):
            finish()
            name, file, line, instructions, labels, pending = section[1], "", 0, [], {}, []
        elif location := _LOCATION.search(text):
            file, line = location[1], int(location[2])
        elif label := _LABEL.match(text):
            pending.append(label[1])
        elif (instruction := _INSTRUCTION.search(text)) and name:
            address = int(instruction[1], 16)
            labels.update(dict.fromkeys(pending, address))
            pending = []
            kind = instruction_class(instruction[2], instruction[3])
            target = _TARGET.search(instruction[3]) if instruction[2].startswith("BRA") else None
            size = access_bytes(kind, instruction[2])
            instructions.append(_Instruction(address, file, line, kind, size, target[1] if target else ""))
    finish()
    return found


def _kernel(name: str, instructions: list[_Instruction], labels: Mapping[str, int]) -> KernelSass:
    real = [instruction for instruction in instructions if instruction.kind != "none"]
    ranges = _loop_ranges(instructions, labels)
    by_line: dict[tuple[str, int], list[_Instruction]] = {}
    for instruction in real:
        if instruction.line:
            by_line.setdefault((instruction.file, instruction.line), []).append(instruction)
    lines = [
        SassLine(
            file,
            line,
            len(group),
            Counter(instruction.kind for instruction in group),
            Counter((instruction.kind, instruction.size) for instruction in group if instruction.size is not None),
            max(sum(start <= instruction.address <= end for start, end in ranges) for instruction in group),
        )
        for (file, line), group in sorted(by_line.items())
    ]
    loops = [_loop(start, end, real, ranges) for start, end in ranges]
    classes = Counter(instruction.kind for instruction in real)
    return KernelSass(name, len(real), classes, tuple(lines), tuple(loops))


def _loop_ranges(instructions: list[_Instruction], labels: Mapping[str, int]) -> list[tuple[int, int]]:
    """From head to last backward branch, one range per head. A branch to itself is the trap behind a kernel's end."""
    ends: dict[int, int] = {}
    for instruction in instructions:
        head = labels.get(instruction.target)
        if head is not None and head < instruction.address:
            ends[head] = max(instruction.address, ends.get(head, 0))
    return sorted(ends.items())


def _loop(start: int, end: int, instructions: list[_Instruction], ranges: list[tuple[int, int]]) -> SassLoop:
    inside = [instruction for instruction in instructions if start <= instruction.address <= end]
    depth = sum(outer_start <= start and end <= outer_end for outer_start, outer_end in ranges)
    files = Counter(instruction.file for instruction in inside if instruction.line)
    file = files.most_common(1)[0][0] if files else ""
    lines = sorted({instruction.line for instruction in inside if instruction.line and instruction.file == file})
    return SassLoop(file, tuple(lines), len(inside), depth, Counter(instruction.kind for instruction in inside))
