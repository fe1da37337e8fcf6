"""Text of the same length that tree-sitter's CUDA grammar reads better than the file itself.

The grammar stumbles over constructs that real files are full of. Each is replaced by blanks (or by
characters of the same width), so that every byte offset of the tree is an offset of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

from optiml_core.source.lexical import Directive, LexicalScan, Span, blank, closing_bracket
from optiml_core.source.macro_statements import end_macro_statements
from optiml_core.source.macro_text import MacroText, read_macros
from optiml_core.source.qualifier_macros import blank_qualifier_macros
from optiml_core.source.repairs import Repairs, whole_word

# Step a: attributes that carry an argument list, and words that may stand where the grammar does
# not expect them. Patterns begin with plain characters, which makes the search for them fast.
_UNDERSCORED = re.compile(
    rb"__(?:(align__|attribute__|launch_bounds__|cluster_dims__|block_size__|maxnreg__|declspec)"
    rb"|restrict(?:__)?|grid_constant__|extension__|cdecl|stdcall)(?![A-Za-z0-9_])"
)
_PLAIN_WORDS = (
    re.compile(rb"(alignas)(?![A-Za-z0-9_])"),
    re.compile(rb"(_Pragma)(?![A-Za-z0-9_])"),
    re.compile(rb"CUDART_CB(?![A-Za-z0-9_])()?"),
)
_ARGUMENTS = re.compile(rb"\s*\(")
_TYPENAME_OBJECT = re.compile(rb"typename(?=\s+[\w:]+(?:\s*<[^;{}()]*>(?:\s*::\s*\w+)*)?\s*[({])")
_LAMBDA_ATTRIBUTES = re.compile(rb"\](\s*(?:__(?:device|host|forceinline|noinline)__\s*)+)(?=[({]|mutable\b)")
_EMPTY_DEFAULT = re.compile(rb"=\s*\{\s*\}(?=\s*[,)])")
_GLOBAL_WORD = re.compile(rb"__(?:tile_)?global__(?![A-Za-z0-9_])")
# ``__global__ void LAUNCH_BOUNDS (A, B) name(``: a macro with arguments between qualifier and name.
_HEAD_MACRO = re.compile(rb"\b[A-Z][A-Z0-9_]*\s*\((?:[^(){};]|\([^(){};]*\))*\)(?=\s*[A-Za-z_][\w:]*\s*\()")


@frozen
class Blanked:
    """``text``: what the grammar reads. ``skeleton``: the code only (see lexical), with the same repairs.

    ``global_words``: offsets at which a ``__global__`` stands, or a macro that contains one.
    """

    text: bytes
    skeleton: bytes
    global_words: tuple[int, ...]
    macros: tuple[MacroText, ...]


def blanked(data: bytes, scan: LexicalScan) -> Blanked:
    """Steps a to c: attributes, macro statements without ``;``, qualifier macros. Lengths stay."""
    macros = read_macros(scan.directives)
    text, skeleton, global_words = blanked_range(data, scan.skeleton, scan.spans, scan.directives, macros)
    if data.startswith(b"\xef\xbb\xbf"):
        text = b"   " + text[3:]
    return Blanked(text, skeleton, tuple(global_words), macros)


def blanked_range(
    data: bytes,
    skeleton: bytes,
    spans: Iterable[Span],
    directives: Iterable[Directive],
    macros: tuple[MacroText, ...],
) -> tuple[bytes, bytes, list[int]]:
    """Text, skeleton and global words of a piece of a file that begins between two statements.

    ``data`` and ``skeleton`` are the piece; the offsets of spans and directives count in it.
    """
    repairs = Repairs()
    _blank_attributes(skeleton, repairs)
    for kind, start, end in spans:
        if kind == "inactive":
            repairs.put(start, blank(data[start:end]))
    for directive in directives:
        if directive.word == "pragma":
            repairs.put(directive.start, blank(data[directive.start : directive.end]))
    global_words = [m.start() for m in _GLOBAL_WORD.finditer(skeleton) if whole_word(skeleton, m.start())]
    for at in global_words:
        _blank_head_macros(skeleton, at, repairs)
    blank_qualifier_macros(skeleton, macros, repairs, global_words)
    repaired = repairs.apply(skeleton)
    statements = Repairs()
    end_macro_statements(data, repaired, macros, statements)
    return statements.apply(repairs.apply(data)), statements.apply(repaired), sorted(set(global_words))


def _blank_attributes(skeleton: bytes, repairs: Repairs) -> None:
    """Step a: alignment, launch bounds, attributes, restrict, and attributes of lambdas."""
    for pattern in (_UNDERSCORED, *_PLAIN_WORDS):
        for match in pattern.finditer(skeleton):
            if not whole_word(skeleton, match.start()):
                continue
            end = match.end()
            if match[1]:
                opening = _ARGUMENTS.match(skeleton, end)
                closing = closing_bracket(skeleton, opening.end() - 1) if opening is not None else None
                if closing is None:
                    continue
                end = closing + 1
            repairs.put(match.start(), blank(skeleton[match.start() : end]))
    if b"typename" in skeleton:
        for match in _TYPENAME_OBJECT.finditer(skeleton):
            if whole_word(skeleton, match.start()):
                repairs.put(match.start(), b" " * 8)
    for match in _LAMBDA_ATTRIBUTES.finditer(skeleton):
        repairs.put(match.start(1), blank(match[1]))
    for match in _EMPTY_DEFAULT.finditer(skeleton):
        repairs.put(match.start(), blank(match[0]))


def _blank_head_macros(skeleton: bytes, at: int, repairs: Repairs) -> None:
    ends = [e for e in (skeleton.find(b"{", at), skeleton.find(b";", at)) if e >= 0]
    for match in _HEAD_MACRO.finditer(skeleton, at, min(ends, default=len(skeleton))):
        repairs.put(match.start(), blank(match[0]))
