"""Open documents as the engine sees them: parsed once a version, and positions in the client's own units."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field, frozen
from lsprotocol import types
from pygls import uris
from pygls.workspace import TextDocument

from optiml_core.records import Kernel, SourceRange

if TYPE_CHECKING:
    from optiml_core.source import TranslationUnit
    from optiml_server.findings import ShownFinding

# A larger file is left alone: parsing it at every keystroke would cost more than its lenses are worth.
LARGEST = 8 << 20
MOST_REMEMBERED = 20_000  # kernels, whatever their number of files
ENDINGS = frozenset({".cu", ".cuh"})


@frozen(slots=False)
class Parsed:
    """A document's text at one version with its parse."""

    version: int
    data: bytes
    unit: TranslationUnit

    @cached_property
    def around(self) -> bytes:
        """A digest of the text without its kernels: what the findings of each of them depend on besides."""
        digest, at = hashlib.blake2b(self.unit.source.path.encode("utf-8", "surrogateescape"), digest_size=16), 0
        for kernel in sorted(self.unit.kernels, key=lambda one: one.range.start_byte):
            digest.update(self.data[at : kernel.range.start_byte] + b"\0")
            at = max(at, kernel.range.end_byte)
        digest.update(self.data[at:])
        return digest.digest()


@define
class Documents:
    """Parses by document version; the last parse seeds the next one. ``static_findings``: see ``findings``."""

    _parsed: dict[str, Parsed] = field(factory=dict)
    static_findings: dict[Hashable, tuple[ShownFinding, ...]] = field(factory=dict)

    def remember_static(self, key: Hashable, found: tuple[ShownFinding, ...]) -> None:
        if len(self.static_findings) >= MOST_REMEMBERED:
            self.static_findings.clear()
        self.static_findings[key] = found

    def parsed(self, document: TextDocument) -> Parsed:
        version = document.version if document.version is not None else -1
        known = self._parsed.get(document.uri)
        data = document.source.encode("utf-8", "surrogatepass")
        if known is not None and known.version == version and known.data == data:
            return known
        from optiml_core.source import SourceFile, parse

        source = SourceFile(path_of(document), data if len(data) <= LARGEST else b"")
        unit = parse(source, known.unit if known is not None else None)
        parsed = Parsed(version, data, unit)
        self._parsed[document.uri] = parsed
        return parsed

    def forget(self, uri: str) -> None:
        self._parsed.pop(uri, None)


def path_of(document: TextDocument) -> str:
    """The document's path in the file system; its URI's last part for a document that has none."""
    return uris.to_fs_path(document.uri) or document.uri.rsplit("/", 1)[-1] or "untitled.cu"


def is_cuda(document: TextDocument) -> bool:
    """Whether the document is ours: CUDA by language or by ending."""
    return document.language_id in ("cuda-cpp", "cuda") or Path(document.uri).suffix in ENDINGS


def lines_of(document: TextDocument) -> tuple[str, ...]:
    """The document's lines with their ends. pygls splits the whole text each time it is asked."""
    return _lines(document.source)


@lru_cache(maxsize=8)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines(keepends=True))


def to_client(document: TextDocument, place: SourceRange) -> types.Range:
    """An engine's range (code points, from 1) as the client counts."""
    start = types.Position(place.start_line - 1, place.start_column - 1)
    end = types.Position(place.end_line - 1, place.end_column - 1)
    lines = lines_of(document)
    if all(one.line < len(lines) and lines[one.line].isascii() for one in (start, end)):
        # Every encoding counts ASCII alike; counting it letter by letter takes most of a large file's lenses.
        return types.Range(start, end)
    return document.position_codec.range_to_client_units(lines, types.Range(start, end))


def line_to_client(document: TextDocument, line: int) -> types.Range:
    """A whole line (from 1) without its indentation, as the client counts."""
    lines = lines_of(document)
    if not 1 <= line <= len(lines):
        return types.Range(types.Position(0, 0), types.Position(0, 0))
    text = lines[line - 1].rstrip("\r\n")
    start = len(text) - len(text.lstrip())
    wanted = types.Range(types.Position(line - 1, start), types.Position(line - 1, max(len(text), start)))
    return document.position_codec.range_to_client_units(lines, wanted)


def kernel_around(parsed: Parsed, document: TextDocument, position: types.Position) -> Kernel | None:
    """The kernel whose definition covers a client's position."""
    line = position.line + 1
    for kernel in parsed.unit.kernels:
        if kernel.range.start_line <= line <= kernel.range.end_line:
            return kernel
    return None


def find_kernel(parsed: Parsed, name: str) -> Kernel | None:
    """By qualified name, else by the only plain name that fits."""
    exact = parsed.unit.kernel(name)
    if exact is not None:
        return exact
    named = [kernel for kernel in parsed.unit.kernels if kernel.name == name]
    return named[0] if len(named) == 1 else None


def kernel_text(parsed: Parsed, kernel: Kernel) -> bytes:
    return parsed.data[kernel.range.start_byte : kernel.range.end_byte]
