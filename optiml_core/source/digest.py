"""Texts that mean the same: digests and comparisons that comments and white space do not change."""

from __future__ import annotations

import hashlib
import re

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def without_comments(source: str) -> str:
    """The source with comments and strings blanked: what a variant says is no evidence, what it does is."""
    return _COMMENT_OR_STRING.sub(" ", source)


def source_digest(data: bytes) -> str:
    """The same for sources that differ in comments and white space alone: such variants share one evaluation."""
    text = without_comments(data.decode("utf-8", "surrogateescape"))
    # A preprocessor line ends with its line; elsewhere a line break is white space like any other.
    lines = [f"\n{line.strip()}\n" if line.lstrip().startswith("#") else f" {line} " for line in text.splitlines()]
    tokens = re.sub(r"[ \t]+", " ", "".join(lines))
    return hashlib.sha256(tokens.encode("utf-8", "surrogateescape")).hexdigest()
