"""The SQLite file behind the store: opening, repairing, evicting.

SQLite in write-ahead-log mode has one writer at a time and loses no committed transaction when a process
is killed in the middle of a write (https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path

# Part of the file's name: a program with another schema uses another file and neither breaks the other's.
SCHEMA_VERSION = 1
FILE_NAME = f"store-{SCHEMA_VERSION}.sqlite"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
  kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, blob BLOB NOT NULL, digest BLOB NOT NULL,
  size INTEGER NOT NULL, used REAL NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_use ON entries (used);
CREATE TABLE IF NOT EXISTS searches (
  key TEXT PRIMARY KEY, description BLOB NOT NULL, result BLOB, digest BLOB NOT NULL, started REAL NOT NULL,
  used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (
  search TEXT NOT NULL REFERENCES searches (key) ON DELETE CASCADE, number INTEGER NOT NULL, value BLOB NOT NULL,
  digest BLOB NOT NULL, PRIMARY KEY (search, number)) WITHOUT ROWID;
"""


class Refused(Exception):
    """The file or its folder is not safe to use; the text says why."""


def connect(path: Path | None) -> sqlite3.Connection:
    """Opens (or makes) the database; None is one in memory. sqlite3.Error if it is damaged, Refused if unsafe."""
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(path.parent)
        _check_owner(path)
    connection = sqlite3.connect(
        ":memory:" if path is None else str(path), timeout=30.0, isolation_level=None, check_same_thread=False
    )
    try:
        # Must precede the first table, so that evicted pages can be given back to the file system.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing; a power cut may lose the last transactions, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        # A planted schema (views, triggers, generated columns) must not call functions.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.executescript(_SCHEMA)
        _refuse_foreign_schema(connection)
        connection.execute("SELECT count(*) FROM nodes LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def move_aside(path: Path) -> Path:
    """Renames a damaged database with its log files; returns the new name of the main file."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    return aside


def evict(connection: sqlite3.Connection, limit: int) -> None:
    """Deletes what was used longest ago until at most ``limit`` bytes of content are left."""
    stored = connection.execute(
        "SELECT (SELECT coalesce(sum(size), 0) FROM entries) + (SELECT coalesce(sum(length(value) + 64), 0) FROM nodes)"
    ).fetchone()[0]
    if stored <= limit:
        return
    # Down to nine tenths, so that not every further write evicts again.
    to_free = stored - limit * 9 // 10
    oldest = connection.execute(
        "SELECT used, size, kind, key FROM entries UNION ALL"
        " SELECT s.used, coalesce(sum(length(n.value) + 64), 0), NULL, s.key FROM searches s"
        " LEFT JOIN nodes n ON n.search = s.key GROUP BY s.key ORDER BY 1"
    )
    doomed: list[tuple[str | None, str]] = []
    for _, size, kind, key in oldest:
        if to_free <= 0:
            break
        doomed.append((kind, key))
        to_free -= size
    oldest.close()
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", [d for d in doomed if d[0] is not None])
    connection.executemany("DELETE FROM searches WHERE key = ?", [(key,) for kind, key in doomed if kind is None])
    connection.execute("COMMIT")
    connection.execute("PRAGMA incremental_vacuum").fetchall()


def _check_owner(path: Path) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if facts.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user")
    if stat.S_ISLNK(facts.st_mode):
        raise Refused(f"{path} is a symbolic link")
    if facts.st_mode & 0o022:
        raise Refused(f"others may write to {path}")


def _refuse_foreign_schema(connection: sqlite3.Connection) -> None:
    """Only our own tables and index: a trigger that somebody planted would change what our writes do."""
    rows = connection.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    known = {("table", "entries"), ("index", "entries_by_use"), ("table", "searches"), ("table", "nodes")}
    unknown = sorted(f"{kind} {name}" for kind, name in rows if (kind, name) not in known)
    if unknown:
        raise sqlite3.DatabaseError(f"it holds {', '.join(unknown)}, which is not ours")
