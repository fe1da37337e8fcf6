"""Opening, changing, saving and closing documents."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from optiml_server.features.diagnostics import publish
from optiml_server.profiling_job import profile_kernels
from optiml_server.session import OptimlServer

PAUSE_SECONDS = 0.15  # diagnostics follow a pause in typing, not every key


def register(server: OptimlServer) -> None:
    pauses: dict[str, asyncio.Task[None]] = {}
    background: set[asyncio.Task[None]] = set()

    def start(work: asyncio.Task[None]) -> None:
        background.add(work)
        work.add_done_callback(background.discard)

    async def publish_after_pause(uri: str) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        publish(server, uri)

    async def profile_when_ready(uri: str) -> None:
        await server.settings_ready.wait()
        if server.settings.run_on_open and server.trusted and not server.jobs.busy():
            await profile_kernels(server, uri, None, background=True)
            publish(server, uri)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        uri = params.text_document.uri
        if server.cuda_document(uri) is None:
            return
        publish(server, uri)
        if params.text_document.uri.startswith("file:"):
            start(asyncio.create_task(profile_when_ready(uri)))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if server.cuda_document(uri) is None or server.pulls_diagnostics:
            return
        earlier = pauses.get(uri)
        if earlier is not None:
            earlier.cancel()
        pauses[uri] = asyncio.create_task(publish_after_pause(uri))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        if server.cuda_document(uri) is not None:
            publish(server, uri)
            start(asyncio.create_task(profile_when_ready(uri)))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.documents.forget(uri)
        pause = pauses.pop(uri, None)
        if pause is not None:
            pause.cancel()
        if not server.pulls_diagnostics:
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))
