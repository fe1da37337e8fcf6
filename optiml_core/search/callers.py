"""Searches the workspace for other files that launch a kernel: a changed launch has to follow in each of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from optiml_core.records import Kernel

ENDINGS = frozenset({".cu", ".cuh", ".h", ".hpp", ".hh", ".inl", ".cc", ".cpp", ".cxx"})
SKIPPED_FOLDERS = frozenset({".git", "build", "node_modules", "third_party", ".venv", "venv", "__pycache__"})
MOST_FILES = 4000
MOST_BYTES = 64 << 20
LARGEST_FILE = 2 << 20


def files_that_launch(kernel: Kernel, file: str, root: str) -> dict[str, bytes]:
    """Path -> bytes of the files below ``root``, other than ``file``, that launch the kernel by its name.

    Looks at most at ``MOST_FILES`` files and ``MOST_BYTES`` bytes; follows no links out of the folder.
    """
    launch = re.compile(rb"\b" + kernel.name.encode() + rb"\s*(?:<[^<>;{}]*>)?\s*<<<")
    own = os.path.realpath(file)
    found: dict[str, bytes] = {}
    seen = total = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix not in ENDINGS or os.path.realpath(path) == own:
                continue
            seen += 1
            if seen > MOST_FILES or total > MOST_BYTES:
                return found
            try:
                if path.is_symlink() or path.stat().st_size > LARGEST_FILE:
                    continue
                data = path.read_bytes()
            except OSError:
                continue
            total += len(data)
            if launch.search(data):
                found[str(path)] = data
    return found
