"""`optiml synthesize` and `optiml bench synthesis` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from optiml_core.bench.synthesis import run_prompt
from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.cli.main import main
from optiml_core.cli.synthesize import comment_at
from optiml_core.device.emulator import EmulatorDevice

EMULATOR = ["--device", "emulator"]


def test_json_is_one_object_with_the_documented_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "a.cu", tmp_path / "out.cu"
    source.write_text("int before;\n/* Mean of the n floats\n * in x, into m */\n")
    assert main(["synthesize", f"{source}:3", "--output", str(output), "--json", *EMULATOR]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) >= {"schema", "specification", "question", "kernel", "file", "workload", "verdict"}
    assert set(answer["specification"]) >= {"name", "parameters", "reference", "edge_rules", "not_understood"}
    assert answer["question"] is None
    assert answer["verdict"]["passed"] is True
    assert answer["file"] == str(output)
    assert answer["kernel"] in output.read_text()
    # What was written is a file that the other commands read.
    assert main(["kernels", str(output), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["workload"]["origin"] == "declared"
    assert kernel["workload"]["problems"] == []


def test_a_question_is_the_honest_negative(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synthesize", "Sum the positive n floats of x into s", "--json", *EMULATOR]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["kernel"] is None
    assert "positive" in answer["question"]
    assert answer["not_understood"] == ["positive"]


@pytest.mark.parametrize("target", ["{}:1", "{}:99", "missing.cu:1"])
def test_bad_input(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.cu"
    source.write_text("int x;\n")
    assert main(["synthesize", target.format(source), "--json", *EMULATOR]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.mark.parametrize(
    ("text", "line", "comment"),
    [
        ("// a\n// b\nint x;", 2, "// a\n// b"),
        ("// a\n// optiml: n = 1\nint x;", 1, "// a"),
        ("/* a\n b\n*/\nint x;", 2, "/* a\n b\n*/"),
        ("/* a */\nint x;", 2, ""),
        ("int x; // a", 1, ""),
    ],
)
def test_the_comment_around_a_line(text: str, line: int, comment: str) -> None:
    assert comment_at(text.split("\n"), line) == comment


def test_the_benchmark_passes_what_it_claims_and_sees_a_wrong_answer() -> None:
    """24 of 30 is what is asked; a prompt whose reference is another function must not pass."""
    with EmulatorDevice() as device:
        results = [run_prompt(prompt, device) for prompt in PROMPTS]
        assert sum(one.passed for one in results) >= 24
        by_name = {prompt.name: prompt for prompt in PROMPTS}
        for name in ("sum", "gemm", "inclusive scan"):
            prompt = by_name[name]

            def off(arrays, sizes, right=prompt.reference):  # type: ignore[no-untyped-def]
                return {one: values + 1 for one, values in right(arrays, sizes).items()}

            assert not run_prompt(evolve(prompt, reference=off), device).passed
