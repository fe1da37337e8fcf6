"""Watches the workspace for files that change what we show: Nsight reports, headers, compile databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pygls import uris
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from optiml_server.features.diagnostics import publish
from optiml_server.importing_job import import_report
from optiml_server.session import OptimlServer

REST_SECONDS = 1.0  # a report is read once its size has not changed for this long
HEADERS = frozenset({".h", ".cuh", ".hpp"})

_observers: dict[int, BaseObserver] = {}
_reading: set[asyncio.Future[None]] = set()  # asyncio itself keeps no reference to a task


class _Handler(FileSystemEventHandler):
    """Runs on watchdog's thread: hands paths over to the loop and does nothing else."""

    def __init__(self, server: OptimlServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._pending: dict[str, asyncio.TimerHandle] = {}

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.is_directory or event.event_type not in ("created", "modified", "moved", "closed"):
            return
        path = str(event.dest_path or event.src_path)
        if not _interesting(Path(path)):
            return
        try:
            self._loop.call_soon_threadsafe(self._wait_for_rest, path)
        except RuntimeError:
            return  # The loop has closed: the server is ending.

    def _wait_for_rest(self, path: str) -> None:
        earlier = self._pending.pop(path, None)
        if earlier is not None:
            earlier.cancel()
        self._pending[path] = self._loop.call_later(REST_SECONDS, self._settled, path)

    def _settled(self, path: str) -> None:
        self._pending.pop(path, None)
        changed(self._server, Path(path))


def _interesting(path: Path) -> bool:
    return path.suffix in HEADERS or path.suffix == ".ncu-rep" or path.name == "compile_commands.json"


def changed(server: OptimlServer, path: Path) -> None:
    """A watched file has come to rest. Headers and flags change what a kernel means: its profiles are stale."""
    if path.suffix == ".ncu-rep":
        task = asyncio.ensure_future(_read_report(server, path))
        _reading.add(task)
        task.add_done_callback(_reading.discard)
        return
    server.results.generation += 1
    server.log(f"{path.name} changed")


async def _read_report(server: OptimlServer, path: Path) -> None:
    """A report of a run elsewhere turns into findings by itself. What it lacks is logged: nobody asked for it."""
    imported = await import_report(server, path)
    if imported.problem:
        server.log(imported.problem)
        return
    server.log(f"{path.name} tells of {', '.join(imported.kernels)}")
    for uri in list(server.workspace.text_documents):
        publish(server, uri)


def start_watching(server: OptimlServer) -> None:
    """Watches every workspace folder of a trusted workspace. Folders that cannot be watched are logged."""
    if not server.trusted or id(server) in _observers:
        return
    folders = [uris.to_fs_path(folder.uri) for folder in server.workspace.folders.values()]
    if not folders and server.workspace.root_path:
        folders = [server.workspace.root_path]  # a client that knows no workspace folders
    observer = Observer()
    handler = _Handler(server, asyncio.get_running_loop())
    watched = 0
    for folder in folders:
        if folder is None or not Path(folder).is_dir():
            continue
        try:
            observer.schedule(handler, folder, recursive=True)
            watched += 1
        except OSError as error:
            server.log(f"{folder} cannot be watched: {error}")
    if not watched:
        return
    try:
        observer.daemon = True
        observer.start()
    except OSError as error:
        server.log(f"the workspace cannot be watched: {error}")
        return
    server.log(f"watching {watched} folders for Nsight reports, headers and compile_commands.json")
    _observers[id(server)] = observer


def stop_watching(server: OptimlServer) -> None:
    observer = _observers.pop(id(server), None)
    if observer is not None:
        observer.stop()
