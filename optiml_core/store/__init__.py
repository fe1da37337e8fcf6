"""Results that outlive a process: compiled variants, verdicts, measurements, profiles, trajectories."""

from optiml_core.store.entries import Entry, Json, content_key
from optiml_core.store.store import DEFAULT_LIMIT, KINDS, Store, StoredSearch

__all__ = ["DEFAULT_LIMIT", "KINDS", "Entry", "Json", "Store", "StoredSearch", "content_key"]
