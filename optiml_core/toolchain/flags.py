"""Compile flags by allow-list: what a project or a person may pass on to a compiler.

A flag can run foreign code (``-ccbin``, ``-Xcompiler -fplugin``, ``--options-file``) or read any file (``-include``,
``@file``), so that only those are let through whose meaning is known. They come out in one spelling:
``-Ifolder -isystem=folder -Dname=value -Uname -std=c++17 -O3 -arch=sm_90 -maxrregcount=64 -use_fast_math`` and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from optiml_core.records import Failure
from optiml_core.toolchain.gpu_facts import compile_architecture

_VALUE_FLAGS = {
    "-I": "-I",
    "--include-path": "-I",
    "-isystem": "-isystem=",
    "--system-include": "-isystem=",
    "-D": "-D",
    "--define-macro": "-D",
    "-U": "-U",
    "--undefine-macro": "-U",
    "-std": "-std=",
    "--std": "-std=",
    "-O": "-O",
    "--optimize": "-O",
    "-arch": "-arch=",
    "--gpu-architecture": "-arch=",
    "-gencode": "-gencode=",
    "--generate-code": "-gencode=",
    "-maxrregcount": "-maxrregcount=",
    "--maxrregcount": "-maxrregcount=",
    # Arithmetic: they change results, so the original and its variants must have them alike.
    "-ftz": "-ftz=",
    "--ftz": "-ftz=",
    "-prec-div": "-prec-div=",
    "--prec-div": "-prec-div=",
    "-prec-sqrt": "-prec-sqrt=",
    "--prec-sqrt": "-prec-sqrt=",
    "-fmad": "-fmad=",
    "--fmad": "-fmad=",
}
_PLAIN_FLAGS = {
    "-use_fast_math": "-use_fast_math",
    "--use_fast_math": "-use_fast_math",
    "--expt-relaxed-constexpr": "--expt-relaxed-constexpr",
    "-expt-relaxed-constexpr": "--expt-relaxed-constexpr",
    "--expt-extended-lambda": "--expt-extended-lambda",
    "-expt-extended-lambda": "--expt-extended-lambda",
    "--extended-lambda": "--expt-extended-lambda",
    "-extended-lambda": "--expt-extended-lambda",
}
_ATTACHED = ("-I", "-D", "-U", "-O", "-isystem")
_VALUES = {
    "-std=": re.compile(r"(?:c|gnu)\+\+(?:03|11|14|17|20|23)"),
    "-O": re.compile(r"[0-3]|s|fast"),
    "-maxrregcount=": re.compile(r"\d{1,3}"),
    "-ftz=": re.compile(r"true|false"),
    "-prec-div=": re.compile(r"true|false"),
    "-prec-sqrt=": re.compile(r"true|false"),
    "-fmad=": re.compile(r"true|false"),
    "-D": re.compile(r"[A-Za-z_]\w*(?:\([\w\s,.]*\))?(?:=.*)?"),
    "-U": re.compile(r"[A-Za-z_]\w*"),
    "-gencode=": re.compile(r"arch=compute_\d+[af]?,\s*code=\[?(?:(?:sm|compute|lto)_\d+[af]?,?)+\]?"),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def allowed_flags(flags: Sequence[str]) -> tuple[str, ...] | Failure:
    """The flags in one spelling each, if all are on the list; else Failure ``refused`` that names the first other one.

    Takes nvcc's spellings: ``-DN=4``, ``-D N=4``, ``--define-macro=N=4``, ``-I dir``, ``--std c++17``.
    """
    read = _read(flags)
    if read.refused:
        flag, reason = read.refused[0]
        return Failure(
            "refused",
            f"the compile flag {flag!r} is not on the list of allowed flags{reason}",
            cure="allowed are -I -isystem -D -U -std -O -arch -gencode -maxrregcount -use_fast_math --expt-* "
            "-ftz -prec-div -prec-sqrt -fmad",
        )
    return read.allowed


@frozen
class ReadFlags:
    """Flags that are allowed, in one spelling, and those that are not, each with a reason (may be empty)."""

    allowed: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def sorted_flags(flags: Sequence[str]) -> ReadFlags:
    """Sorts a project's flags, of which most do not concern device code, into allowed and refused."""
    return _read(flags)


def _read(flags: Sequence[str]) -> ReadFlags:
    allowed: list[str] = []
    refused: list[tuple[str, str]] = []
    waiting = list(reversed(flags))
    while waiting:
        flag = waiting.pop()
        if _CONTROL.search(flag):
            refused.append((flag, ": it holds a control character"))
            continue
        if flag in _PLAIN_FLAGS:
            allowed.append(_PLAIN_FLAGS[flag])
            continue
        name, value = _name_and_value(flag)
        if name is None:
            refused.append((flag, ""))
            continue
        if value is None:
            if not waiting or _CONTROL.search(waiting[-1]):
                refused.append((flag, ": its value is missing"))
                continue
            value = waiting.pop()
        result = _checked(_VALUE_FLAGS[name], value)
        if isinstance(result, Failure):
            refused.append((f"{flag} {value}" if value not in flag else flag, f": {result.message}"))
        else:
            allowed.append(result)
    return ReadFlags(tuple(allowed), tuple(refused))


def _name_and_value(flag: str) -> tuple[str | None, str | None]:
    """The name of a flag on the list and its value, where that is part of the word."""
    if flag in _VALUE_FLAGS:
        return flag, None
    name, equals, value = flag.partition("=")
    if equals and name in _VALUE_FLAGS and name not in ("-D", "-U", "-I", "-O"):
        return name, value
    # ``-DN=4`` and ``-O3``; but ``-Xcompiler`` or ``-Ofoo`` are other words.
    for attached in _ATTACHED:
        if flag.startswith(attached) and len(flag) > len(attached):
            return attached, flag[len(attached) :].removeprefix("=") if attached == "-I" else flag[len(attached) :]
    return None, None


def _checked(spelling: str, value: str) -> str | Failure:
    if spelling == "-arch=":
        # ``-arch=native`` and ``-arch=all`` mean the machine or the fat binary, not a GPU.
        architecture = compile_architecture(value)
        return architecture if isinstance(architecture, Failure) else f"-arch={architecture}"
    pattern = _VALUES.get(spelling)
    if pattern is not None and not pattern.fullmatch(value):
        return Failure("refused", f"{value!r} is not a value that it takes")
    if not value or (spelling in ("-I", "-isystem=") and value.startswith(("-", "@"))):
        return Failure("refused", "its value is missing")
    return spelling + value


def architecture_of(flags: Iterable[str]) -> str | None:
    """The GPU architecture that allowed flags name (the last -arch, else the newest of -gencode), or None."""
    named: list[str] = []
    generated: list[str] = []
    for flag in flags:
        if flag.startswith("-arch="):
            named.append(flag.removeprefix("-arch="))
        elif flag.startswith("-gencode="):
            for number in re.findall(r"(?:sm|compute)_(\d+[af]?)", flag):
                architecture = compile_architecture(f"sm_{number}")
                if isinstance(architecture, str):
                    generated.append(architecture)
    if named:
        return named[-1]
    return max(generated, key=lambda name: (int(re.sub(r"\D", "", name)), name)) if generated else None
