"""Runs the compiler as a limited child: time, memory, file size, an empty environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure

_MEMORY = 2 << 30
# Wall-clock seconds for each CPU second allowed, because other work may hold the cores.
_WALL_FACTOR = 3.0
_FILE_BYTES = 256 << 20
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
_MESSAGE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error): (?P<text>.*)$", re.MULTILINE
)
# What the compiler says of itself, of no line: its driver's report of a child that a limit ended, or of the machine.
_OF_ITSELF = re.compile(
    r"^(?:g\+\+|cc1plus|as|ld|collect2|<command-line>)[^:\n]*: (?:(?:fatal error|error|internal compiler error): )?"
    r"(?P<text>.*)$",
    re.MULTILINE,
)
_LIMITS = (
    ("timeout", re.compile(r"CPU time limit exceeded|Killed signal")),
    ("out-of-memory", re.compile(r"out of memory|Cannot allocate memory|memory exhausted")),
    ("crash", re.compile(r"No space left|Resource temporarily unavailable|internal compiler error|PCH|[Pp]recompiled")),
)
_NOT_STARTED = 125  # the launcher's own answer


@frozen
class Confinement:
    """The launcher (runtime/limited_main.cpp) and the files a command may read beside its folder and the system's."""

    launcher: Path
    readable: tuple[str, ...] = ()


def run_compiler(
    command: Sequence[str],
    folder: Path,
    seconds: float = 20.0,
    own_files: Mapping[str, str] | None = None,
    confinement: Confinement | None = None,
) -> str | Failure:
    """Runs ``command`` in ``folder`` for at most ``seconds`` of CPU time; its standard output, or a Failure.

    Where ``own_files`` (name -> path for the report, "" for the candidate) is given, only messages about their
    lines are repeated: a hostile include could quote a foreign file. Without ``confinement`` the text must be ours.
    """
    if confinement is not None:
        command = [
            str(confinement.launcher), str(folder), str(int(seconds) + 1), str(_MEMORY), str(_FILE_BYTES),
            str(os.getpid()), *confinement.readable, "--", *command,
        ]  # fmt: skip
    try:
        process = subprocess.Popen(
            list(command), cwd=folder, env={**_ENVIRONMENT, "TMPDIR": str(folder)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return Failure("missing-tool", f"{command[0]} could not be started: {error}")
    try:
        output, errors = process.communicate(timeout=seconds * _WALL_FACTOR)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Failure("timeout", f"compiling took longer than {seconds * _WALL_FACTOR:g} s")
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return Failure("timeout", f"compiling took more than {seconds:g} s of CPU time")
    if process.returncode == 0:
        return output.decode("utf-8", "replace")
    text = errors.decode("utf-8", "replace")
    if confinement is not None and process.returncode == _NOT_STARTED and not text:
        return Failure("crash", "the compiler could not be started within its limits")
    return _of_the_machine(text) or _failure(text, own_files)


def _of_the_machine(errors: str) -> Failure | None:
    """A compiler that a limit or the machine stopped says nothing of the kernel, which must not be blamed for it."""
    if _MESSAGE.search(errors):
        return None
    for match in _OF_ITSELF.finditer(errors):
        for kind, words in _LIMITS:
            if words.search(match[0]):
                return Failure(kind, f"the compiler was stopped: {match['text']}")
    return None


def _failure(errors: str, own_files: Mapping[str, str] | None) -> Failure:
    messages = list(_MESSAGE.finditer(errors))
    # "variable or field declared void" only says that one of the next messages is true of a parameter.
    for match in sorted(messages, key=lambda m: m["text"].startswith("variable or field")):
        if own_files is None:
            return Failure("compile-error", match["text"])
        path = own_files.get(os.path.basename(match["file"]))
        if path is not None:
            return Failure("compile-error", match["text"], path or None, int(match["line"]), int(match["column"] or 1))
    if own_files is not None:
        return Failure("compile-error", "g++ does not accept this kernel, and says so about lines that are not its own")
    return Failure("compile-error", errors.strip()[-400:] or "the compiler failed without a message")
