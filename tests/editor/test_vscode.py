"""A user's path through real VS Code: lens, squiggle, hover, optimize, cancel, diff, apply, undo, report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import ARTEFACTS, ROOT

pytestmark = pytest.mark.editor


def test_a_users_path(vscode: str, node: dict[str, str], workspace: Path) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["node", str(ROOT / "tests" / "editor" / "drive.mjs"), vscode, str(ARTEFACTS)],
        env=node, capture_output=True, text=True, timeout=400, cwd=ROOT, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    # Nothing was written to the user's file: applying is an edit of the buffer, and it was undone.
    assert (workspace / "transpose.cu").read_bytes() == (ROOT / "examples" / "transpose.cu").read_bytes()
