"""Sources that differ in comments and white space only are the same source."""

from __future__ import annotations

import hashlib
import re

from optiml_core.source.lexical import scan

# The longest operator that fits is one token (C++ standard, [lex.pptoken]): ``a + +b`` is not ``a++b``.
_TOKEN = re.compile(
    rb"[A-Za-z_0-9\x80-\xff](?:[A-Za-z_0-9\x80-\xff.]|(?<=[eEpP])[+-]|'(?=\w))*"
    rb"|<<<|>>>|<=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|##|\S"
)
_SPACES = re.compile(rb"\s+")


def normalised_tokens(data: bytes) -> bytes:
    """The tokens of a source, joined by blanks; directives stand on lines of their own."""
    found = scan(data)
    directives = {d.start: d for d in found.directives}
    pieces: list[bytes] = []
    at = 0
    for kind, start, end in found.spans:
        pieces.extend(_TOKEN.findall(found.skeleton, at, start))
        if kind == "directive":
            directive = directives[start]
            text = _SPACES.sub(b" ", directive.text.encode("utf-8", "surrogateescape"))
            pieces.append(b"\n#" + directive.word.encode() + b" " + text + b"\n")
        elif kind != "comment":
            pieces.append(data[start:end])
        at = end
    pieces.extend(_TOKEN.findall(found.skeleton, at))
    return b" ".join(pieces)


def normalised_source(data: bytes) -> str:
    """A hash (SHA-256, hexadecimal) that is equal for two sources just where their tokens are equal:
    comments, white space and line ends do not count, anything else does."""
    return hashlib.sha256(normalised_tokens(data)).hexdigest()
