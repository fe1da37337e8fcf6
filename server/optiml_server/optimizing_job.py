"""Optimizes one kernel in a child process, with progress and a way to stop it."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from lsprotocol import types

from optiml_server.documents import find_kernel, kernel_text
from optiml_server.engine_process import run_engine
from optiml_server.jobs import Job
from optiml_server.results import OptimizeResult, digest_of
from optiml_server.session import OptimlServer
from optiml_server.snapshot import engine_arguments, take_snapshot


@frozen
class JobFailure:
    """Why a job gave no result, in one sentence for people."""

    message: str


def progress_message(event: dict[str, Any]) -> str:
    """``34 variants, best 1.82x measured, trying vectorize-access``."""
    parts = [f"{event.get('evaluations', 0)} variants"]
    best = event.get("best")
    if best:
        parts.append(f"best {best['speedup']:.2f}x {best['kind']}")
    if event.get("event") == "phase":
        parts.append(str(event.get("text", "")))
    elif event.get("step"):
        parts.append(f"tried {event['step']}: {event.get('state')}")
    return ", ".join(parts)


async def optimize_kernel(
    server: OptimlServer, uri: str, kernel_name: str, job: Job, rewrites: tuple[str, ...] = ()
) -> OptimizeResult | JobFailure:
    """Runs the search on the buffer as it is now. The result is kept whatever the user does meanwhile."""
    document = server.cuda_document(uri)
    if document is None:
        return JobFailure("the document is not open")
    parsed = server.documents.parsed(document)
    kernel = find_kernel(parsed, kernel_name)
    if kernel is None:
        return JobFailure(f"no kernel {kernel_name} in this file")
    digest = digest_of(kernel_text(parsed, kernel))
    snapshot = take_snapshot(server, document, job.token)
    report = snapshot.file.with_suffix(".html")
    settings = server.settings
    arguments = ["optimize", str(snapshot.file), "--kernel", kernel.qualified, "--json", "--progress", "json"]
    arguments += ["--apply", "--report", str(report)]
    if settings.seconds:
        arguments += ["--seconds", f"{settings.seconds:g}"]
    if settings.allow:
        arguments += ["--allow", ",".join(settings.allow)]
    if settings.rewrites_only or rewrites:
        arguments.append("--rewrites-only")
    for name in rewrites:
        arguments += ["--rewrite", name]

    def report_progress(event: dict[str, Any]) -> None:
        if server.shows_progress:
            message = progress_message(event)
            server.work_done_progress.report(job.token, types.WorkDoneProgressReport(message=message, cancellable=True))

    answer = await run_engine(
        [*arguments, *engine_arguments(server, snapshot, document)], on_event=report_progress, cancelled=job.cancelled
    )
    if answer.error:
        return JobFailure(answer.error)
    after = snapshot.file.read_bytes().decode("utf-8", "surrogatepass") if answer.value.get("best") else None
    result = OptimizeResult(
        job.token,
        uri,
        kernel.qualified,
        digest,
        snapshot.text,
        after if after != snapshot.text else None,
        answer.value,
        report.read_text("utf-8") if report.is_file() else "",
    )
    server.results.put_search(result)
    await server.refresh()
    return result
