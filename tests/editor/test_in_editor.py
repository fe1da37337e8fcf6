"""Tests inside VS Code's extension host, through the `vscode` API: tests/editor/in_editor/index.cjs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.editor


def test_the_api(vscode_for_tests: str, node: dict[str, str], workspace: Path, tmp_path: Path) -> None:
    (workspace / "broken.cu").write_text("__global__ void first(float* x) {\n  x[threadIdx.x] = 2.0f;\n")
    (workspace / "plain.cpp").write_text("int main() { return 0; }\n")
    # What is tested is the installed VSIX, not the repository.
    (installed,) = (tmp_path / "extensions").glob("optiml.optiml-*")
    folder = ROOT / "tests" / "editor"
    tests = folder / "in_editor" / "index.cjs"
    done = subprocess.run(
        ["node", str(folder / "run_in_host.mjs"), vscode_for_tests, str(installed), str(tests)],
        env=node, capture_output=True, text=True, timeout=270, cwd=ROOT, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "10 passed, 0 failed" in done.stdout
