"""Replacements of equal length, collected first and applied at once."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Repairs:
    """Replacements by offset; a later one at the same offset replaces an earlier one."""

    def __init__(self) -> None:
        self.items: dict[int, bytes] = {}

    def put(self, start: int, replacement: bytes) -> None:
        self.items[start] = replacement

    def apply(self, data: bytes) -> bytes:
        """``data`` with every replacement written over the bytes that stand there."""
        if not self.items:
            return data
        out = bytearray(data)
        for start, replacement in self.items.items():
            out[start : start + len(replacement)] = replacement
        return bytes(out)


def whole_word(text: bytes, start: int) -> bool:
    """Whether the word found at ``start`` begins there. Cheaper behind a match than ``\\b`` before it,
    which would keep the search from looking for the first letters alone."""
    return start == 0 or text[start - 1] not in _WORD_BYTES


@lru_cache(maxsize=256)
def words_pattern(words: frozenset[str]) -> re.Pattern[bytes]:
    """Matches any of the words where nothing of a longer word follows (see ``whole_word``)."""
    return re.compile(b"(?:" + b"|".join(sorted(re.escape(w.encode()) for w in words)) + rb")(?![A-Za-z0-9_])")
