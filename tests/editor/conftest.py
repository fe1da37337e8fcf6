"""Real editors: code-server (VS Code) in Chromium and Neovim, installed by .ci/install-editors."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EDITORS = ROOT / ".editors"
ARTEFACTS = ROOT / "artefacts" / "editor"


@pytest.fixture(scope="session")
def node() -> dict[str, str]:
    """The environment with our Node, or a skip with the reason."""
    code_server = EDITORS / "code-server" / "node_modules" / ".bin" / "code-server"
    if not code_server.exists() or not (ROOT / "optiml.vsix").exists():
        pytest.skip("VS Code is not installed here: run .ci/install-editors (needs root)")
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: run .ci/install-editors (needs root)")
    path = f"{EDITORS / 'node' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'server'}"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the transpose example."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "transpose.cu", folder)
    return folder


@pytest.fixture
def vscode(node: dict[str, str], workspace: Path, tmp_path: Path) -> Iterator[str]:
    """code-server with our VSIX installed on ``workspace``, as a user sees it; yields its URL."""
    with _code_server(node, workspace, tmp_path, []) as url:
        yield url


@pytest.fixture
def vscode_for_tests(node: dict[str, str], workspace: Path, tmp_path: Path) -> Iterator[str]:
    """The same, but it lets a page run tests in its extension host; VS Code then hides its notifications."""
    with _code_server(node, workspace, tmp_path, ["--vscode-option", "enable-smoke-test-driver"]) as url:
        yield url


@contextlib.contextmanager
def _code_server(node: dict[str, str], workspace: Path, tmp_path: Path, more: list[str]) -> Iterator[str]:
    """code-server on a free port; it is killed with all its children."""
    data, extensions = tmp_path / "data", tmp_path / "extensions"
    (data / "User").mkdir(parents=True)
    (data / "Machine").mkdir()
    # A window of code-server is a remote one: machine-scoped settings come from Machine/settings.json.
    (data / "Machine" / "settings.json").write_text(json.dumps({"optiml.python": sys.executable}))
    settings = {
        "workbench.startupEditor": "none",
        "workbench.secondarySideBar.defaultVisibility": "hidden",
        "security.workspace.trust.enabled": False,
        "telemetry.telemetryLevel": "off",
        "extensions.autoUpdate": False,
        "extensions.autoCheckUpdates": False,
        "chat.disableAIFeatures": True,
        "git.enabled": False,
        "optiml.device": "emulator",
        "optiml.seconds": 25,
    }
    (data / "User" / "settings.json").write_text(json.dumps(settings))
    program = str(EDITORS / "code-server" / "node_modules" / ".bin" / "code-server")
    common = [program, "--user-data-dir", str(data), "--extensions-dir", str(extensions)]
    environment = {**node, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "share")}
    subprocess.run(
        [*common, "--install-extension", str(ROOT / "optiml.vsix"), "--force"],
        env=environment, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--auth", "none", "--bind-addr", f"127.0.0.1:{port}", "--disable-telemetry", "--disable-update-check"]
    options += ["--disable-workspace-trust", "--disable-getting-started-override", "--disable-proxy", *more]
    with (tmp_path / "code-server.log").open("wb") as log:
        process = subprocess.Popen(
            [*common, *options, str(workspace)], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/healthz", 60)
        yield f"http://127.0.0.1:{port}/?folder={workspace}"
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)


def _wait_for(url: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
