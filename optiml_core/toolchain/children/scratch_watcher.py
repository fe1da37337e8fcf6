"""Removes a scratch folder once its owner has ended, however it ended.

Started by ``watch_scratch`` as ``python -I -S scratch_watcher.py LOCK``. The owner keeps the file LOCK in the folder
locked; the kernel drops the lock with the owner. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time

# What the owner started ends a moment after it, and may write until then.
_TRIES = 50
_PAUSE = 0.1  # seconds


def main() -> None:
    lock = sys.argv[1]
    folder = os.path.dirname(lock)
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # The owner has removed the folder already.
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
