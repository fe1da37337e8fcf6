"""The store: results keyed by content, and the trees of searches, in the user's cache folder."""

from __future__ import annotations

import hmac
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import platformdirs
from attrs import frozen

from optiml_core.records import Failure
from optiml_core.store.database import FILE_NAME, Refused, connect, evict, move_aside
from optiml_core.store.entries import Entry, Json, digest_of, encode, read_or_make_secret

Answer = TypeVar("Answer")

KINDS: tuple[str, ...] = ("compiled", "verdict", "measurement", "profile", "prediction", "run", "outcome")
DEFAULT_LIMIT = 1 << 30  # bytes of content
# A read marks an entry as used at most this often (seconds), so that reading does not mean writing.
_MARK_INTERVAL = 600.0
# Content is summed up for eviction after this many bytes of new content, or a 64th of the limit.
_EVICTION_INTERVAL = 16 << 20


@frozen
class StoredSearch:
    """A search as stored: its key, what it was for, its result (None: it did not end) and when it began (epoch)."""

    key: str
    description: Json
    result: Json
    started: float


class Store:
    """Opened with ``Store.open``; may be shared by the threads of one process and reopens itself after a fork.

    A lookup that fails for whatever reason is a miss. A write that fails is a ``Failure`` and adds to
    ``messages``, because a full disk must not end a search, yet must be said.
    """

    def __init__(self, path: Path | None, secret: bytes, limit: int) -> None:
        self._path = path
        self._secret = secret
        self._limit = limit
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = os.getpid()
        self._abandoned: list[sqlite3.Connection] = []  # of a parent process: kept, so that nothing closes them
        self._written = 0
        self._messages: list[str] = []

    @classmethod
    def open(cls, path: Path | None = None, *, limit: int = DEFAULT_LIMIT, secret_path: Path | None = None) -> Store:
        """Opens the database ``path`` (default: in the user's cache folder), never raises.

        ``limit``: bytes of content after which what was used longest ago is dropped. A damaged file is moved
        aside and a new one begun; a place that cannot be used gives a store in memory. ``messages`` says so.
        """
        path = path or platformdirs.user_cache_path("optiml") / FILE_NAME
        secret_path = secret_path or platformdirs.user_state_path("optiml") / "store.key"
        store = cls(path, read_or_make_secret(secret_path), limit)
        store._ask(lambda connection: None, None)
        return store

    @classmethod
    def in_memory(cls, *, limit: int = DEFAULT_LIMIT) -> Store:
        """A store that ends with the process."""
        return cls(None, os.urandom(32), limit)

    @property
    def path(self) -> Path | None:
        """The file, or None for a store in memory."""
        return self._path

    @property
    def messages(self) -> tuple[str, ...]:
        """What a person should know: a damaged file moved aside, a folder that cannot be used."""
        return tuple(self._messages)

    # --------------------------------------------------------------------------------- entries

    def get(self, kind: str, key: str) -> Json:
        """The stored value, or None."""
        entry = self.get_entry(kind, key)
        return None if entry is None else entry.value

    def get_entry(self, kind: str, key: str) -> Entry | None:
        """The stored value with its bytes, or None. An entry that we did not write ourselves is no entry."""
        _check_kind(kind)

        def read(connection: sqlite3.Connection) -> tuple[bytes, bytes, bytes, float] | None:
            query = "SELECT value, blob, digest, used FROM entries WHERE kind = ? AND key = ?"
            row: tuple[bytes, bytes, bytes, float] | None = connection.execute(query, (kind, key)).fetchone()
            if row is not None and time.time() - row[3] > _MARK_INTERVAL:
                update = "UPDATE entries SET used = ? WHERE kind = ? AND key = ?"
                connection.execute(update, (time.time(), kind, key))
            return row

        row = self._ask(read, None)
        if row is None or not _all_bytes(row[:3]):
            return None
        text, blob, digest, _ = row
        value = self._checked(kind, key, text, blob, digest)
        return None if value is _NOT_OURS else Entry(value, blob)

    def put(self, kind: str, key: str, value: Json, blob: bytes = b"") -> Failure | None:
        """Stores a JSON value with bytes, replacing what was there. None if stored. NaN is a ValueError."""
        _check_kind(kind)
        text = encode(value)
        digest = digest_of(self._secret, kind, key, text, blob)
        size = len(text) + len(blob) + len(key) + 64
        if size > self._limit // 4:
            return Failure("refused", f"an entry of {size} bytes is too large for a store of {self._limit}")

        def write(connection: sqlite3.Connection) -> bool:
            row = (kind, key, text, blob, digest, size, time.time())
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            return True

        return self._write(write, size)

    # ------------------------------------------------------------------------------- searches

    def begin_search(self, key: str, description: Json) -> Failure | None:
        """Begins a search, forgetting an older one with this key."""
        text = encode(description)
        digest = digest_of(self._secret, "search", key, text, b"")

        def write(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                connection.execute("DELETE FROM searches WHERE key = ?", (key,))
                row = (key, text, None, digest, time.time(), time.time())
                connection.execute("INSERT INTO searches VALUES (?, ?, ?, ?, ?, ?)", row)
            return True

        return self._write(write, len(text))

    def put_nodes(self, search: str, first: int, values: Sequence[Json]) -> Failure | None:
        """Stores the nodes ``first``, ``first + 1``, ... of a search in one transaction: all of them or none."""
        texts = [encode(value) for value in values]
        rows = [
            (search, number, text, digest_of(self._secret, "node", f"{search}/{number}", text, b""))
            for number, text in enumerate(texts, first)
        ]

        def write(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                connection.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?)", rows)
                connection.execute("UPDATE searches SET used = ? WHERE key = ?", (time.time(), search))
            return True

        return self._write(write, sum(map(len, texts)))

    def nodes(self, search: str) -> tuple[Json, ...]:
        """The nodes of a search in order, up to the first that is missing or not ours."""
        query = "SELECT number, value, digest FROM nodes WHERE search = ? ORDER BY number"
        rows: list[tuple[int, bytes, bytes]] = self._ask(
            lambda connection: connection.execute(query, (search,)).fetchall(), []
        )
        values: list[Json] = []
        for expected, (number, text, digest) in enumerate(rows):
            if number != expected or not _all_bytes((text, digest)):
                break
            value = self._checked("node", f"{search}/{number}", text, b"", digest)
            if value is _NOT_OURS:
                break
            values.append(value)
        return tuple(values)

    def end_search(self, key: str, result: Json) -> Failure | None:
        """Marks a search as ended with its result (not None), so that it is no longer offered to be resumed."""
        text = encode(result)

        def write(connection: sqlite3.Connection) -> bool:
            digest = digest_of(self._secret, "result", key, text, b"")
            connection.execute("UPDATE searches SET result = ? WHERE key = ?", (digest + text, key))
            return True

        return self._write(write, len(text))

    def searches(self) -> tuple[StoredSearch, ...]:
        """All stored searches, the latest first."""
        query = "SELECT key, description, result, digest, started FROM searches ORDER BY started DESC"
        rows: list[tuple[str, bytes, bytes | None, bytes, float]] = self._ask(
            lambda connection: connection.execute(query).fetchall(), []
        )
        found = []
        for key, text, ended, digest, started in rows:
            if not _all_bytes((text, digest, ended or b"")):
                continue
            description = self._checked("search", key, text, b"", digest)
            result = self._checked("result", key, ended[32:], b"", ended[:32]) if ended else None
            if description is not _NOT_OURS and result is not _NOT_OURS:
                found.append(StoredSearch(key, description, result, started))
        return tuple(found)

    # -------------------------------------------------------------------------------- closing

    def close(self) -> None:
        """Closes the file. Safe to call twice; a later call opens it again."""
        with self._lock:
            if self._owner == os.getpid():
                self._forget()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -------------------------------------------------------------------------------- private

    def _checked(self, kind: str, key: str, text: bytes, blob: bytes, digest: bytes) -> Json:
        if not hmac.compare_digest(digest_of(self._secret, kind, key, text, blob), digest):
            return _NOT_OURS
        value: Json = json.loads(text)
        return value

    def _write(self, write: Callable[[sqlite3.Connection], bool], size: int) -> Failure | None:
        if not self._ask(write, False):
            return Failure("crash", f"the store could not be written: {self._messages[-1]}")
        self._written += size
        if self._written > min(_EVICTION_INTERVAL, self._limit // 64):
            self._written = 0
            self._ask(lambda connection: evict(connection, self._limit), None)
        return None

    def _ask(self, question: Callable[[sqlite3.Connection], Answer], otherwise: Answer) -> Answer:
        """Asks the database; a damaged one is moved aside and asked again, once. ``otherwise`` if all fails."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    return question(self._opened())
                except sqlite3.DatabaseError as error:
                    # Locked for long, disk full, read-only, a broken rule: the file itself is whole.
                    if not _is_damage(error):
                        self._say(f"the store {self._path} could not be used: {error}")
                        return otherwise
                    self._repair(error, attempt)
                except (Refused, OSError) as error:
                    self._say(f"results are kept in memory only: {error}")
                    self._forget()
                    self._path = None
        return otherwise

    def _opened(self) -> sqlite3.Connection:
        # SQLite's connections must not cross a fork: the child opens its own and leaves the parent's alone.
        if self._connection is None or self._owner != os.getpid():
            if self._connection is not None:
                self._abandoned.append(self._connection)
            self._owner = os.getpid()
            self._connection = connect(self._path)
        return self._connection

    def _repair(self, error: sqlite3.Error, attempt: int) -> None:
        self._forget()
        if self._path is None or attempt == 2:
            self._say(f"the store could not be used, results are kept in memory only: {error}")
            self._path = None
            return
        try:
            aside = move_aside(self._path)
            self._say(f"the store {self._path} was damaged ({error}); it was moved to {aside} and a new one begun")
        except OSError as failure:
            self._say(f"the store {self._path} is damaged ({error}) and cannot be moved: {failure}")
            self._path = None

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _say(self, message: str) -> None:
        if message not in self._messages:
            self._messages.append(message)


_NOT_OURS: Json = ("not ours",)


def _all_bytes(values: Sequence[object]) -> bool:
    # A planted row may hold numbers or text where we write bytes.
    return all(isinstance(value, bytes) for value in values)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # Extended codes carry the primary one in their low byte. Errors without a code are ours: a foreign schema.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_ERROR:
        return any(word in str(error) for word in ("no such table", "no such column", "no column", "malformed"))
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of stored result: {', '.join(KINDS)}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
