"""Searches the workspace for other files that launch a kernel: a changed launch has to follow in each of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from optiml_core.records import Kernel, LaunchSite
from optiml_core.source import SourceFile, TranslationUnit, parse

ENDINGS = frozenset({".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".cc", ".cpp", ".cxx"})
SKIPPED_FOLDERS = frozenset({".git", "build", "node_modules", "third_party", ".venv", "venv", "__pycache__"})
MOST_FILES = 4000
MOST_BYTES = 64 << 20
LARGEST_FILE = 2 << 20
LAUNCHING_WORDS = (b"<<<", b"cudaLaunch")

# A file of one of these names says that its folder is a project, or a part of one.
BUILD_FILES = (
    "Makefile",
    "makefile",
    "CMakeLists.txt",
    "meson.build",
    "compile_commands.json",
    "BUILD.bazel",
    "setup.py",
)
FOLDERS_ABOVE = 2  # as far as a workload looks for callers


def workspace_root(kernel: Kernel, file: str) -> str:
    """The folder to search for launches: the repository's, else the outermost near one that belongs to a project.

    Without ``.git`` (an unpacked archive, a copy) that is the outermost folder, at most two above the file's own, with
    a build file or with a source that launches the kernel; else the file's own folder. Looks, runs nothing.
    """
    folder = Path(os.path.abspath(file)).parent
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return str(candidate)
    near = (folder, *folder.parents)[: FOLDERS_ABOVE + 1]
    for candidate in reversed(near[1:]):
        if any((candidate / name).is_file() for name in BUILD_FILES) or _launched_in(kernel, file, candidate):
            return str(candidate)
    return str(folder)


def _launched_in(kernel: Kernel, file: str, folder: Path) -> bool:
    """Whether a source directly in ``folder`` launches the kernel."""
    try:
        names = sorted(os.listdir(folder))[:MOST_FILES]
    except OSError:
        return False
    own = os.path.realpath(file)
    texts = ((name, _source_bytes(Path(folder, name), own)) for name in names)
    return any(data is not None and _launches(kernel, name, data) for name, data in texts)


def _launches(kernel: Kernel, path: str, data: bytes) -> bool:
    # Only a file with the name and a launch is worth parsing.
    named = re.search(rb"\b" + re.escape(kernel.name.encode()) + rb"\b", data) is not None
    if not named or not any(word in data for word in LAUNCHING_WORDS):
        return False
    return bool(launches_of(kernel, parse(SourceFile(path, data))))


def launches_of(kernel: Kernel, unit: TranslationUnit) -> tuple[LaunchSite, ...]:
    """The launches in another file that may be of this kernel, with or without its namespaces.

    A launch of the same name is of another kernel where it gives template arguments to what is no template, or more
    arguments than there are parameters. Fewer prove nothing: a declaration over there may give defaults.
    """
    return tuple(
        site
        for site in unit.launches_of(kernel)
        if (kernel.template_parameters or not site.template_arguments) and len(site.arguments) <= len(kernel.parameters)
    )


def _source_bytes(path: Path, own: str) -> bytes | None:
    """The bytes of a source file that is not ``own``; None for anything else, and for what cannot be read."""
    if path.suffix not in ENDINGS or os.path.realpath(path) == own:
        return None
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return None
        return path.read_bytes()
    except OSError:
        return None


_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">\n]+)[\">]", re.MULTILINE)


@frozen
class _Facts:
    """What one file says of the kernel's name."""

    includes: frozenset[str]  # base names
    declares: bool
    defines: bool


def files_that_launch(kernel: Kernel, file: str, root: str) -> dict[str, bytes]:
    """Path -> bytes of the files below ``root``, other than ``file``, that may launch the kernel.

    Such a file can see the kernel: it includes ``file``, or declares the kernel, itself or by way of other files (told
    apart by their base names). Another kernel of the same name, which is defined there, is not meant.
    Looks at most at ``MOST_FILES`` files and ``MOST_BYTES`` bytes; follows no links out of the folder.
    """
    own = os.path.realpath(file)
    launchers: dict[str, bytes] = {}
    facts: dict[str, _Facts] = {}
    by_name: dict[str, list[_Facts]] = {}
    for path, data in _texts(own, root):
        facts[path] = _facts(kernel, data)
        by_name.setdefault(os.path.basename(path), []).append(facts[path])
        if _launches(kernel, path, data):
            launchers[path] = data
    here = os.path.basename(file)
    return {path: data for path, data in launchers.items() if _sees(facts[path], here, by_name)}


def _texts(own: str, root: str) -> Iterator[tuple[str, bytes]]:
    seen = total = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            data = _source_bytes(path, own)
            if data is None:
                continue
            seen += 1
            total += len(data)
            if seen > MOST_FILES or total > MOST_BYTES:
                return
            yield str(path), data


def _facts(kernel: Kernel, data: bytes) -> _Facts:
    includes = frozenset(os.path.basename(one.decode("utf-8", "replace")) for one in _INCLUDE.findall(data))
    name = re.escape(kernel.name.encode())
    openings = re.finditer(rb"__global__[^;{}]*?\b" + name + rb"\s*\(", data) if kernel.name.encode() in data else ()
    endings = [_ending(data, match.end()) for match in openings]
    return _Facts(includes, b";" in endings, b"{" in endings)


def _ending(data: bytes, at: int) -> bytes:
    """What follows the parameter list that opens before ``at``: ``;`` of a declaration, ``{`` of a definition."""
    depth = 1
    for match in re.compile(rb"[(){;]").finditer(data, at):
        depth += {b"(": 1, b")": -1}.get(match[0], 0)
        if depth <= 0 and match[0] in (b"{", b";"):
            return match[0]
    return b""


def _sees(launcher: _Facts, here: str, by_name: Mapping[str, list[_Facts]]) -> bool:
    if launcher.defines:
        return False
    visible, waiting = {*launcher.includes}, [*launcher.includes]
    declared = launcher.declares
    while waiting:
        for one in by_name.get(waiting.pop(), ()):
            if one.defines and here not in launcher.includes:
                return False
            declared = declared or one.declares
            waiting += one.includes - visible
            visible |= one.includes
    return declared or here in visible
