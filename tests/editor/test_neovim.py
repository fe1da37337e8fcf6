"""Neovim, a client that we did not write, drives the server over stdio: a person's path from finding to undone fix."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

DRIVE = ROOT / "tests" / "editor" / "drive_neovim.lua"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Neovim saw on one drive, or a skip with the reason."""
    neovim = shutil.which("nvim")
    if neovim is None:
        pytest.skip("nvim is not installed: run .ci/install-editors (needs root)")
    folder = tmp_path_factory.mktemp("neovim")
    file = folder / "project" / "transpose.cu"
    file.parent.mkdir()
    shutil.copy(ROOT / "examples" / "transpose.cu", file)
    answer = folder / "seen.json"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'server'}",
        "OPTIML_SERVER": json.dumps([sys.executable, "-m", "optiml_server.main"]),
        "OPTIML_FILE": str(file),
        "OPTIML_SEEN": str(answer),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    environment.pop("OPTIML_ENDPOINT", None)
    done = subprocess.run(
        [neovim, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {DRIVE}"],
        env=environment, capture_output=True, text=True, timeout=400, cwd=file.parent, check=False,
    )  # fmt: skip
    assert answer.exists(), done.stdout + done.stderr
    value: dict[str, Any] = json.loads(answer.read_text())
    assert value.get("trouble") is None, (value["trouble"], value["steps"], value["messages"][-5:])
    value["text"], value["stderr"] = file.read_text(), done.stderr
    return value


def test_its_cuda_files_are_ours(seen: dict[str, Any]) -> None:
    assert seen["filetype"] == "cuda"
    assert seen["profile"] == {"status": "profiled"}


def test_findings_are_pushed_to_a_client_that_cannot_pull(seen: dict[str, Any]) -> None:
    if seen["pulls_diagnostics"]:
        pytest.skip("this Neovim pulls diagnostics")
    (wasted,) = [found for found in seen["diagnostics"] if found["code"] == "uncoalesced-access"]
    lines = seen["text"].splitlines()
    assert "out[x * rows" in lines[wasted["lnum"]]
    assert wasted["source"] == "OptiML"
    assert wasted["severity"] in (3, 4)  # Information or Hint: never among errors and warnings


def test_hover_and_lenses(seen: dict[str, Any]) -> None:
    assert "transpose" in seen["hover"]
    assert "predicted for" in seen["hover"]
    assert "predicted" in seen["lenses"][0]
    assert seen["lenses"][1:] == ["Profile", "Optimize this kernel"]


def test_the_quick_fix_is_verified_shown_applied_and_undone_in_one_step(seen: dict[str, Any]) -> None:
    assert [one for one in seen["actions"] if one.startswith("Verify and apply ") and "shared-tile-transpose" in one]
    assert any(title.startswith("Optimize kernel") for title in seen["actions"])
    (question,) = seen["questions"]
    assert "transpose" in question
    assert "predicted" in question
    assert seen["edit_applied"] is True
    assert "__shared__" in seen["after"]
    assert "int main()" in seen["after"]
    assert seen["undone"] == seen["text"]


def test_progress_begins_reports_and_ends(seen: dict[str, Any]) -> None:
    kinds = [progress["value"]["kind"] for progress in seen["progress_of_fix"]]
    one_job = kinds[len(kinds) - 1 - kinds[::-1].index("begin") :]
    assert one_job[0] == "begin"
    assert one_job[-1] == "end"
    assert "report" in one_job


def test_cancel_by_the_progress_token(seen: dict[str, Any]) -> None:
    assert seen["cancelled_job"]["status"] in ("cancelled", "better", "no-improvement")
    took = dict(seen["steps"])["cancel"]
    assert took < 3.0, took


def test_stop_leaves_no_process(seen: dict[str, Any]) -> None:
    end = time.monotonic() + 5
    while Path(f"/proc/{seen['pid']}").exists():
        assert time.monotonic() < end, "the server outlived its editor"
        time.sleep(0.05)
    assert "Traceback" not in seen["stderr"]
