"""The commands: what a user starts. Errors of these are shown; results are offered, never applied unasked."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from lsprotocol import types

from optiml_core import __version__
from optiml_core.records import Failure
from optiml_server.documents import find_kernel, path_of
from optiml_server.edits import apply_result, workspace_edit
from optiml_server.features.candidate_content import candidate_uri
from optiml_server.features.diagnostics import publish
from optiml_server.importing_job import import_report
from optiml_server.job_progress import job_progress
from optiml_server.jobs import Job
from optiml_server.optimizing_job import JobFailure, optimize_kernel
from optiml_server.profiling_job import profile_kernels
from optiml_server.results import OptimizeResult
from optiml_server.session import OptimlServer
from optiml_server.synthesizing_job import OpenQuestion, insert_kernel, synthesize_kernel
from optiml_server.verifying_job import verify_against_head

APPLY, SHOW_REPORT, INSERT = "Apply", "Show report", "Insert"
UNTRUSTED = "OptiML runs nothing in an untrusted workspace"


def failed(server: OptimlServer, message: str) -> dict[str, Any]:
    """Shows why a command the user ran did not work, and tells the client so."""
    server.show(f"OptiML: {message}", types.MessageType.Error)
    return {"status": "failed", "message": message}


async def offer(server: OptimlServer, result: OptimizeResult) -> dict[str, Any]:
    """Shows a result: by the client itself if it can, else by a question with Apply."""
    document = server.cuda_document(result.uri)
    path = path_of(document) if document is not None else ""
    answer = {
        "status": "better" if result.after is not None else "no-improvement",
        "job": result.job,
        "kernel": result.kernel,
        "summary": result.summary(),
        "candidate": candidate_uri(path, result.job) if result.after is not None else None,
        "speedup": result.value.get("speedup"),
    }
    if server.client_shows_results:
        return answer
    if result.after is None:
        server.show(f"OptiML: {result.summary()}")
        return answer
    chosen = await server.window_show_message_request_async(
        types.ShowMessageRequestParams(
            types.MessageType.Info, f"OptiML: {result.summary()}", [types.MessageActionItem(APPLY)]
        )
    )
    if chosen is not None and chosen.title == APPLY:
        problem = await apply_result(server, result)
        if problem:
            return {**failed(server, problem), "job": result.job}
    return answer


def _publish_all(server: OptimlServer) -> None:
    for uri in list(server.workspace.text_documents):
        publish(server, uri)


def register(server: OptimlServer) -> None:
    async def search(uri: str, kernel: str, rewrites: tuple[str, ...]) -> dict[str, Any]:
        if not server.trusted:
            return failed(server, UNTRUSTED)
        job = Job("optimize", uri, kernel)
        title = f"Optimizing {kernel}" if not rewrites else f"Verifying {', '.join(rewrites)} on {kernel}"
        async with server.jobs.running(job, server.settings.device), job_progress(server, job, title):
            result = await optimize_kernel(server, uri, kernel, job, rewrites)
        if isinstance(result, JobFailure):
            if job.cancelled.is_set():
                return {"status": "cancelled", "message": result.message}
            return failed(server, result.message)
        return await offer(server, result)

    @server.command("optiml.optimize")
    async def optimize(uri: str, kernel: str) -> dict[str, Any]:
        return await search(uri, kernel, ())

    @server.command("optiml.tryRewrite")
    async def try_rewrite(uri: str, kernel: str, rewrites: list[str]) -> dict[str, Any]:
        return await search(uri, kernel, tuple(rewrites))

    @server.command("optiml.profile")
    async def profile(uri: str, kernel: str) -> dict[str, Any]:
        if not server.trusted:
            return failed(server, UNTRUSTED)
        job = Job("profile", uri, kernel)
        title = f"Profiling {kernel}"
        async with server.jobs.running(job, server.settings.device), job_progress(server, job, title):
            problem = await profile_kernels(server, uri, kernel, background=False, job=job)
        publish(server, uri)
        if problem and not job.cancelled.is_set():
            return failed(server, problem)
        return {"status": "cancelled" if job.cancelled.is_set() else "profiled"}

    @server.command("optiml.verifyAgainstHead")
    async def verify(uri: str, kernel: str) -> dict[str, Any]:
        if not server.trusted:
            return failed(server, UNTRUSTED)
        job = Job("verify", uri, kernel)
        title = f"Verifying {kernel} against the last commit"
        async with server.jobs.running(job, server.settings.device), job_progress(server, job, title):
            answer = await verify_against_head(server, uri, kernel, job)
        if "error" in answer:
            return failed(server, answer["error"])
        server.show(f"OptiML: {answer['summary']}")
        return answer

    @server.command("optiml.applyResult")
    async def apply(job: str) -> dict[str, Any]:
        result = server.results.by_job.get(job)
        if result is None:
            return failed(server, "this result is not known any more")
        problem = await apply_result(server, result)
        return failed(server, problem) if problem else {"status": "applied"}

    @server.command("optiml.showReport")
    def show_report(uri: str, kernel: str) -> dict[str, Any]:
        result = server.results.searches.get((uri, kernel))
        if result is None or not result.report:
            return {"status": "none", "message": f"{kernel} has not been optimized in this session"}
        return {"status": "report", "html": result.report, "title": f"OptiML: {kernel}"}

    @server.command("optiml.stopJob")
    def stop_job() -> dict[str, Any]:
        return {"status": "stopped", "jobs": server.jobs.stop()}

    @server.command("optiml.declareWorkload")
    async def declare_workload(uri: str, kernel: str) -> dict[str, Any]:
        document = server.cuda_document(uri)
        if document is None:
            return failed(server, "the document is not open")
        parsed = server.documents.parsed(document)
        found = find_kernel(parsed, kernel)
        if found is None:
            return failed(server, f"no kernel {kernel} in this file")
        from optiml_core.source import apply_edits
        from optiml_core.workload import find_workload
        from optiml_core.workload.declaring import declare_edit

        declared = declare_edit(parsed.unit, find_workload(parsed.unit, found))
        if isinstance(declared, Failure):
            return failed(server, declared.message)
        data = apply_edits(parsed.data, [declared])
        if isinstance(data, Failure):
            return failed(server, data.message)
        after = data.decode("utf-8", "surrogatepass")
        edit = workspace_edit(server, document, after, "OptiML: declare the workload", f"inferred for {kernel}")
        params = types.ApplyWorkspaceEditParams(edit=edit, label="OptiML: declare the workload")
        answer = await server.workspace_apply_edit_async(params)
        return {"status": "applied"} if answer.applied else failed(server, "the editor refused the edit")

    @server.command("optiml.synthesize")
    async def synthesize(uri: str, line: int) -> dict[str, Any]:
        if not server.trusted:
            return failed(server, UNTRUSTED)
        document = server.cuda_document(uri)
        if document is None:
            return failed(server, "the document is not open")
        job = Job("synthesize", uri, f"line {line + 1}")
        title = "Making a kernel from the comment"
        async with server.jobs.running(job, server.settings.device), job_progress(server, job, title):
            made = await synthesize_kernel(server, document, line, job)
        if isinstance(made, JobFailure):
            if job.cancelled.is_set():
                return {"status": "cancelled", "message": made.message}
            return failed(server, made.message)
        if isinstance(made, OpenQuestion):
            server.show(f"OptiML: {made.text}")
            return {"status": "question", "question": made.text}
        # A wrong specification cannot be verified away: the person sees it before anything is inserted.
        chosen = await server.window_show_message_request_async(
            types.ShowMessageRequestParams(
                types.MessageType.Info, f"OptiML: {made.summary}", [types.MessageActionItem(INSERT)]
            )
        )
        if chosen is None or chosen.title != INSERT:
            return {"status": "declined", "summary": made.summary}
        problem = await insert_kernel(server, uri, made)
        return failed(server, problem) if problem else {"status": "inserted", "summary": made.summary}

    @server.command("optiml.importReport")
    async def import_nsight_report(path: str) -> dict[str, Any]:
        if not server.trusted:
            return failed(server, UNTRUSTED)
        imported = await import_report(server, Path(path))
        if imported.problem:
            return failed(server, imported.problem)
        _publish_all(server)
        server.show(f"OptiML: {Path(path).name} tells of {', '.join(imported.kernels)}")
        return {"status": "imported", "kernels": list(imported.kernels)}

    @server.command("optiml.debugInformation")
    def debug_information() -> str:
        return "\n".join(
            [
                f"OptiML {__version__}",
                f"Python {sys.version.split()[0]} at {sys.executable}",
                f"{platform.platform()}",
                f"client: {server.client_name}",
                f"settings: {server.settings}",
                f"trusted: {server.trusted}; jobs: {server.jobs.running_count}",
            ]
        )
