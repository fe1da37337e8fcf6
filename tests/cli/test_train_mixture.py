"""``optiml train-mixture`` as a program sees it: trains, is interrupted, resumes, says what is wrong with its input."""

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

torch = pytest.importorskip("torch", reason="needs the extra `llm`")
pytest.importorskip("transformers", reason="needs the extra `llm`")

from mixture_of_thoughts.conftest import make_expert  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from optiml_core.cli.main import main  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folders = []
    for family, seed in (("qwen2", 1), ("starcoder2", 2)):
        folder = tmp_path_factory.mktemp("models") / family
        expert = make_expert(family, seed, 300)
        expert.model.save_pretrained(folder)
        expert.tokenizer.save_pretrained(folder)
        folders.append(str(folder))
    return folders


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    lines = [{"prompt": f"add {n}\n", "answer": f"  x[i] += {n}.0f;\n"} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def options(data: str, experts: list[str], output: Path, steps: int) -> list[str]:
    named = [part for expert in experts for part in ("--expert", expert)]
    return ["train-mixture", data, *named, "--output", str(output), "--steps", str(steps), "--batch", "2",
            "--stacks", "2", "--heads", "4", "--device", "cpu", "--held-out", "0.1", "--json"]  # fmt: skip


def value(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(list(arguments))
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, json.loads(out)


def test_interrupted_and_resumed_equals_uninterrupted(
    capsys: pytest.CaptureFixture[str], data: str, experts: list[str], tmp_path: Path
) -> None:
    steps = 60
    status, whole = value(capsys, *options(data, experts, tmp_path / "whole", steps))
    assert (status, whole["done"], whole["stopped"]) == (0, steps, "finished")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "optiml_core", *options(data, experts, tmp_path / "stopped", steps)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    log = tmp_path / "stopped" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.read_text().count("\n") >= 5) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    found = json.loads(out)
    assert process.returncode == 1, err
    assert found["stopped"] == "cancelled"
    assert 5 <= found["done"] < steps
    status, resumed = value(capsys, *options(data, experts, tmp_path / "stopped", steps))
    assert (status, resumed["resumed_at"], resumed["done"]) == (0, found["done"], steps)
    one, other = (load_file(tmp_path / name / "adapter.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert resumed["held_out_bits_per_byte"] == whole["held_out_bits_per_byte"]


def test_another_run_in_the_same_folder_is_refused(
    capsys: pytest.CaptureFixture[str], data: str, experts: list[str], tmp_path: Path
) -> None:
    assert value(capsys, *options(data, experts, tmp_path, 1))[0] == 0
    status, found = value(capsys, *options(data, experts, tmp_path, 1), "--seed", "3")
    assert status == 2
    assert "seed: 0 there, 3 here" in found["error"]["message"]
    status, found = value(capsys, *options(data, experts[::-1], tmp_path, 1))
    assert status == 2
    assert "experts differ" in found["error"]["message"]


def test_a_bad_line_is_told_before_any_expert_is_loaded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"prompt": "p", "answer": "a"}\n{"prompt": "p"}\n')
    status, found = value(capsys, *options(str(path), ["no-such-model"], tmp_path / "out", 1))
    assert status == 2
    assert found["error"] == {
        "kind": "bad-input", "file": str(path), "line": 2, "message": 'no "answer"',
        "cure": 'a line is {"prompt": "...", "answer": "..."}',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "status"),
    [(["--steps", "0"], 2), (["--held-out", "1"], 2), (["--stacks", "9"], 2), (["--shared", "6"], 2)],
)
def test_bad_options_are_told(
    capsys: pytest.CaptureFixture[str], data: str, experts: list[str], tmp_path: Path, more: list[str], status: int
) -> None:
    assert value(capsys, *options(data, experts, tmp_path / "out", 1), *more)[0] == status


def test_a_missing_expert_is_told(capsys: pytest.CaptureFixture[str], data: str, tmp_path: Path) -> None:
    status, found = value(capsys, *options(data, [str(tmp_path / "nothing")], tmp_path / "out", 1))
    assert status != 0
    assert "nothing" in found["error"]["message"]
