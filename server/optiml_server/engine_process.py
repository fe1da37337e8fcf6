"""The engine in child processes: `python -m optiml_core ...`, cancelled within a second, dead with its server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

GRACE_SECONDS = 1.0  # between asking a child to stop with its best so far and killing it
LONGEST_LINE = 32 << 20


@frozen
class EngineAnswer:
    """``value``: the object printed on stdout (``{"error": ...}`` on failure). ``status``: the exit status."""

    status: int
    value: dict[str, Any]

    @property
    def error(self) -> str:
        """The failure's message with its cure, or an empty string."""
        error = self.value.get("error")
        if not error:
            return ""
        place = f"line {error['line']}: " if error.get("line") else ""
        return place + str(error.get("message", "failed")) + (f". {error['cure']}" if error.get("cure") else "")


def engine_environment() -> dict[str, str]:
    """The child's environment: ours, with our own import path, and the wish to die with us."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment["PYTHONUTF8"] = "1"
    environment["OPTIML_DIE_WITH_PARENT"] = str(os.getpid())
    return environment


async def run_engine(
    arguments: Sequence[str],
    *,
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
    cancelled: asyncio.Event | None = None,
    folder: Path | None = None,
) -> EngineAnswer:
    """Runs one command of the engine. Never raises for what the child does.

    Setting ``cancelled`` interrupts the child, which answers with its best so far; one that does not within
    ``GRACE_SECONDS`` is killed with all its children.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "optiml_core",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=engine_environment(),
        limit=LONGEST_LINE,
        start_new_session=True,
    )
    said: list[str] = []
    try:
        reading = asyncio.create_task(_read_events(process, on_event, said))
        stopping = asyncio.create_task(_stop_when(process, cancelled)) if cancelled is not None else None
        assert process.stdout is not None
        output = await process.stdout.read()
        await reading
        status = await process.wait()
        if stopping is not None:
            stopping.cancel()
    finally:
        kill_group(process)
    try:
        value = json.loads(output)
    except ValueError:
        stopped = cancelled is not None and cancelled.is_set()
        message = "cancelled" if stopped else (said[-1] if said else f"the engine ended with status {status}")
        kind = "cancelled" if stopped else "crash"
        value = {"error": {"kind": kind, "message": message, "cure": "", "file": None, "line": None}}
    return EngineAnswer(status, value if isinstance(value, dict) else {})


async def _read_events(
    process: asyncio.subprocess.Process, on_event: Callable[[dict[str, Any]], None], said: list[str]
) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        text = line.decode("utf-8", "replace").strip()
        try:
            event = json.loads(text)
        except ValueError:
            if text:
                said.append(text)
                del said[:-20]
            continue
        if isinstance(event, dict) and "event" in event:
            on_event(event)


async def _stop_when(process: asyncio.subprocess.Process, cancelled: asyncio.Event) -> None:
    await cancelled.wait()
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    await asyncio.sleep(GRACE_SECONDS)
    kill_group(process)


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Kills the child and everything it started; quiet if it is gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
