"""Paths that a command will write: a bad one is found before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

from optiml_core.cli.failure import bad_input
from optiml_core.cli.target import split_target


def check_writable(output: str | None, target: str | None = None) -> None:
    """Raises for a path that cannot be written, or that is the file of ``target`` itself; None is no path."""
    if output is None:
        return
    source = split_target(target)[0] if target else ""
    if os.path.exists(output) and os.path.exists(source) and os.path.samefile(output, source):
        raise bad_input("is the source itself", file=output, cure="name another file")
    folder = Path(output).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise bad_input(f"cannot write into {folder}", file=output)
    if Path(output).is_dir():
        raise bad_input("is a folder", file=output)
