"""Outcomes of evaluated nodes in the store, so that a killed search resumes where it was.

The search is deterministic, so resuming is running it again: every node that was evaluated before is read back
at once, and the tree grows on from there.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from cattrs.preconf.json import JsonConverter, make_converter

from optiml_core.search.records import Outcome

KIND = "outcome"


class Blobs(Protocol):
    """What this needs of the store: bytes under a kind and a key."""

    def get(self, kind: str, key: str) -> bytes | None: ...

    def put(self, kind: str, key: str, value: bytes) -> None: ...


def make_outcome_converter() -> JsonConverter:
    """A converter between outcomes and JSON; bytes become base85 text."""
    converter = make_converter()
    converter.register_structure_hook(int | float | str | bool, lambda value, _: value)
    converter.register_structure_hook(int | float | bool, lambda value, _: value)
    converter.register_structure_hook(float | str, lambda value, _: value)
    converter.register_structure_hook(int | float, lambda value, _: value)
    return converter


class OutcomeStore:
    """Reads and writes outcomes. A damaged entry reads as absent: it is evaluated again."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._converter = make_outcome_converter()

    def get(self, key: str) -> Outcome | None:
        blob = self._blobs.get(KIND, key)
        if blob is None:
            return None
        try:
            return self._converter.loads(zlib.decompress(blob), Outcome)
        except (zlib.error, ValueError, TypeError, KeyError, ExceptionGroup):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        text = self._converter.dumps(outcome)
        self._blobs.put(KIND, key, zlib.compress(text.encode() if isinstance(text, str) else text, 3))
