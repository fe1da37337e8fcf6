"""Limits that a child process puts on itself before it touches text that somebody else wrote.

Standard library only, because the scripts beside this file run without site-packages. Linux only; elsewhere the limits
that do not exist are reported as missing by ``doctor`` and the resource limits still hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import struct
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
# The same numbers on every architecture (include/uapi/asm-generic/unistd.h).
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
# Access rights of include/uapi/linux/landlock.h, by the version of the interface that brought them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent (of that id) ends; ends now if it has already."""
    with contextlib.suppress(OSError, AttributeError):
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def limit(cpu_seconds: float, memory: int, file_size: int, processes: int | None = None) -> None:
    """Limits on processor time (seconds), address space (bytes), size of a written file (bytes), processes of the user.

    A limit that is already lower stays.
    """
    whole = max(1, int(cpu_seconds + 0.999))
    limits = [
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ]
    if processes is not None:
        limits.append((resource.RLIMIT_NPROC, processes))
    for kind, value in limits:
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))


def landlock_version() -> int:
    """The version of the kernel's Landlock interface; 0 where there is none."""
    with contextlib.suppress(OSError, AttributeError):
        return max(0, int(_libc().syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)))
    return 0


def confine(read: Sequence[str], write: Sequence[str] = (), execute: Sequence[str] = ()) -> bool:
    """Leaves this process only these files and folders to read, to write, to execute; no TCP, no way to gain rights.

    Uses Landlock (Linux 5.13 and later). False where the kernel has none: nothing is confined then.
    """
    version = landlock_version()
    if version == 0:
        return False
    libc = _libc()
    handled = _FILES_BY_VERSION[max(known for known in _FILES_BY_VERSION if known <= version)]
    network = 3 if version >= 4 else 0  # bind and connect
    scoped = 3 if version >= 6 else 0  # abstract sockets and signals to processes outside
    attributes = struct.pack("QQQ", handled, network, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        reading = _READ_FILE | _READ_DIR
        for paths, access in ((read, reading), (execute, reading | _EXECUTE), (write, handled & ~_EXECUTE)):
            for path in paths:
                _allow(libc, ruleset, path, access & handled)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # What is not there needs no rule.
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
        libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, descriptor), 0)
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
