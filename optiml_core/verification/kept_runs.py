"""What the original does, shared by the processes of one search: the first that needs it finds it out for all.

Files in a private folder that the search made and removes. Only our own processes write there: a candidate runs in a
worker that cannot open files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

Kept = TypeVar("Kept")

# Larger results are found out by every process: reading them back would cost as much.
LARGEST_BYTES = 64 << 20


@frozen
class KeptRuns:
    """``folder``: private to this user (mode 0700); whoever made it removes it."""

    folder: str

    def recall(self, kind: type[Kept], key: object, compute: Callable[[], object]) -> object:
        """What ``compute`` gives, computed by one process at a time; kept only if it is a ``kind``.

        ``key`` says with its ``repr`` all that the result depends on. A file that cannot be read or written costs
        time and nothing else.
        """
        path = os.path.join(self.folder, hashlib.sha256(repr(key).encode()).hexdigest()[:40])
        with contextlib.ExitStack() as stack:
            try:
                lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError:
                return compute()
            known = _read(path)
            if isinstance(known, kind):
                return known
            found = compute()
            if isinstance(found, kind):
                _write(self.folder, path, found)
            return found


def _read(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, LookupError, TypeError, ValueError):
        return None


def _write(folder: str, path: str, value: object) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    if len(data) > LARGEST_BYTES:
        return
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
