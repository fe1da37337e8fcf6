"""The command line as a program sees it: exit statuses, one JSON object, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from optiml_core.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "transpose.cu"
SMALL = """
// optiml: n = 4096, x[n]: normal, y[n], block = 64, grid = ceil_div(n, 64)
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("OPTIML_ENDPOINT", "OPTIML_MODEL"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "optiml_core", *arguments],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def processes_of_group(group: int) -> list[str]:
    """The command lines of the processes of a process group that are not zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def value(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    found = json.loads(out)
    assert found["schema"] == 1
    return status, found


def test_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = value(capsys, "kernels", str(EXAMPLE))
    assert status == 0
    (kernel,) = found["kernels"]
    assert kernel["qualified"] == "transpose"
    assert kernel["range"]["start"]["line"] == 8
    assert [p["name"] for p in kernel["parameters"]] == ["in", "out", "rows", "cols"]
    assert kernel["launch_sites"][0]["block"] == "block"
    assert kernel["workload"]["origin"] == "declared"


def test_profile(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = value(capsys, "profile", str(EXAMPLE), "--device", "emulator", "--gpu", "H200")
    assert status == 0
    (kernel,) = found["kernels"]
    assert kernel["kind"] == "predicted"
    assert kernel["target"] == "NVIDIA H200"
    assert any(finding["kind"] == "uncoalesced-access" for finding in kernel["findings"])


@pytest.mark.parametrize(
    ("replacement", "status", "equivalent"),
    [
        ("y[i] = x[i] + x[i]", 0, True),
        ("y[i] = 2.0f * x[i] + 1e-3f", 1, False),
        ("y[i ? i : 1] = 2.0f * x[i]", 1, False),
    ],
)
def test_verify(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, replacement: str, status: int, equivalent: bool
) -> None:
    original, candidate = tmp_path / "a.cu", tmp_path / "b.cu"
    original.write_text(SMALL)
    candidate.write_text(SMALL.replace("y[i] = 2.0f * x[i]", replacement))
    got, found = value(capsys, "verify", str(original), str(candidate), "--device", "emulator", "--quick")
    assert (got, found["equivalent"]) == (status, equivalent)
    assert found["verdict"]["checks"]


BAD: dict[str, list[str]] = {
    "no such file": ["kernels", "nowhere.cu"],
    "a folder": ["kernels", "."],
    "no such kernel": ["optimize", f"{EXAMPLE}:nothing"],
    "no kernel at that line": ["optimize", f"{EXAMPLE}:1"],
    "an unknown device": ["optimize", str(EXAMPLE), "--device", "toaster"],
    "an unknown GPU": ["profile", str(EXAMPLE), "--gpu", "sm_1"],
    "an unknown freedom": ["optimize", str(EXAMPLE), "--allow", "everything"],
    "an unknown rewrite": ["optimize", str(EXAMPLE), "--rewrite", "magic"],
    "no time": ["optimize", str(EXAMPLE), "--seconds", "0"],
    "no workload file": ["profile", str(EXAMPLE), "--workload", "nowhere.toml"],
    "a flag that runs code": ["profile", str(EXAMPLE), "--json", "--", "-Xcompiler", "-fplugin=x.so"],
    "no build folder": ["profile", str(EXAMPLE), "-p", "nowhere"],
    "a folder as output": ["optimize", str(EXAMPLE), "--patch", "."],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_status_two_with_a_message(capsys: pytest.CaptureFixture[str], name: str) -> None:
    arguments = BAD[name]
    status = main(arguments if "--json" in arguments else [*arguments, "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert status == 2, found
    assert found["error"]["message"]
    assert "Traceback" not in out + err


def test_usage_errors_are_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize"]) == 2
    assert main(["dance"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.cuda_toolchain
def test_optimize_writes_a_patch_that_git_applies(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "src"
    folder.mkdir()
    file = folder / "transpose.cu"
    file.write_bytes(EXAMPLE.read_bytes())
    patch, report = tmp_path / "out.diff", tmp_path / "out.html"
    done = run(
        *("optimize", str(file), "--device", "emulator", "--evaluations", "4", "--fresh", "--json"),
        *("--progress", "json", "--patch", str(patch), "--report", str(report)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["speedup"]["kind"] == "predicted"
    assert found["best"]["time_us"] < found["baseline"]["time_us"]
    assert found["verdict"]["level"] == "full"
    assert found["steps"]
    assert found["steps"][0]["evidence"]
    assert file.read_bytes() == EXAMPLE.read_bytes()  # nothing is written without --apply
    for line in done.stderr.splitlines():
        assert json.loads(line)["event"]
    subprocess.run(["git", "apply", str(patch)], cwd=tmp_path, check=True)
    assert b"__shared__" in file.read_bytes()
    html = report.read_text()
    assert "<script" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")


@pytest.mark.cuda_toolchain
def test_interrupting_keeps_the_best_so_far_and_leaves_no_process(tmp_path: Path) -> None:
    file, temporary = tmp_path / "transpose.cu", tmp_path / "temporary"
    file.write_bytes(EXAMPLE.read_bytes())
    temporary.mkdir()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "optiml_core", "optimize", str(file), "--seconds", "300", "--json"),
            *("--device", "emulator", "--progress", "json", "--fresh"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line)["event"] == "new-best":
            break
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert time.monotonic() - began < 2.0  # a second, and one more because the machine may be busy
    found = json.loads(out)
    assert found["stopped"] == "cancelled"
    assert found["best"] is not None
    assert found["verdict"]["level"] == "full"
    end = time.monotonic() + 5.0
    while (left := processes_of_group(process.pid)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left
    assert list(temporary.iterdir()) == []
