"""Initialize, configuration, shutdown."""

from __future__ import annotations

import sys
import threading

from lsprotocol import types

from optiml_core import __version__
from optiml_server.features.candidate_content import SCHEME
from optiml_server.session import SECTION, OptimlServer
from optiml_server.watcher import start_watching, stop_watching


async def pull_settings(server: OptimlServer) -> None:
    """Asks the client for our section; one that cannot answer pushes it instead."""
    if not server.answers_configuration:
        server.settings_ready.set()
        return
    params = types.ConfigurationParams(items=[types.ConfigurationItem(section=SECTION)])
    (value,) = await server.workspace_configuration_async(params)
    server.use_settings(value)


def warm_up() -> None:
    """Imports the engine, which takes longer than a client should wait for the answer to ``initialize``."""
    import optiml_core.profiling
    import optiml_core.workload  # noqa: F401


def register(server: OptimlServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        if params.client_info is not None:
            server.client_name = f"{params.client_info.name} {params.client_info.version or ''}".strip()
        options = params.initialization_options
        if isinstance(options, dict):
            server.trusted = options.get("trusted", True) is True
            server.client_shows_results = options.get("showsResults", False) is True

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        threading.Thread(target=warm_up, name="imports", daemon=True).start()
        server.log(f"OptiML {__version__}, Python {sys.version.split()[0]} at {sys.executable}")
        if not server.trusted:
            server.log("the workspace is not trusted: static findings only, nothing is compiled or run")
        await pull_settings(server)
        workspace = server.client_capabilities.workspace
        wanted = []
        if workspace and workspace.text_document_content and workspace.text_document_content.dynamic_registration:
            wanted.append(
                types.Registration(
                    id="optiml-candidates",
                    method=types.WORKSPACE_TEXT_DOCUMENT_CONTENT,
                    register_options=types.TextDocumentContentRegistrationOptions(schemes=[SCHEME]),
                )
            )
        changes = workspace.did_change_configuration if workspace else None
        if changes and changes.dynamic_registration:
            # VS Code sends no changes of the configuration to a server that did not ask for them.
            wanted.append(
                types.Registration(
                    id="optiml-configuration",
                    method=types.WORKSPACE_DID_CHANGE_CONFIGURATION,
                    register_options=types.DidChangeConfigurationRegistrationOptions(section=SECTION),
                )
            )
        if wanted:
            await server.client_register_capability_async(types.RegistrationParams(registrations=wanted))
        start_watching(server)
        server.send_status("ok", "")

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        if server.answers_configuration:
            await pull_settings(server)
        else:
            section = params.settings.get(SECTION) if isinstance(params.settings, dict) else None
            server.use_settings(section)
        await server.refresh()

    @server.feature(types.SHUTDOWN)
    async def shutdown(params: None) -> None:
        # pygls 2.1 fails to shut down while a command is in flight: let them all answer first.
        stop_watching(server)
        await server.jobs.stop_all()
        server.remove_private_folder()
