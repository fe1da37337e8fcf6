"""Scratch folders of compile processes, and the removal of those that a killed process left behind.

A process that is killed cannot tidy up, and a precompiled header has 100 MB. Each folder holds a file that its owner
keeps locked; the kernel drops the lock with the process, however it ends, and the next one removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LOCK = "owner.lock"
_WATCHER = Path(__file__).parent / "children" / "scratch_watcher.py"
# Short-lived ones without a lock.
_UNLOCKED = ("optiml-nvcc-", "optiml-sass-", "optiml-build-", "optiml-ncu-", "optiml-report-", "optiml-replay-")
_YOUNG = 60.0  # seconds in which a folder may not be locked yet
_STALE = 3600.0  # seconds after which nothing uses an unlocked one any more


def make_scratch(prefix: str) -> tuple[str, int]:
    """A new folder, readable by this user only, and the descriptor whose closing gives it up."""
    folder = tempfile.mkdtemp(prefix=prefix)
    descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return folder, descriptor


def remove_scratch(folder: str, descriptor: int) -> None:
    """Removes the folder with all in it and gives up its lock. Once only: descriptors are used again."""
    # A process that was told to end may still put a file there, which stops the removal of its folder.
    for pause in (0.0, 0.05, 0.2, 0.5):
        time.sleep(pause)
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
    os.close(descriptor)


def watch_scratch(folder: str) -> subprocess.Popen[bytes] | None:
    """Starts a process that removes the folder when this process is killed, and that ends with ``remove_scratch``.

    For folders worth 15 ms. It has a session of its own: what ends a whole group of processes leaves it. None if it
    cannot be started; the next ``remove_abandoned`` then finds the folder.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WATCHER), os.path.join(folder, _LOCK)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except OSError:
        return None


def remove_abandoned(prefix: str, parent: str | None = None) -> int:
    """Removes our own abandoned folders of this prefix, and old short-lived ones. How many were removed."""
    removed = 0
    for folder in Path(parent or tempfile.gettempdir()).glob("optiml-*"):
        with contextlib.suppress(OSError):  # Another process may remove it at the same time.
            facts = folder.lstat()
            age = time.time() - facts.st_mtime
            if facts.st_uid != os.geteuid() or folder.is_symlink() or not folder.is_dir() or age < _YOUNG:
                continue
            abandoned = folder.name.startswith(prefix) and _is_abandoned(folder, age)
            if abandoned or (folder.name.startswith(_UNLOCKED) and age > _STALE):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed


def _is_abandoned(folder: Path, age: float) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return age > _STALE
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
