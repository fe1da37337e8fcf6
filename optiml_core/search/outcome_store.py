"""Outcomes of evaluated nodes in the store, so that a killed search resumes where it was.

The search is deterministic, so resuming is running it again: every node that was evaluated before is read back
at once, and the tree grows on from there.
"""

from __future__ import annotations

import zlib

from cattrs.preconf.json import JsonConverter, make_converter

from optiml_core.search.records import Outcome
from optiml_core.store import Store

KIND = "outcome"


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

    def __init__(self, store: Store) -> None:
        self._store = store
        self._converter = make_outcome_converter()

    def get(self, key: str) -> Outcome | None:
        entry = self._store.get_entry(KIND, key)
        if entry is None:
            return None
        try:
            return self._converter.loads(zlib.decompress(entry.blob), Outcome)
        except (zlib.error, ValueError, TypeError, KeyError, ExceptionGroup):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        text = self._converter.dumps(outcome)
        blob = zlib.compress(text.encode() if isinstance(text, str) else text, 3)
        # A store that cannot be written only means that nothing can be resumed; its messages say so.
        self._store.put(KIND, key, {"state": outcome.state}, blob)
