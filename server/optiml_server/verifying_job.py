"""Verifies a kernel in the buffer against the file's last commit. git only reads a blob, in trusted workspaces."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from optiml_server.documents import path_of
from optiml_server.engine_process import run_engine
from optiml_server.jobs import Job
from optiml_server.session import OptimlServer
from optiml_server.snapshot import engine_arguments, take_snapshot

GIT_SECONDS = 10.0


async def committed_text(path: Path) -> bytes | str:
    """The file's bytes in the last commit, or why they cannot be had."""
    git = shutil.which("git")
    if git is None:
        return "git was not found"
    # Hooks and file-system monitors of a repository are programs; reading a blob needs neither.
    process = await asyncio.create_subprocess_exec(
        git,
        *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.devnull, "-C", str(path.parent)),
        *("cat-file", "blob", f"HEAD:./{path.name}"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), GIT_SECONDS)
    except TimeoutError:
        process.kill()
        return "git did not answer"
    if process.returncode != 0:
        return f"the last commit has no {path.name}: {errors.decode('utf-8', 'replace').strip()[:200]}"
    return output


async def verify_against_head(server: OptimlServer, uri: str, kernel: str, job: Job) -> dict[str, Any]:
    """``{equivalent, summary, verdict}``, or ``{error}``."""
    document = server.cuda_document(uri)
    if document is None:
        return {"error": "the document is not open"}
    path = Path(path_of(document))
    committed = await committed_text(path)
    if isinstance(committed, str):
        return {"error": committed}
    snapshot = take_snapshot(server, document, job.token)
    original = snapshot.file.with_name(f"committed-{snapshot.file.name}")
    original.write_bytes(committed)
    arguments = ["verify", str(original), str(snapshot.file), "--kernel", kernel, "--json"]
    answer = await run_engine([*arguments, *engine_arguments(server, snapshot, document)], cancelled=job.cancelled)
    if answer.error:
        return {"error": answer.error}
    words = {True: "equivalent to", False: "not equivalent to", None: "could not be told from"}
    equivalent = answer.value.get("equivalent")
    verdict = answer.value.get("verdict") or {}
    reason = f": {verdict.get('reason')}" if verdict.get("reason") else ""
    summary = f"{kernel} is {words[equivalent]} the last commit's{reason}"
    return {"status": "verified", "equivalent": equivalent, "summary": summary, "verdict": verdict}
