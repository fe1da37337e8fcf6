"""Compile flags: after ``--`` on the command line, or from ``-p BUILD_DIR``; both pass the allow-list."""

from __future__ import annotations

import argparse
from pathlib import Path

from optiml_core.cli.failure import BAD_INPUT, CommandFailure
from optiml_core.cli.output import messages
from optiml_core.records import Failure
from optiml_core.toolchain import allowed_flags, project_flags


def choose_flags(arguments: argparse.Namespace, file: Path) -> tuple[str, ...]:
    """The flags for ``file``. Flags after ``--`` come after those of the compile database."""
    flags: tuple[str, ...] = ()
    if arguments.build_dir:
        found = project_flags(arguments.build_dir, file)
        if isinstance(found, Failure):
            raise CommandFailure(found, BAD_INPUT)
        for problem in found.problems:
            messages().print(f"note: {problem.message}", markup=False)
        flags = found.flags
    given = allowed_flags(arguments.flags)
    if isinstance(given, Failure):
        raise CommandFailure(given, BAD_INPUT)
    return flags + given
