"""A digest of this program's own files: outcomes of another version of OptiML are not reused."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import optiml_core

SUFFIXES = frozenset({".py", ".h", ".cpp", ".inc"})


@functools.cache
def program_digest() -> str:
    """Over the names, sizes and modification times of every source file of the engine."""
    folder = Path(optiml_core.__file__).parent
    digest = hashlib.sha256(optiml_core.__version__.encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES:
            facts = path.stat()
            digest.update(f"{path.relative_to(folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
