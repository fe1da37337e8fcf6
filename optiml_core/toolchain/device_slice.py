"""The device part of a file, cut out by text: what one kernel needs and nothing else, on the lines it was written on.

Host functions, host-only includes, ``main`` and launches become blanks. What is kept is decided by names: beginning
with the kernel, everything that declares a name which a kept declaration mentions. Headers of the project are cut the
same way. Comments are blanked too, so that a compiler sees as code exactly what our own scan saw as code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from attrs import frozen

from optiml_core.records import Failure, Kernel
from optiml_core.source import SourceFile, TranslationUnit
from optiml_core.toolchain.slice_files import SliceFiles
from optiml_core.toolchain.slice_flattening import flattened
from optiml_core.toolchain.slice_includes import BROUGHT_ALONG, brought_by_libraries, cuda_header_words
from optiml_core.toolchain.slice_items import WORD, CutFile, Item
from optiml_core.toolchain.slice_text import hidden_danger, rendered

Purpose = Literal["nvrtc", "emulator"]


@frozen
class SliceHeader:
    """A header of the project, cut: ``name`` is what the slice includes it by, ``path`` the file it came from."""

    name: str
    path: str
    text: str


@frozen
class DeviceSlice:
    """What a compiler needs for one kernel of a file.

    ``text`` has the file's lines at their numbers; its ``#include "..."`` name ``headers``. ``cuda_headers`` and
    ``standard_headers`` are to be included before it (``cuda_fp16.h``; names of ours in ``HEADERS_FOLDER``).
    ``dropped_includes``: headers that are not there, and are missed only if a message of the compiler says so.
    """

    path: str
    kernel: str
    purpose: Purpose
    text: str
    headers: tuple[SliceHeader, ...]
    cuda_headers: tuple[str, ...]
    standard_headers: tuple[str, ...]
    dropped_includes: tuple[str, ...]

    def flattened(self) -> str:
        """Headers and text as one, with ``#line`` directives so that messages name the right lines."""
        return flattened(self.text, self.path, {header.name: (header.path, header.text) for header in self.headers})


def device_slice(
    unit: TranslationUnit,
    kernel: Kernel,
    for_: Purpose,
    *,
    template_arguments: Sequence[str] = (),
    flags: Sequence[str] = (),
    project: str | None = None,
    includer: SourceFile | None = None,
) -> DeviceSlice | Failure:
    """Cuts the device part of a file for one kernel, with the same line numbers.

    ``template_arguments``: of the wanted instantiation; those that the file uses are known from the kernel. ``flags``:
    allowed compile flags, for their include folders. ``project``: the folder that includes may not leave (default: the
    repository around the file). ``includer``: for a kernel in a header, the file whose slice is wanted; the text of the
    header is then the unit's. Failure ``refused`` for an include that leads outside or to a special file and for text
    that hides a directive; ``bad-input`` if the kernel cannot be found.
    """
    folders = [
        flag.removeprefix("-isystem=").removeprefix("-I") for flag in flags if flag.startswith(("-I", "-isystem="))
    ]
    whole = includer or unit.source
    path = whole.path
    files = SliceFiles(folders, Path(project) if project else None, unit.source)
    failure = files.read(path, whole.data)
    if failure is not None:
        return failure
    roots = {kernel.name, *_words(template_arguments)}
    for arguments in kernel.instantiations:
        roots |= _words(arguments)
    kept, words = _reachable(files, roots, _other_overloads(files, unit.source, kernel))
    if not any(kernel.name in item.names for items in kept.values() for item in items):
        return Failure("bad-input", f"the kernel {kernel.qualified} was not found in {path}", file=path)
    cuda, standard, dropped = _headers(files, words)
    spaces = {name for items in kept.values() for item in items if item.kind == "open" for name in item.names}
    spaces |= {"std", *(space for space, header in _NAMESPACES if any(re.match(header, name) for name in cuda))}
    texts: dict[str, str] = {}
    for where, file in files.cut.items():
        items = [item for item in kept[where] if item.kind != "using" or item.words & spaces]
        text = rendered(file, items, files.includes[where], files.names, files.may_be_device, where in files.fragments)
        danger = hidden_danger(file, text)
        if danger is not None:
            return Failure("refused", danger[1], file=where, line=danger[0])
        texts[where] = text
    headers = tuple(SliceHeader(files.names[where], where, text) for where, text in texts.items() if where != path)
    return DeviceSlice(path, kernel.qualified, for_, texts[path], headers, cuda, standard, dropped)


# Which of NVIDIA's headers declare a namespace that a ``using namespace`` may name.
_NAMESPACES: tuple[tuple[str, str], ...] = (
    ("cooperative_groups", r"cooperative_groups"),
    ("nvcuda", r"mma\.h"),
    ("cuda", r"cuda/|cooperative_groups"),
    ("cub", r"cub/"),
    ("thrust", r"thrust/"),
    ("cutlass", r"cutlass/|cute/"),
    ("cute", r"cute/|cutlass/"),
)


def _other_overloads(files: SliceFiles, source: SourceFile, kernel: Kernel) -> set[tuple[str, int]]:
    """Kernels of the same plain name that are other functions: they would make the name ambiguous. By file and start.

    Specialisations of a template stay, and so do declarations where there is no other definition.
    """
    definitions: list[tuple[str, Item, bool]] = []
    declarations: set[tuple[str, int]] = set()
    for path, file in files.cut.items():
        for item in file.items:
            if item.kind != "function" or kernel.name not in item.names or "__global__" not in item.words:
                continue
            text = file.scan.skeleton[item.start : item.end]
            if re.match(rb"\s*template\s*<\s*>", text) or re.search(rb"\b" + kernel.name.encode() + rb"\s*<", text):
                continue
            if not text.rstrip().endswith(b"}"):
                declarations.add((path, item.start))
                continue
            same_file = os.path.realpath(path) == os.path.realpath(source.path)
            wanted = same_file and item.start <= kernel.name_range.start_byte < item.end
            definitions.append((path, item, wanted))
    others = {(path, item.start) for path, item, wanted in definitions if not wanted}
    return others | declarations if others and any(wanted for _, _, wanted in definitions) else set()


def _reachable(
    files: SliceFiles, roots: set[str], left_out: set[tuple[str, int]]
) -> tuple[dict[str, list[Item]], frozenset[str]]:
    """By file: everything that declares a name which is needed, from the roots on; and all words that are needed."""
    declared: dict[str, list[tuple[str, Item]]] = {}
    kept: dict[str, dict[int, Item]] = {path: {} for path in files.cut}
    waiting = list(roots)

    def keep(path: str, item: Item) -> None:
        if item.start not in kept[path]:
            kept[path][item.start] = item
            waiting.extend(item.words)
            waiting.extend(_words(d.text for d in files.cut[path].scan.directives if item.start < d.start < item.end))
            # An operator is called without being named: it is needed as soon as there is any code.
            waiting.append("operator")

    for path, file in files.cut.items():
        for item in file.items:
            if item.kind in ("open", "close", "using"):
                kept[path][item.start] = item
            elif (path, item.start) not in left_out and files.may_be_device(item):
                for name in {"operator"} if item.is_operator else item.names:
                    declared.setdefault(name, []).append((path, item))
    for path in files.fragments:
        waiting.extend(_all_words(files.cut[path]))
    for path, file in files.cut.items():
        for item in file.items:
            if files.defines_by_pasting(item):
                keep(path, item)
    words: set[str] = set()
    while waiting:
        word = waiting.pop()
        if word not in words:
            words.add(word)
            waiting.extend(files.macro_words.get(word, ()))
            for path, item in declared.get(word, ()):
                keep(path, item)
    return {path: sorted(items.values(), key=lambda item: item.start) for path, items in kept.items()}, frozenset(words)


def _headers(files: SliceFiles, words: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """NVIDIA's headers whose words are used, the standard ones, and those that are not there; in the files' order."""
    cuda: dict[str, None] = {}
    standard: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for includes in files.includes.values():
        for _, include in sorted(includes.items()):
            if include.kind == "standard":
                standard[include.name] = None
            elif include.kind == "dropped":
                dropped[include.name] = None
            elif include.kind == "cuda":
                pattern = cuda_header_words(include.name)
                if pattern is None or any(pattern.fullmatch(word) for word in words):
                    cuda[include.name] = None
    for name in brought_by_libraries(tuple(dropped)):
        wanted = cuda_header_words(name)
        if name not in cuda and wanted is not None and any(wanted.fullmatch(word) for word in words):
            cuda[name] = None
    if dropped:
        standard.update(dict.fromkeys(BROUGHT_ALONG))
    return tuple(cuda), tuple(standard), tuple(dropped)


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in WORD.findall(text)}


def _all_words(file: CutFile) -> set[str]:
    return _words([file.scan.skeleton.decode("latin-1"), *(directive.text for directive in file.scan.directives)])
