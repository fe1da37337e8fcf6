"""A private folder for compiled objects, whose files are believed only if we wrote them.

A file planted in a cache would run as our own compiled code, so the folder must belong to this user
and be closed to others (mode 0700), and every file carries a keyed hash (HMAC-SHA-256) whose key lies
in the same folder, readable by this user only. What fails the check is treated as absent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs

_TAG_BYTES = 32
_LARGEST = 1 << 30
_YOUNG = 24 * 3600.0
_PUTS_BETWEEN_PRUNING = 256


def _is_private(path: Path) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


class BuildCache:
    """``get`` and ``put`` of named byte strings in a private folder. Usable from several threads and processes."""

    def __init__(self, folder: Path | None = None) -> None:
        """Opens ``folder`` (default: below the user's cache folder). If it is not private, a fresh temporary
        one is used and ``note`` says why."""
        self.note = ""
        self.folder = folder or Path(platformdirs.user_cache_path("optiml")) / "emulator"
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir(mode=0o700)
            private = _is_private(self.folder)
        except OSError:
            private = False
        if not private:
            self.note = (
                f"{self.folder} is not a private folder of this user, so compiled kernels are kept in a temporary one"
            )
            self.folder = Path(tempfile.mkdtemp(prefix="optiml-emulator-"))
        self._key = self._read_key()
        self._puts = 0

    def _read_key(self) -> bytes:
        path = self.folder / "key"
        for _ in range(2):
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                with os.fdopen(descriptor, "rb") as file:
                    status = os.fstat(file.fileno())
                    key = file.read(_TAG_BYTES + 1)
                if len(key) == _TAG_BYTES and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                    return key
                path.unlink()
            # Written under another name and linked, so that two processes that start at once agree on one key.
            handle, name = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_TAG_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
            os.unlink(name)
        return secrets.token_bytes(_TAG_BYTES)  # nothing old is believed then, which is slow but safe

    def _tag(self, name: str, data: bytes) -> bytes:
        return hmac.new(self._key, name.encode() + b"\0" + data, hashlib.sha256).digest()

    def path(self, name: str) -> Path:
        """Where ``name`` lies: its data, followed by the keyed hash in a file of its own (``.tag``)."""
        return self.folder / name

    def get(self, name: str) -> bytes | None:
        """The bytes put under ``name``, or None if there are none or they are not ours."""
        try:
            descriptor = os.open(self.path(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read()
            tag = self.path(name + ".tag").read_bytes()
        except OSError:
            return None
        if not hmac.compare_digest(tag, self._tag(name, data)):
            return None
        with contextlib.suppress(OSError):
            os.utime(self.path(name))  # what is used is not pruned
        return data

    def put(self, name: str, data: bytes, executable: bool = False) -> Path:
        """Stores ``data`` under ``name`` and returns its path. Raises OSError when it cannot be written."""
        for target, content in ((name, data), (name + ".tag", self._tag(name, data))):
            handle, temporary = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o700 if executable and target == name else 0o600)
            os.replace(temporary, self.path(target))
        self._puts += 1
        if self._puts % _PUTS_BETWEEN_PRUNING == 0:
            self.prune()
        return self.path(name)

    def prune(self, largest: int = _LARGEST, young: float = _YOUNG) -> None:
        """Deletes what was used longest ago until ``largest`` bytes are left, and nothing used in the last ``young``
        seconds: another process may rely on it."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and entry.name != "key":
                        files.append((entry.stat().st_mtime, entry.stat().st_size, entry.name))
        total = sum(size for _, size, _ in files)
        oldest_kept = time.time() - young
        for used, size, name in sorted(files):
            if total <= largest or used > oldest_kept:
                break
            if name.endswith((".tag", ".lock")):
                continue
            for each in (name, name + ".tag"):
                with contextlib.suppress(OSError):
                    self.path(each).unlink()
            total -= size

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Only one process (or thread) at a time builds ``name``."""
        descriptor = os.open(self.path(name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """An empty folder for one compilation, removed afterwards.

        It is not in the cache: a process that is killed leaves it, and whoever killed it removes temporary files.
        """
        with tempfile.TemporaryDirectory(prefix="optiml-build-", ignore_cleanup_errors=True) as name:
            yield Path(name)
