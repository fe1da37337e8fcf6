"""The server object: what outlives a request."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from optiml_core import __version__
from optiml_server.documents import Documents, is_cuda
from optiml_server.jobs import Jobs
from optiml_server.results import Results
from optiml_server.settings import Settings, read_settings

SECTION = "optiml"


class OptimlServer(LanguageServer):
    """Settings, parsed documents, results and jobs. Requests hold no state of their own."""

    def __init__(self) -> None:
        super().__init__("optiml", __version__, max_workers=2)
        self.settings = Settings()
        self.settings_ready = asyncio.Event()
        self.documents = Documents()
        self.results = Results()
        self.jobs = Jobs()
        self.trusted = True
        self.client_shows_results = False
        self.client_name = "unknown"
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    # ------------------------------------------------------------------------------ documents

    def cuda_document(self, uri: str) -> TextDocument | None:
        """The open CUDA document, or None for anything else."""
        document = self.workspace.text_documents.get(uri)
        return document if document is not None and is_cuda(document) else None

    def private_folder(self) -> Path:
        """A folder for snapshots of unsaved buffers, removed when the server ends."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="optiml-server-")
        return Path(self._folder.name)

    def remove_private_folder(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # ------------------------------------------------------------------------------- settings

    def use_settings(self, value: Any) -> None:
        """Takes over a client's settings; what is wrong with them is logged, not shown."""
        self.settings, wrong = read_settings(value)
        for message in wrong:
            self.log(message, types.MessageType.Warning)
        self.settings_ready.set()

    # ------------------------------------------------------------------------------- messages

    def log(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """To the editor's log; background trouble never pops up."""
        self.window_log_message(types.LogMessageParams(kind, text))

    def show(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """To the user, only for what the user started."""
        self.window_show_message(types.ShowMessageParams(kind, text))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """pygls' own way pops up; an internal error belongs into the log."""
        self.log(f"{type(error).__name__}: {error}", types.MessageType.Error)

    # --------------------------------------------------------------------------- capabilities

    @property
    def pulls_diagnostics(self) -> bool:
        text = self.client_capabilities.text_document
        return bool(text and text.diagnostic)

    @property
    def shows_progress(self) -> bool:
        window = self.client_capabilities.window
        return bool(window and window.work_done_progress)

    @property
    def answers_configuration(self) -> bool:
        workspace = self.client_capabilities.workspace
        return bool(workspace and workspace.configuration)

    async def refresh(self) -> None:
        """Asks the client to fetch lenses, hints and diagnostics anew, where it can."""
        workspace = self.client_capabilities.workspace
        if workspace is None:
            return
        if workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)
        if workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        if workspace.diagnostics and workspace.diagnostics.refresh_support:
            self.workspace_diagnostic_refresh(None)

    def send_status(self, state: str, message: str) -> None:
        """For the client's one status item: ok, busy or warning."""
        self.protocol.notify("optiml/status", {"state": state, "message": message, "jobs": self.jobs.running_count})
