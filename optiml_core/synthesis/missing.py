"""What a text leaves open, and words that may not be what they are taken for."""

from __future__ import annotations


class Missing(Exception):
    """Raised where the text leaves something open or contradicts itself; becomes the one question."""


_OPERATION_WORDS = """max min maximum minimum largest smallest mean average median variance sum total product norm
softmax multiplication multiply gemm argmax argmin scan prefix transpose count sort histogram dot abs sqrt exp log
reverse"""
OPERATION_WORDS = frozenset(_OPERATION_WORDS.split())
_SIZE_WORDS = """rows cols columns width height depth length size count number total batch batches channels features
dims classes vocab tokens heads hidden samples steps bins nodes edges vertices particles bodies points pixels words
items nnz entries elements nrows ncols numel"""
SIZE_WORDS = frozenset(_SIZE_WORDS.split())
_NO_SIZES = "odd few any own bad big new old raw hot top max min mid low net six ten one many some most other non"
NO_SIZES = frozenset(_NO_SIZES.split())


def check_count(word: str) -> None:
    """Before a type a long word may say which elements, not how many: ``sum the positive floats`` is a question."""
    plain = word.lower()
    if " " in word or not word or word in SIZE_WORDS:
        return
    if plain in NO_SIZES or (len(word) > 3 and word.isalpha() and word.islower()):
        raise Missing(f"Is `{word}` how many there are, or does it say which ones?")
