"""``optiml``: reads the arguments, runs one command, turns every failure into one message and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import importlib.metadata
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence

from attrs import evolve

from optiml_core.cli import failure
from optiml_core.cli.arguments import make_parser, split_flags
from optiml_core.cli.failure import CommandFailure
from optiml_core.cli.output import failure_json, print_failure, print_json
from optiml_core.records import Failure

# The name of a workload file's text that came without one (workload.declaration.WORKLOAD_FILE, not imported for it).
WORKLOAD_FILE = "workload.toml"

COMMANDS = (
    "doctor", "kernels", "profile", "verify", "optimize", "synthesize", "train-mixture", "training-pairs", "bench",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``optiml`` with ``arguments`` (default: the process's) and returns the exit status."""
    die_with_parent()
    _print_whatever_comes()
    given, flags = split_flags(list(sys.argv[1:] if arguments is None else arguments))
    wants_json = "--json" in given
    parsed: argparse.Namespace | None = None
    try:
        parsed = make_parser().parse_args(given)
        if parsed.command is None:
            make_parser().print_help()
            return failure.BAD_INPUT
        if parsed.command == "server":
            return _server(parsed.tcp)
        parsed.flags = flags
        # Each command is imported only when it is asked for: `optiml kernels` must not pay for the search.
        module = importlib.import_module(f"optiml_core.cli.{parsed.command.replace('-', '_')}")
        return int(module.run(parsed))
    except CommandFailure as error:
        _report(_in_workload_file(error.failure, getattr(parsed, "workload", None)), wants_json)
        return error.status
    except BrokenPipeError:
        # The reader of our output went away, for example `optiml kernels x.cu | head`.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure.DONE
    except KeyboardInterrupt:
        _report(Failure("cancelled", "cancelled"), wants_json)
        return failure.NEGATIVE
    except Exception as error:  # noqa: BLE001 - the last fence: a person sees one message, the details go to a file
        _report(_internal(error), wants_json)
        return failure.MISSING


def _print_whatever_comes() -> None:
    """A source's bytes that are no UTF-8 go out in a patch as they came in; a terminal of few letters gets escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_utf8 = stream.encoding.lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


def die_with_parent() -> None:
    """A command started by the language server ends when the server does, however that ends (Linux)."""
    parent = os.environ.get("OPTIML_DIE_WITH_PARENT")
    if parent is None or not parent.isdigit() or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(parent):
        os._exit(failure.NEGATIVE)


def _in_workload_file(what: Failure, path: str | None) -> Failure:
    """The text behind ``--workload`` travels without its name; a failure in it names the file that was given."""
    return evolve(what, file=path) if path and what.file == WORKLOAD_FILE else what


def _internal(error: Exception) -> Failure:
    try:
        handle, path = tempfile.mkstemp(prefix="optiml-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            traceback.print_exception(error, file=stream)
    except OSError as reason:
        path = f"a file, had there been room for it ({reason.strerror})"
    return Failure(
        "internal-error",
        f"OptiML failed in a way that it should not: {type(error).__name__}: {error}",
        cure=f"please report it with the details in {path}",
    )


def _report(what: Failure, wants_json: bool) -> None:
    if wants_json:
        print_json(failure_json(what))
    else:
        print_failure(what)


def _server(port: int | None) -> int:
    """Starts the language server, found by entry point: the core never imports it."""
    for entry in importlib.metadata.entry_points(group="optiml.server"):
        if entry.name == "start":
            return int(entry.load()(port) or 0)
    raise CommandFailure(
        Failure("missing-package", "the language server is not installed", cure="install the whole package `optiml`")
    )


if __name__ == "__main__":
    sys.exit(main())
