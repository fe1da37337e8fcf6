"""Where tokens lie in the text, in bytes: the common measure of experts with different tokenizers.

A primary token that ends at byte ``o`` may see a peer's token only once the bytes up to ``o`` decide that token.
A tokenizer may merge the end of a text differently once more text follows, so peers read the text in segments
whose borders the bytes before them fix; a segment is closed, and its tokens become available, when the first byte
of the next one is there. Training and decoding use the same segments, so there is no mismatch between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

SPACE, WORD, OTHER = range(3)


@frozen
class OffsetTokens:
    """Token ids with the byte at which each ends (``ends``) and from which each may be seen (``available``)."""

    ids: tuple[int, ...]
    ends: tuple[int, ...]
    available: tuple[int, ...]


def _byte_class(byte: int) -> int:
    if byte in b" \t\r\n":
        return SPACE
    if byte >= 0x80 or byte == 0x5F or chr(byte).isalnum():
        return WORD  # The bytes of one non-ASCII character always stay together.
    return OTHER


def is_border(before: int, after: int) -> bool:
    """Whether a segment ends between these two bytes. White space belongs to what follows it."""
    first, second = _byte_class(before), _byte_class(after)
    if second == SPACE:
        return first != SPACE
    return first not in (SPACE, second)


def closed_segments(text: bytes, start: int = 0) -> tuple[tuple[int, int], ...]:
    """The closed segments of ``text`` from ``start`` (itself a border) on, as half-open byte ranges."""
    borders = [start]
    borders += [at for at in range(start + 1, len(text)) if is_border(text[at - 1], text[at])]
    return tuple(itertools.pairwise(borders))


def byte_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE uses for the 256 bytes (GPT-2's table), inverted."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in kept}
    table.update({chr(256 + index): byte for index, byte in enumerate(b for b in range(256) if b not in kept)})
    return table


_ALPHABET = byte_alphabet()


def token_bytes(token: str, special: bool) -> bytes:
    """The bytes that a token of a byte-level or SentencePiece vocabulary stands for; none for a special token."""
    if special:
        return b""
    if all(character in _ALPHABET for character in token):
        return bytes(_ALPHABET[character] for character in token)
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


class TokenBytes:
    """The bytes of each token id of one tokenizer, looked up as needed."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._known: dict[int, bytes] = {}

    def __getitem__(self, identifier: int) -> bytes:
        found = self._known.get(identifier)
        if found is None:
            token = self._tokenizer.convert_ids_to_tokens(identifier)
            found = b"" if token is None else token_bytes(token, identifier in self._special)
            self._known[identifier] = found
        return found

    def join(self, identifiers: tuple[int, ...] | list[int]) -> bytes:
        return b"".join(self[identifier] for identifier in identifiers)


class UnalignedTokens(ValueError):
    """A tokenizer's tokens do not spell the text they came from, so byte offsets cannot be known."""


def encode_whole(tokenizer: Any, spelled: TokenBytes, text: bytes) -> tuple[int, ...]:
    """The ids of the whole ``text`` without added special tokens. Raises UnalignedTokens."""
    ids = tuple(tokenizer(text.decode("utf-8", "replace"), add_special_tokens=False)["input_ids"])
    if spelled.join(ids) != text.decode("utf-8", "replace").encode():
        raise UnalignedTokens("the tokens do not spell the text: this tokenizer changes it")
    return ids


def offset_tokens(spelled: TokenBytes, ids: tuple[int, ...], start: int = 0) -> OffsetTokens:
    """A primary's tokens: each may be seen as soon as it ends."""
    ends = []
    at = start
    for identifier in ids:
        at += len(spelled[identifier])
        ends.append(at)
    return OffsetTokens(ids, tuple(ends), tuple(ends))


def segment_tokens(
    segment_ids: Callable[[str], Sequence[int]],
    spelled: TokenBytes,
    text: bytes,
    start: int = 0,
    first_ids: tuple[int, ...] = (),
) -> tuple[OffsetTokens, int]:
    """A peer's tokens of the closed segments from ``start`` on, and where the first open segment begins.

    ``segment_ids``: the peer's ids of one segment. ``first_ids``: tokens before the text that spell nothing and may
    always be seen. A token's availability is one byte past its segment: the byte that closed it.
    """
    ids: list[int] = list(first_ids)
    ends: list[int] = [start] * len(ids)
    available: list[int] = [start] * len(ids)
    reached = start
    for first, last in closed_segments(text, start):
        piece = text[first:last].decode("utf-8", "replace")
        at = first
        for identifier in segment_ids(piece):
            # A replaced character may be longer than the byte it stands for; an end never passes its segment.
            at = min(at + len(spelled[identifier]), last)
            ids.append(identifier)
            ends.append(at)
            available.append(last + 1)
        reached = last
    return OffsetTokens(tuple(ids), tuple(ends), tuple(available)), reached
