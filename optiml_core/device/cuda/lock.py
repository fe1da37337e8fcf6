"""An exclusive lock per GPU, so that two searches on one machine never time at once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

SHORT_POLL_SECONDS = 0.002  # operations of a search that shares the GPU take milliseconds
POLL_SECONDS = 0.05
SHORT_POLLS = 500


def lock_path(uuid: str) -> Path:
    """The lock file of the GPU with this UUID, in the user's cache folder, which every system has."""
    folder = platformdirs.user_cache_path("optiml") / "locks"
    return folder / f"gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:16]}.lock"


@contextlib.contextmanager
def gpu_lock(uuid: str, seconds: float = 600.0, waiting: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Holds the GPU's lock; False if somebody else kept it for ``seconds``. Ends with the process, however it ends.

    ``waiting`` is called once if the lock is not free within about a second.
    """
    path = lock_path(uuid)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline, polls = time.monotonic() + seconds, 0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if polls == SHORT_POLLS:
                    waiting()
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(SHORT_POLL_SECONDS if polls < SHORT_POLLS else POLL_SECONDS)
                polls += 1
        yield True
    finally:
        os.close(descriptor)
