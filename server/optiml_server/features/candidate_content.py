"""The proposed text of a file, read-only, for the editor's diff view (scheme ``optiml-candidate``)."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from optiml_server.session import OptimlServer

SCHEME = "optiml-candidate"


def candidate_uri(path: str, job: str) -> str:
    """Where the editor finds a job's result."""
    return f"{SCHEME}://{path}?job={job}"


def register(server: OptimlServer) -> None:
    @server.feature(types.WORKSPACE_TEXT_DOCUMENT_CONTENT)
    def content(params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
        job = parse_qs(urlsplit(params.uri.replace("%3D", "=")).query).get("job", [""])[0]
        result = server.results.by_job.get(job)
        if result is None or result.after is None:
            raise JsonRpcInvalidParams(message=f"no result for {params.uri}")
        return types.TextDocumentContentResult(text=result.after)
