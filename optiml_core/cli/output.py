"""What goes to stdout and stderr: one JSON object, or text for people; messages and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from optiml_core.records import Failure, SourceRange

SCHEMA = 1


def plain(value: Any) -> Any:
    """``value`` with every NaN and infinity as None, tuples as lists and bytes as text: what JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def print_json(value: Mapping[str, Any]) -> None:
    """Prints the command's one object on stdout."""
    sys.stdout.write(json.dumps({"schema": SCHEMA, **plain(value)}, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def range_json(place: SourceRange) -> dict[str, Any]:
    """A source range as JSON: lines and columns count from 1, the end is exclusive."""
    return {
        "start": {"line": place.start_line, "column": place.start_column},
        "end": {"line": place.end_line, "column": place.end_column},
    }


def failure_json(failure: Failure) -> dict[str, Any]:
    return {
        "error": {
            "kind": failure.kind,
            "file": failure.file,
            "line": failure.line,
            "message": failure.message,
            "cure": failure.cure,
        }
    }


def messages() -> Console:
    """The console for people, on stderr; plain where stderr is not a terminal."""
    return Console(stderr=True, highlight=False)


def results() -> Console:
    """The console for results, on stdout."""
    return Console(highlight=False, soft_wrap=True)


def print_failure(failure: Failure) -> None:
    """One message with file, line and cure on stderr."""
    console = messages()
    place = ""
    if failure.file:
        place = failure.file + (f":{failure.line}" if failure.line else "")
        place += (f":{failure.column}" if failure.line and failure.column else "") + ": "
    console.print("[bold red]error:[/] ", end="")
    message = failure.message.removeprefix(f"{failure.file} ") if failure.file else failure.message
    console.print(f"{place}{message}", markup=False)
    if failure.cure:
        console.print("  cure: ", end="", style="bold")
        console.print(failure.cure, markup=False)
