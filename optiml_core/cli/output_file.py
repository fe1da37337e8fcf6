"""Paths that a command will write: a bad one is found before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

from optiml_core.cli.failure import bad_input


def check_writable(output: str | None) -> None:
    """Raises for a path that cannot be written; None is no path."""
    if output is None:
        return
    folder = Path(output).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise bad_input(f"cannot write into {folder}", file=output)
    if Path(output).is_dir():
        raise bad_input("is a folder", file=output)
