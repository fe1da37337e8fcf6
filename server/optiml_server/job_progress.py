"""Work-done progress of a job: begins and ends it whatever happens, and turns Cancel into the job's stop flag."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lsprotocol import types

from optiml_server.jobs import Job
from optiml_server.session import OptimlServer


@asynccontextmanager
async def job_progress(server: OptimlServer, job: Job, title: str) -> AsyncIterator[None]:
    """Shows ``title`` with Cancel while the block runs, for clients that can."""
    server.send_status("busy", title)
    progress = server.work_done_progress
    if server.shows_progress:
        await progress.create_async(job.token)
        progress.tokens[job.token].add_done_callback(lambda _: job.cancelled.set())
        progress.begin(job.token, types.WorkDoneProgressBegin(title=title, cancellable=True))
    try:
        yield
    finally:
        if server.shows_progress:
            progress.end(job.token, types.WorkDoneProgressEnd())
            progress.tokens.pop(job.token, None)
        server.send_status("ok", "")
