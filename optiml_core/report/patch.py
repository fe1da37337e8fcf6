"""The patch of a search result: written whole or not at all, and applied only to the text it was made for."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from optiml_core.records import Failure


def write_whole(path: Path, data: bytes) -> Failure | None:
    """Replaces ``path`` by ``data`` in one step: a reader sees the old file or the new one, never a part.

    Keeps the file's permissions and follows a symbolic link to the file it names. A device or a pipe, such as
    ``/dev/stdout``, is written to and never replaced.
    """
    target = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():
            _write_into(path, data)
            return None
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        return Failure(
            "cannot-write", f"{path}: {error.strerror}", str(path), cure="check the folder's permissions and free space"
        )
    return None


def _write_into(path: Path, data: bytes) -> None:
    # A pipe that nobody reads is an error here, not something to wait for.
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)


def apply_to_file(path: Path, original: bytes, changed: bytes) -> Failure | None:
    """Writes ``changed`` if the file still holds ``original``; otherwise refuses and leaves the file alone."""
    try:
        current = path.read_bytes()
    except OSError as error:
        return Failure("cannot-read", f"{path}: {error.strerror}", str(path))
    if current != original:
        return Failure(
            "text-changed",
            f"{path} changed while the search ran, so the patch was not applied",
            str(path),
            cure="apply the printed patch with `git apply -3`, or run the search again",
        )
    return write_whole(path, changed)
