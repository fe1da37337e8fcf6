"""Makes a checked kernel from a comment in the buffer, in a child process, and inserts it below the comment."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_server.edits import workspace_edit
from optiml_server.engine_process import run_engine
from optiml_server.jobs import Job
from optiml_server.optimizing_job import JobFailure
from optiml_server.session import OptimlServer
from optiml_server.snapshot import engine_arguments, take_snapshot


@frozen
class SynthesizedKernel:
    """``source`` passed every check; ``before`` is the buffer it was made for; ``line`` (from 0) the comment's last."""

    before: str
    line: int
    source: str
    summary: str


@frozen
class OpenQuestion:
    """What the comment leaves open."""

    text: str


def end_of_comment(lines: list[str], line: int) -> int:
    """The last line (from 0) of the comment that covers ``line``; declarations below it are no part of it."""
    last = line
    if lines[line].lstrip().startswith("//"):
        while last + 1 < len(lines) and _goes_on(lines[last + 1]):
            last += 1
        return last
    while "*/" not in lines[last] and last + 1 < len(lines):
        last += 1
    return last


def _goes_on(line: str) -> bool:
    plain = line.lstrip()
    return plain.startswith("//") and not plain.startswith(("// optiml:", "// optiml launch:"))


def with_kernel(text: str, line: int, source: str) -> str:
    """``text`` with ``source`` below ``line`` (from 0), in the text's own line ending."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if not lines[line].endswith(("\n", "\r")):
        lines[line] += newline
    lines.insert(line + 1, source.replace("\n", newline))
    return "".join(lines)


async def synthesize_kernel(
    server: OptimlServer, document: TextDocument, line: int, job: Job
) -> SynthesizedKernel | OpenQuestion | JobFailure:
    """Runs ``optiml synthesize`` on the comment around ``line`` (from 0) of the buffer as it is now."""
    snapshot = take_snapshot(server, document, job.token)
    arguments = ["synthesize", f"{snapshot.file}:{line + 1}", "--json"]
    answer = await run_engine([*arguments, *engine_arguments(server, snapshot, document)], cancelled=job.cancelled)
    if answer.error:
        return JobFailure(answer.error)
    value = answer.value
    if value.get("question"):
        return OpenQuestion(str(value["question"]))
    verdict: dict[str, Any] = value.get("verdict") or {}
    source = value.get("kernel")
    if answer.status != 0 or not source or verdict.get("passed") is not True:
        failed = [str(one.get("detail")) for one in verdict.get("checks", []) if one.get("result") != "passed"]
        return JobFailure(f"the drafted kernel did not pass its checks: {'; '.join(failed[:2]) or 'no verdict'}")
    lines = snapshot.text.splitlines()
    return SynthesizedKernel(snapshot.text, end_of_comment(lines, line), str(source), summary_of(value))


def summary_of(value: dict[str, Any]) -> str:
    """The specification in a sentence, for the preview and the edit's description."""
    specification = value["specification"]
    shown = [
        f"{one['type']} {one['name']}" + (f" ({' x '.join(one['shape'])})" if one["shape"] else "") + f": {one['role']}"
        for one in specification["parameters"]
    ]
    rules = "; ".join(specification["edge_rules"])
    unread = ", ".join(value.get("not_understood") or ())
    if unread:  # a model has read what the grammar could not
        rules += f"; our grammar did not understand: {unread}"
    checks = len((value.get("verdict") or {}).get("checks", []))
    return f"{specification['reference']} [{', '.join(shown)}]. {rules}. {checks} checks passed"


async def insert_kernel(server: OptimlServer, uri: str, made: SynthesizedKernel) -> str:
    """Inserts the kernel below its comment as one edit; why not, or an empty string."""
    document = server.cuda_document(uri)
    if document is None:
        return "the document is not open"
    if document.source != made.before:
        return "the text changed meanwhile; ask again"
    after = with_kernel(made.before, made.line, made.source)
    edit = workspace_edit(server, document, after, "OptiML: synthesized kernel", made.summary)
    answer = await server.workspace_apply_edit_async(
        types.ApplyWorkspaceEditParams(edit=edit, label="OptiML: synthesize a kernel")
    )
    return "" if answer.applied else f"the editor refused the edit ({answer.failure_reason or 'the text changed'})"
