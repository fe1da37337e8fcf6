"""A real client over stdio for the language server's tests."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient
from pytest_lsp.client import make_test_lsp_client

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "examples" / "transpose.cu").read_text()


def capabilities(*, pull: bool = True) -> types.ClientCapabilities:
    return types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(
            apply_edit=True,
            configuration=True,
            did_change_configuration=types.DidChangeConfigurationClientCapabilities(dynamic_registration=True),
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
            text_document_content=types.TextDocumentContentClientCapabilities(dynamic_registration=True),
            code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
            workspace_edit=types.WorkspaceEditClientCapabilities(
                document_changes=True,
                change_annotation_support=types.ChangeAnnotationsSupportOptions(groups_on_label=True),
            ),
        ),
        text_document=types.TextDocumentClientCapabilities(
            diagnostic=types.DiagnosticClientCapabilities() if pull else None,
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
        ),
        window=types.WindowClientCapabilities(work_done_progress=True),
    )


class Recorder:
    """What the client saw that pytest-lsp does not record by itself, and how it answers."""

    def __init__(self) -> None:
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        self.registrations: list[types.Registration] = []
        self.lens_refreshes = 0
        self.tokens: list[Any] = []
        self.reports: list[Any] = []
        self.questions: list[types.ShowMessageRequestParams] = []
        self.choose: str | None = None
        self.accept_edits = True


def make_client() -> LanguageClient:
    client = make_test_lsp_client()
    seen = Recorder()
    client.seen = seen  # type: ignore[attr-defined]

    # lsprotocol 2025.0.0 reads a CodeAction that carries a command as a Command.
    converter = client.protocol._converter
    converter.register_structure_hook(
        types.Command | types.CodeAction,
        lambda value, _: converter.structure(
            value, types.Command if isinstance(value.get("command"), str) else types.CodeAction
        ),
    )

    @client.feature(types.WORKSPACE_APPLY_EDIT)
    def apply_edit(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        seen.edits.append(params)
        return types.ApplyWorkspaceEditResult(applied=seen.accept_edits)

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams) -> None:
        seen.registrations += params.registrations

    @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(_: Any) -> None:
        seen.lens_refreshes += 1

    @client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def ask(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        seen.questions.append(params)
        return types.MessageActionItem(seen.choose) if seen.choose else None

    @client.feature("optiml/status")
    def status(_: Any) -> None:
        return

    return client


def server_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'server'}"}


COMMAND = [sys.executable, "-m", "optiml_server.main"]


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=COMMAND, client_factory=make_client, server_env=server_environment())
)
async def client(lsp: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    """A client with the transpose example open; nothing is profiled by itself."""
    file = tmp_path / "transpose.cu"
    file.write_text(SOURCE)
    lsp.file, lsp.uri = file, file.as_uri()  # type: ignore[attr-defined]
    lsp.set_configuration({"runOnOpen": False, "device": "emulator", "seconds": 8}, section="optiml")
    lsp.result = await lsp.initialize_session(  # type: ignore[attr-defined]
        types.InitializeParams(capabilities=capabilities(), root_uri=tmp_path.as_uri())
    )
    open_text(lsp, lsp.uri, SOURCE)  # type: ignore[attr-defined]
    yield
    await lsp.shutdown_session()


def open_text(client: LanguageClient, uri: str, text: str, language: str = "cuda-cpp") -> None:
    item = types.TextDocumentItem(uri, language, 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))


def change_text(client: LanguageClient, uri: str, version: int, text: str) -> None:
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(uri=uri, version=version),
            [types.TextDocumentContentChangeWholeDocument(text)],
        )
    )


def execute(client: LanguageClient, command: str, *arguments: Any, **more: Any) -> Any:
    params = types.ExecuteCommandParams(command=command, arguments=list(arguments), **more)
    return client.workspace_execute_command_async(params)


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.02)


def apply_edits(text: str, edits: list[Any]) -> str:
    """Applies a client's text edits (UTF-16 columns; the tests' edits are whole lines) to ``text``."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda e: (-e.range.start.line, -e.range.start.character)):
        first = starts[edit.range.start.line] + edit.range.start.character
        last = starts[edit.range.end.line] + edit.range.end.character
        text = text[:first] + edit.new_text + text[last:]
    return text


@pytest.fixture(autouse=True)
def _no_user_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTIML_ENDPOINT", raising=False)
