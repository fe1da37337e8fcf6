"""A file together with the files that it includes by quoted names: kernels often live in those."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure, Kernel, LaunchSite
from optiml_core.source.parsing import parse
from optiml_core.source.source_file import SourceFile
from optiml_core.source.translation_unit import TranslationUnit, names_kernel

MOST_FILES = 200
MOST_BYTES = 32 * 1024 * 1024


@frozen
class UnitWithIncludes:
    """``units``: the file itself first, then what it includes, each once, in the order of inclusion.

    ``missing``: names that no folder had, with the file and line that include them. ``left_out``: why
    some files were not read (limits, unreadable files).
    """

    units: tuple[TranslationUnit, ...]
    missing: tuple[tuple[str, str, int], ...]
    left_out: tuple[Failure, ...]

    @property
    def kernels(self) -> tuple[tuple[TranslationUnit, Kernel], ...]:
        """Every kernel with the unit that defines it."""
        return tuple((unit, kernel) for unit in self.units for kernel in unit.kernels)

    def launches_of(self, kernel: Kernel) -> tuple[LaunchSite, ...]:
        """The launches of a kernel in any of the files."""
        return tuple(s for unit in self.units for s in unit.launch_sites if names_kernel(s.kernel, kernel))


def parse_with_includes(
    path: str | Path,
    include_folders: Sequence[str | Path] = (),
    read: Callable[[str], SourceFile | Failure] = SourceFile.read,
) -> UnitWithIncludes | Failure:
    """Parses a file and, file by file, what it includes by a quoted name: looked for beside the including
    file, then in ``include_folders``. ``read`` may give an editor's buffer. A ``Failure`` only if the
    file itself cannot be read."""
    first = read(os.fspath(path))
    if isinstance(first, Failure):
        return first
    units: list[TranslationUnit] = []
    missing: list[tuple[str, str, int]] = []
    left_out: list[Failure] = []
    known = {_key(first.path)}
    waiting = [first]
    total = 0
    while waiting:
        source = waiting.pop(0)
        total += len(source.data)
        if len(units) >= MOST_FILES or total > MOST_BYTES:
            left_out.append(Failure("refused", f"too many or too large included files: {source.path}", source.path))
            continue
        unit = parse(source)
        units.append(unit)
        found: list[SourceFile] = []
        for include in unit.includes:
            if not include.quoted:
                continue
            target = find_included(include.name, source.path, include_folders)
            if target is None:
                missing.append((include.name, source.path, include.range.start_line))
            elif _key(target) not in known:
                known.add(_key(target))
                included = read(target)
                if isinstance(included, Failure):
                    left_out.append(included)
                else:
                    found.append(included)
        waiting[:0] = found
    return UnitWithIncludes(tuple(units), tuple(missing), tuple(left_out))


def _key(path: str) -> str:
    return os.path.realpath(path)


def find_included(name: str, including: str, folders: Sequence[str | Path]) -> str | None:
    """The file that a quoted include means: beside the including file, else in the folders; or None."""
    for folder in (Path(including).parent, *map(Path, folders)):
        try:
            candidate = folder / name
            if candidate.is_file():
                return os.path.normpath(candidate)
        except (OSError, ValueError):  # a name with a NUL byte, or one that is too long
            continue
    return None
