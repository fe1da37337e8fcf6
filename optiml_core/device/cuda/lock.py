"""A lock per GPU: two searches on one machine never time at once, and nothing runs beside what is timed."""

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
def gpu_lock(
    uuid: str, seconds: float = 600.0, waiting: Callable[[], None] = lambda: None, shared: bool = False
) -> Iterator[bool]:
    """Holds the GPU's lock; False if somebody else kept it for ``seconds``. Ends with the process, however it ends.

    ``shared`` lets others hold it shared at the same time: what is not timed may run beside other such things. Whoever
    waits keeps later ones from overtaking, so that those who time are not starved. ``waiting`` is called once if the
    lock is not free within about a second.
    """
    path = lock_path(uuid)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        gate = _opened(stack, path.with_suffix(".gate"))
        if not _taken(gate, fcntl.LOCK_EX, deadline, waiting):
            yield False
            return
        lock = _opened(stack, path)
        if not _taken(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, deadline, waiting):
            yield False
            return
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield True


def _opened(stack: contextlib.ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    return descriptor


def _taken(descriptor: int, how: int, deadline: float, waiting: Callable[[], None]) -> bool:
    polls = 0
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if polls == SHORT_POLLS:
                waiting()
            if time.monotonic() > deadline:
                return False
            time.sleep(SHORT_POLL_SECONDS if polls < SHORT_POLLS else POLL_SECONDS)
            polls += 1
