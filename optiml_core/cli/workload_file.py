"""Reads the file behind ``--workload``."""

from __future__ import annotations

from pathlib import Path

from optiml_core.cli.failure import bad_input

LIMIT = 1 << 20  # bytes; a declaration is a few lines


def read_workload_file(path: str | None) -> str | None:
    """The text of the TOML file, or None if none was named."""
    if path is None:
        return None
    file = Path(path)
    try:
        if file.exists() and not file.is_file():
            raise bad_input("not a regular file", file=path, cure="--workload takes a TOML file with [kernel] tables")
        if not file.exists():
            raise bad_input("no such file", file=path, cure="--workload takes a TOML file with [kernel] tables")
        if file.stat().st_size > LIMIT:
            raise bad_input(f"larger than {LIMIT} bytes", file=path)
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise bad_input("not UTF-8 text", file=path) from error
    except OSError as error:
        raise bad_input(str(error.strerror), file=path) from error
