"""A project's own compile flags: ``compile_commands.json``, as CMake, Ninja and Bear write it."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from attrs import frozen

from optiml_core.records import Failure, Problem
from optiml_core.toolchain.flags import sorted_flags

_LARGEST = 256 << 20


@frozen
class ProjectFlags:
    """Allowed flags of one file, folders absolute, and what was left out that may matter."""

    flags: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


def project_flags(build: str | Path, file: str | Path) -> ProjectFlags | Failure:
    """The flags that the project in the build folder ``build`` (or the file itself) compiles ``file`` with.

    Flags that are not on the allow-list are left out; those that select other code (a plug-in, a forced include, a
    response file) are named in ``problems``. A header takes the flags of the first file beside it. Failure
    ``bad-input`` if there is no such file, it is malformed, or it does not mention the file.
    """
    path = Path(build)
    if path.is_dir():
        path = path / "compile_commands.json"
    try:
        if not path.is_file():
            return Failure(
                "bad-input",
                f"{path} does not exist",
                file=str(path),
                cure="CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            )
        if path.stat().st_size > _LARGEST:
            return Failure("bad-input", f"{path} is larger than {_LARGEST} bytes", file=str(path))
        entries = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError) as error:
        return Failure("bad-input", f"{path} cannot be read: {error}", file=str(path))
    if not isinstance(entries, list):
        return Failure("bad-input", f"{path} is not a list of commands", file=str(path))
    wanted = os.path.realpath(file)
    near: dict[str, object] | None = None
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            continue
        folder = entry.get("directory") if isinstance(entry.get("directory"), str) else str(path.parent)
        name = os.path.realpath(os.path.join(str(folder), str(entry["file"])))
        if name == wanted:
            return _flags(entry, str(folder))
        if near is None and name.endswith(".cu") and os.path.dirname(name) == os.path.dirname(wanted):
            near = {**entry, "directory": folder}
    if near is not None and Path(file).suffix.lower() != ".cu":
        return _flags(near, str(near["directory"]))
    return Failure("bad-input", f"{path} does not say how {file} is compiled", file=str(path))


# Flags whose loss may change what the device code means; the rest (-c, -o, -g, -Xcompiler -fPIC) is left out silently.
_MATTERS = (
    "-include",
    "--pre-include",
    "@",
    "--options-file",
    "-optf",
    "-rdc",
    "--relocatable-device-code",
    "-dc",
    "-imacros",
)


def _flags(entry: dict[str, object], folder: str) -> ProjectFlags | Failure:
    arguments = entry.get("arguments")
    if isinstance(arguments, list) and all(isinstance(argument, str) for argument in arguments):
        words = [str(argument) for argument in arguments]
    elif isinstance(entry.get("command"), str):
        try:
            words = shlex.split(str(entry["command"]))
        except ValueError as error:
            return Failure("bad-input", f"the command of {entry['file']} cannot be read: {error}")
    else:
        return Failure("bad-input", f"the entry of {entry['file']} has neither arguments nor a command")
    read = sorted_flags(words[1:])
    flags = []
    for flag in read.allowed:
        for prefix in ("-isystem=", "-I"):
            if flag.startswith(prefix):
                flag = prefix + os.path.normpath(os.path.join(folder, flag.removeprefix(prefix)))
                break
        flags.append(flag)
    problems = [
        Problem(f"the project's flag {flag!r} is not used: it is not on the list of allowed flags")
        for flag, _ in read.refused
        if flag.startswith(_MATTERS)
    ]
    return ProjectFlags(tuple(flags), tuple(problems))
