"""An untrusted workspace runs nothing; a server that is killed takes its jobs along, and what they found is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

from .conftest import COMMAND, SOURCE, capabilities, execute, make_client, open_text, server_environment
from .test_server import diagnostics, hover

pytestmark = pytest.mark.asyncio
KERNEL_LINE = next(i for i, line in enumerate(SOURCE.splitlines()) if "__global__" in line)


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=COMMAND, client_factory=make_client, server_env=server_environment())
)
async def untrusted(lsp: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    file = tmp_path / "transpose.cu"
    file.write_text(SOURCE)
    lsp.file, lsp.uri = file, file.as_uri()  # type: ignore[attr-defined]
    lsp.set_configuration({"device": "emulator"}, section="optiml")
    await lsp.initialize_session(
        types.InitializeParams(
            capabilities=capabilities(), root_uri=tmp_path.as_uri(), initialization_options={"trusted": False}
        )
    )
    open_text(lsp, lsp.uri, SOURCE)  # type: ignore[attr-defined]
    yield
    await lsp.shutdown_session()


COMMANDS: dict[str, Callable[[Any], list[Any]]] = {
    "optiml.optimize": lambda client: [client.uri, "transpose"],
    "optiml.tryRewrite": lambda client: [client.uri, "transpose", ["shared-tile-transpose"]],
    "optiml.profile": lambda client: [client.uri, "transpose"],
    "optiml.verifyAgainstHead": lambda client: [client.uri, "transpose"],
    "optiml.importReport": lambda client: [str(client.file)],
    "optiml.synthesize": lambda client: [client.uri, 0],
}


async def test_an_untrusted_workspace_shows_and_runs_nothing(untrusted: Any) -> None:
    for command, arguments in COMMANDS.items():
        answer = await execute(untrusted, command, *arguments(untrusted))
        assert answer["status"] == "failed", command
        assert "trust" in answer["message"], command
    assert await diagnostics(untrusted)
    assert "transpose" in await hover(untrusted, KERNEL_LINE)
    found = await untrusted.text_document_code_action_async(
        types.CodeActionParams(
            types.TextDocumentIdentifier(untrusted.uri),
            types.Range(types.Position(KERNEL_LINE, 0), types.Position(KERNEL_LINE, 0)),
            types.CodeActionContext(await diagnostics(untrusted)),
        )
    )
    assert not found
    assert not descendants(untrusted._server.pid)


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit():
                parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        below = {child for child, parent in parents.items() if parent == above} - found
        found |= below
        waiting += below
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Wire:
    """The protocol by hand: the process at its other end is to be killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=server_environment()
        )

    def send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()


async def test_a_killed_server_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "transpose.cu"
    file.write_text(SOURCE)
    wire = Wire()
    try:
        options = {"trusted": True}
        wire.send(
            id=1,
            method="initialize",
            params={
                "processId": os.getpid(), "rootUri": tmp_path.as_uri(), "capabilities": {},
                "initializationOptions": options,
            },
        )  # fmt: skip
        wire.send(method="initialized", params={})
        item = {"uri": file.as_uri(), "languageId": "cuda-cpp", "version": 1, "text": SOURCE}
        wire.send(method="textDocument/didOpen", params={"textDocument": item})
        command = {"command": "optiml.optimize", "arguments": [file.as_uri(), "transpose"]}
        wire.send(id=2, method="workspace/executeCommand", params=command)
        # The engine, its evaluation processes, the emulator's worker below them.
        assert wait_for(lambda: len(descendants(wire.process.pid)) >= 4, 60)
        below = descendants(wire.process.pid)
        wire.process.send_signal(signal.SIGKILL)
        wire.process.wait(10)
        assert wait_for(lambda: not any(is_alive(pid) for pid in below), 10), [
            Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below if is_alive(pid)
        ]
        assert file.read_text() == SOURCE
    finally:
        wire.process.kill()
