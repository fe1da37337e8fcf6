"""Profiles kernels of a document in a child process and keeps what came out."""

from __future__ import annotations

from optiml_server.documents import find_kernel, kernel_text
from optiml_server.engine_process import EngineAnswer, run_engine
from optiml_server.jobs import Job
from optiml_server.results import KernelProfileResult, digest_of
from optiml_server.session import OptimlServer
from optiml_server.snapshot import engine_arguments, take_snapshot


async def profile_kernels(
    server: OptimlServer, uri: str, kernel: str | None, *, background: bool, job: Job | None = None
) -> str:
    """Profiles one kernel, or all. Returns what went wrong, or an empty string.

    In the background, trouble is logged; a kernel that cannot run keeps its static findings.
    """
    document = server.cuda_document(uri)
    if document is None:
        return "the document is not open"
    parsed = server.documents.parsed(document)
    if not parsed.unit.kernels:
        return "no kernel in this file"
    snapshot = take_snapshot(server, document, "profile")
    target = f"{snapshot.file}:{kernel}" if kernel else str(snapshot.file)
    cancelled = job.cancelled if job is not None else None
    answer: EngineAnswer = await run_engine(
        ["profile", target, "--json", *engine_arguments(server, snapshot, document)], cancelled=cancelled
    )
    if answer.error:
        server.log(f"profile of {uri}: {answer.error}")
        return answer.error
    problems = []
    for value in answer.value.get("kernels", []):
        found = find_kernel(parsed, value["name"])
        if found is None:
            continue
        digest = digest_of(kernel_text(parsed, found))
        stored = {**value, "first_line": found.range.start_line}
        server.results.put_profile(uri, found.qualified, KernelProfileResult(digest, stored))
        if value.get("problem"):
            problems.append(f"{found.qualified}: {value['problem']}")
            server.log(f"{found.qualified} was not run: {value['problem']}")
    await server.refresh()
    return "" if background or not problems else "; ".join(problems)
