"""Compile flags: after ``--`` on the command line, or from ``-p BUILD_DIR``; both pass the allow-list."""

from __future__ import annotations

import argparse
from pathlib import Path

from optiml_core.cli.failure import bad_input


def choose_flags(arguments: argparse.Namespace, file: Path) -> tuple[str, ...]:
    """The flags for ``file``."""
    if arguments.flags or arguments.build_dir:
        raise bad_input("compile flags are not supported yet")
    return ()
