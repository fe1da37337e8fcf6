"""What one stored entry is, and how it is known to be ours.

Values are JSON and blobs are plain bytes, never pickles: reading an entry can run nothing. Each entry
carries a keyed digest, because a blob may be machine code that a device loads later: an entry that
another program planted in the file is then a miss and not a hit. The key lies outside the cache folder
and is never written into the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

KEY_BYTES = 32


@frozen
class Entry:
    """A stored value with the bytes that belong to it (empty where there are none)."""

    value: Json
    blob: bytes = b""


def content_key(*parts: str | bytes) -> str:
    """A key for content: the SHA-256 of all parts, hexadecimal. Where one part ends is part of the key."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def encode(value: Json) -> bytes:
    """JSON text of a value, the same for equal values. NaN is refused: ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("utf-8")


def digest_of(secret: bytes, kind: str, key: str, text: bytes, blob: bytes) -> bytes:
    """The keyed digest of an entry: HMAC-SHA256 over kind, key, value and blob, each with its length."""
    code = hmac.new(secret, digestmod="sha256")
    for part in (kind.encode(), key.encode("utf-8", "surrogateescape"), text, blob):
        code.update(len(part).to_bytes(8, "little"))
        code.update(part)
    return code.digest()


def read_or_make_secret(path: Path) -> bytes:
    """The user's own key, made on first use and readable by nobody else.

    A key that another user owns, that others may read, or of the wrong length is not trusted: a fresh one
    for this process is returned then, which turns every older entry into a miss.
    """
    fresh = secrets.token_bytes(KEY_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # Written whole under another name and then linked, so that no other process reads half a key.
            whole = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(fresh)
            try:
                with contextlib.suppress(FileExistsError):
                    os.link(whole, path)
            finally:
                whole.unlink()
    except OSError:
        return fresh
    return _read_secret(path) or fresh


def _read_secret(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        private = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
        secret = file.read(KEY_BYTES + 1) if private else b""
    return secret if len(secret) == KEY_BYTES else None
