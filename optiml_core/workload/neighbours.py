"""Files beside a file that say what it launches: the project's headers that it includes, and its callers.

Only text is read, and only inside the project. A kernel in a header takes its launches from the files that include
it; a launcher that nothing in the file calls takes its arguments from a caller next to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from optiml_core.records import Failure, Kernel
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.toolchain.slice_includes import project_root, resolve
from optiml_core.workload.inference.drafting import sites_of
from optiml_core.workload.inference.program import Function, Program, index_program

MOST_FILES = 40
MOST_LISTED = 300
LARGEST_FILE = 1 << 20
# `\t$(LAUNCHER) ./$(program) 4096 100`, `\t./main 4096`
_RUN = re.compile(r"\t@?(?:\$\(\w+\)\s+)?(?:\./)?(?:\$[({]\w+[)}]|(?<=\./)[\w.-]+)((?:\s+[\w.+/=-]+)+)\s*$")
_SOURCES = {".cu", ".cuh", ".h", ".hpp", ".hh", ".cpp", ".cc", ".cxx", ".inl"}


def related_units(unit: TranslationUnit, kernel: Kernel) -> tuple[TranslationUnit, ...]:
    """The units, besides ``unit``, that take part in what ``kernel`` is launched with; nearest first.

    Empty for a text that is not a file on disk.
    """
    path = Path(unit.source.path)
    if not path.is_file():
        return ()
    found: dict[str, TranslationUnit] = {os.path.realpath(path): unit}
    _add_includes(unit, found)
    for _ in range(3):
        missing = _missing_names(list(found.values()), kernel)
        if not missing or not _add_callers(path, missing, found):
            break
    return tuple(one for one in found.values() if one is not unit)


def run_arguments(unit: TranslationUnit) -> tuple[str, ...]:
    """The arguments with which a Makefile beside the file runs its program first; empty where none does.

    Read from a line of a rule like ``./$(program) 4096 100``: text only, nothing of it is run.
    """
    path = Path(unit.source.path)
    if not path.is_file():
        return ()
    for name in ("Makefile", "makefile"):
        source = SourceFile.read(str(path.parent / name))
        if isinstance(source, Failure):
            continue
        for line in source.text.split("\n"):
            match = _RUN.match(line)
            # A command that names sources or options of a compiler is no run.
            if match and not re.search(r"\.(cu|cpp|cc|c|o|h)\b|\s-[A-Za-z]", match[1]):
                return tuple(match[1].split())
    return ()


def _add_includes(unit: TranslationUnit, found: dict[str, TranslationUnit]) -> None:
    for include in unit.includes:
        if not include.quoted or len(found) >= MOST_FILES:
            continue
        resolved = resolve(include.name, True, unit.source.path, (), None)
        if resolved.file is None or len(resolved.file.data) > LARGEST_FILE:
            continue
        real = os.path.realpath(resolved.file.path)
        if real not in found:
            found[real] = _parsed(resolved.file.path, resolved.file.data)
            _add_includes(found[real], found)


@lru_cache(maxsize=256)
def _parsed(path: str, data: bytes) -> TranslationUnit:
    return parse(SourceFile(path, data))


def _missing_names(units: Sequence[TranslationUnit], kernel: Kernel) -> list[str]:
    """Names whose uses are still to be found: the kernel if nothing launches it, else launchers that nothing calls."""
    sites = sites_of(units, kernel)
    if not sites:
        return [kernel.name]
    program = index_program(units)
    missing: list[str] = []
    for owner, site in sites:
        for function in program.all_functions():
            inside = function.node.start_byte <= site.range.start_byte < function.node.end_byte
            if function.unit is owner and inside:
                missing += _uncalled_above(program, function)
    return missing


def _uncalled_above(program: Program, function: Function) -> list[str]:
    """The functions at the top of the calls that lead to ``function``, unless a program starts there."""
    seen = {function.name}
    waiting, top = [function.name], []
    while waiting:
        name = waiting.pop()
        callers = {caller.name for caller, _ in program.calls.get(name, ())}
        if not callers - {name}:
            top.append(name)
        waiting += sorted(callers - seen)
        seen |= callers
    return [] if "main" in top else top


def _add_callers(path: Path, names: Sequence[str], found: dict[str, TranslationUnit]) -> bool:
    """Adds the sources near ``path`` that name one of ``names`` in a launch or call; whether there were any."""
    wanted = re.compile(rb"\b(" + b"|".join(re.escape(name.encode()) for name in names) + rb")\s*(<|\()")
    added = False
    for candidate in _sources_near(path):
        real = os.path.realpath(candidate)
        if real in found or len(found) >= MOST_FILES:
            continue
        source = SourceFile.read(str(candidate))
        if isinstance(source, Failure) or not wanted.search(source.data):
            continue
        with_includes = dict(found)
        with_includes[real] = _parsed(source.path, source.data)
        _add_includes(with_includes[real], with_includes)
        new = [one for path_of_one, one in with_includes.items() if path_of_one not in found]
        if any(_defines(one, name) for one in new for name in names):
            continue  # a namesake: it calls its own
        found.update(with_includes)
        added = True
    return added


def _defines(unit: TranslationUnit, name: str) -> bool:
    return unit.kernel(name) is not None or name in index_program([unit]).functions


def _sources_near(path: Path) -> Iterator[Path]:
    """Source files in the file's folder and the two above it, inside the project."""
    root = project_root(path.parent)
    folder = path.parent.absolute()
    for _ in range(3):
        try:
            names = sorted(os.listdir(folder))[:MOST_LISTED]
        except OSError:
            return
        for name in names:
            candidate = folder / name
            if candidate.suffix in _SOURCES and candidate.is_file() and candidate.stat().st_size <= LARGEST_FILE:
                yield candidate
        if folder == root or folder.parent == folder:
            return
        folder = folder.parent
