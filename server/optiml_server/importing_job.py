"""Reads a Nsight Compute report and shows what it says of the open files."""

from __future__ import annotations

import stat
from pathlib import Path

from attrs import frozen

from optiml_server.documents import find_kernel, is_cuda, kernel_text
from optiml_server.engine_process import run_engine
from optiml_server.results import KernelProfileResult, digest_of
from optiml_server.session import OptimlServer
from optiml_server.snapshot import engine_arguments, take_snapshot

LARGEST_REPORT = 256 << 20
# The engine's note on a kernel that has no more than its name in common with one of the report.
OTHER_SOURCE = "no instruction in the report comes from"


@frozen
class Imported:
    """``kernels``: the names of those that the report tells something about. ``problem``: why there are none."""

    kernels: tuple[str, ...]
    problem: str = ""


def unreadable(path: Path) -> str:
    """Why a report is not even looked at, or an empty string."""
    try:
        facts = path.lstat()
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    if not stat.S_ISREG(facts.st_mode):
        return f"{path.name} is no plain file"
    if facts.st_size > LARGEST_REPORT:
        return f"{path.name} has {facts.st_size >> 20} MiB; at most {LARGEST_REPORT >> 20} MiB are read"
    return ""


async def import_report(server: OptimlServer, path: Path) -> Imported:
    """Looks the report's kernels up in every open CUDA file, by their names and the base names of their sources. The
    engine reads it in a limited child process; paths inside it are compared and never opened."""
    problem = unreadable(path)
    if problem:
        return Imported((), problem)
    kernels: list[str] = []
    problems: list[str] = []
    for document in [one for one in server.workspace.text_documents.values() if is_cuda(one)]:
        parsed = server.documents.parsed(document)
        if not parsed.unit.kernels:
            continue
        snapshot = take_snapshot(server, document, "import")
        command = ["profile", str(snapshot.file), "--report", str(path), "--json"]
        answer = await run_engine([*command, *engine_arguments(server, snapshot, document)])
        if answer.error:
            problems.append(answer.error)
            continue
        for value in answer.value.get("kernels", []):
            found = find_kernel(parsed, value["name"])
            if found is None or value.get("problem") or _is_of_another_file(value):
                continue
            stored = {**value, "first_line": found.range.start_line}
            result = KernelProfileResult(digest_of(kernel_text(parsed, found)), stored)
            server.results.put_profile(document.uri, found.qualified, result)
            kernels.append(found.qualified)
    if kernels:
        await server.refresh()
        return Imported(tuple(kernels))
    if problems:
        return Imported((), problems[0] if path.name in problems[0] else f"{path.name}: {problems[0]}")
    return Imported((), f"{path.name} has no kernel of an open file in it")


def _is_of_another_file(value: dict[str, object]) -> bool:
    notes = value.get("notes")
    return isinstance(notes, list) and any(str(note).startswith(OTHER_SOURCE) for note in notes)
