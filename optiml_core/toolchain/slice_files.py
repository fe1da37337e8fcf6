"""The file and the project's headers that it includes, each cut once, and what macros make of a word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from optiml_core.records import Failure
from optiml_core.source import SourceFile
from optiml_core.toolchain.slice_includes import ResolvedInclude, include_of, resolve
from optiml_core.toolchain.slice_items import CutFile, Item, cut

# Qualifiers of device code and of what device code may use.
_DEVICE_WORDS = frozenset({"__device__", "__global__", "__constant__", "__shared__", "__managed__"})
_WORDS_BY_KIND = {
    "function": _DEVICE_WORDS | {"constexpr", "consteval"},
    "variable": _DEVICE_WORDS | {"const", "constexpr", "constinit"},
    "macro": _DEVICE_WORDS,
}
_MOST_FILES = 500
_DEEPEST = 50


class SliceFiles:
    """Grows by ``read``. ``cut``, ``includes`` (by offset of the directive) and ``names`` (by which a slice includes a
    header) go by path; ``fragments`` are headers that are included inside a declaration."""

    def __init__(self, folders: Sequence[str], project: Path | None, buffer: SourceFile) -> None:
        """``buffer``: a file as it stands in an editor or a variant, which is read instead of the one on disk."""
        self._folders = folders
        self._project = project
        self._buffer_path = os.path.realpath(buffer.path)
        self._buffer = buffer.data
        self.cut: dict[str, CutFile] = {}
        self.includes: dict[str, dict[int, ResolvedInclude]] = {}
        self.names: dict[str, str] = {}
        self.fragments: set[str] = set()
        self.macro_words: dict[str, frozenset[str]] = {}

    def read(self, path: str, data: bytes, depth: int = 0) -> Failure | None:
        """Adds a file with everything of the project that it includes. Failure ``refused`` for a forbidden include."""
        if depth > _DEEPEST or len(self.cut) > _MOST_FILES:
            return Failure("refused", f"{path} includes too many files", file=path)
        file = cut(data)
        self.cut[path] = file
        self.includes[path] = {}
        self.names[path] = f"optiml_{len(self.names)}_{re.sub(r'[^A-Za-z0-9_.]', '_', Path(path).name)}"
        for name, definitions in file.macros.items():
            words = frozenset(word for macro in definitions for word in macro.words)
            self.macro_words[name] = self.macro_words.get(name, frozenset()) | words
        for directive in file.scan.directives:
            if directive.word != "include":
                continue
            written = include_of(directive.text)
            if written is None:
                self.includes[path][directive.start] = ResolvedInclude("dropped", directive.text)
                continue
            include = resolve(*written, path, self._folders, self._project)
            if include.kind == "refused":
                return Failure("refused", include.reason, file=path, line=data.count(b"\n", 0, directive.start) + 1)
            self.includes[path][directive.start] = include
            if include.file is None:
                continue
            if any(item.start < directive.start < item.end for item in file.items):
                self.fragments.add(include.file.path)
            if include.file.path not in self.cut:
                same = include.file.path == self._buffer_path
                failure = self.read(include.file.path, self._buffer if same else include.file.data, depth + 1)
                if failure is not None:
                    return failure
        return None

    def expanded(self, words: Iterable[str]) -> set[str]:
        """The words, with everything that macros among them stand for."""
        found: set[str] = set()
        waiting = list(words)
        while waiting:
            word = waiting.pop()
            if word not in found:
                found.add(word)
                waiting.extend(self.macro_words.get(word, ()))
        return found

    def may_be_device(self, item: Item) -> bool:
        """Whether a declaration is device code, or something that device code may use."""
        if item.kind in ("type", "alias"):
            return True
        wanted = _WORDS_BY_KIND.get(item.kind)
        return wanted is not None and not self.expanded(item.head_words).isdisjoint(wanted)

    def defines_by_pasting(self, item: Item) -> bool:
        """Whether this is a macro call that makes device code under names that are put together by ``##``."""
        if item.kind != "macro" or self.expanded(item.head_words).isdisjoint(_DEVICE_WORDS):
            return False
        bodies = [
            macro.body for file in self.cut.values() for word in item.head_words for macro in file.macros.get(word, ())
        ]
        return any("##" in body for body in bodies) and not any("<<<" in body for body in bodies)
