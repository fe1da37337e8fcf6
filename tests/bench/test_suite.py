"""The kernel suite: its files and pairs, the row made of a search's JSON, the table, the mean, the result file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from optiml_core.bench import suite
from optiml_core.bench.experts import declared_launch, judged
from optiml_core.bench.library_times import library_seconds
from optiml_core.bench.suite import SuiteRow, as_json, cells, geometric_mean, markdown, run_suite
from optiml_core.bench.suite_kernels import SUITE, SuiteKernel, chosen, kernel_file
from optiml_core.cli.main import main
from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import discover, gpu_facts
from optiml_core.workload import find_workload, resolve_launch

FOUND: dict[str, Any] = {
    "baseline": {"time_us": 100.0, "kind": "measured"},
    "best": {"time_us": 25.0, "kind": "measured"},
    "speedup": {"value": 4.0, "low": 3.9, "high": 4.1, "kind": "measured"},
    "roofline": {"fraction": 0.5, "bound_by": "dram"},
    "verdict": {"level": "full"},
    "steps": [{"name": "parallel-row"}, {"name": "unroll-loop"}],
    "evaluations": 12,
    "wall": 30.4,
}
NOTHING: dict[str, Any] = {**FOUND, "best": None, "speedup": None, "steps": [], "stopped": "exhausted", "wall": 9.0}
BROKEN: dict[str, Any] = {"error": {"message": "the search did not end"}, "wall": 99.0}


def row(value: dict[str, Any]) -> SuiteRow:
    return suite._row(SUITE[0], value, (20e-6, "equivalent"), (None, "no single call does this"))


@pytest.mark.parametrize(
    ("value", "gain", "best", "reason"),
    [
        (FOUND, 4.0, 25e-6, ""),
        (NOTHING, 1.0, None, "no verified gain (exhausted)"),
        (BROKEN, 1.0, None, "the search did not end"),
    ],
)
def test_a_failure_counts_as_one(value: dict[str, Any], gain: float, best: float | None, reason: str) -> None:
    made = row(value)
    assert (made.gain, made.reason) == (gain, reason)
    assert made.best == (best if best is None else pytest.approx(best))


def test_the_mean_counts_failures() -> None:
    assert geometric_mean([row(FOUND), row(BROKEN)]) == pytest.approx(2.0)
    assert geometric_mean([]) == 1.0


def test_the_table_says_what_is_measured_and_what_was_not_judged() -> None:
    shown = cells(row(FOUND))
    assert "100.0 us" in shown
    assert "4.00x (3.90 to 4.10)" in shown
    predicted = {**FOUND, "baseline": {"time_us": 100.0, "kind": "predicted"}}
    assert "4.00x predicted" in cells(row(predicted))
    assert "20.0 us [not equivalent]" in cells(evolve(row(FOUND), expert_verdict="not equivalent: outputs"))
    assert "2.00x" in markdown([row(FOUND), row(BROKEN)])


@pytest.mark.parametrize("one", SUITE, ids=lambda one: one.name)
def test_every_kernel_of_the_suite_can_be_launched(one: SuiteKernel) -> None:
    for name in (one.naive, *one.experts):
        source = SourceFile.read(str(kernel_file(name)))
        assert not isinstance(source, Failure), source
        unit = parse(source)
        assert [kernel.name for kernel in unit.kernels][-1] == name
        launch = resolve_launch(find_workload(unit, unit.kernels[-1]))
        assert not isinstance(launch, Failure), launch


def test_helper_names_of_an_expert_are_written_out() -> None:
    source = SourceFile.read(str(kernel_file("softmax_block_per_row")))
    assert not isinstance(source, Failure)
    unit = parse(source)
    change = declared_launch(find_workload(unit, unit.kernels[-1]))
    assert change.block == ("512", "1", "1")
    assert change.grid == ("rows", "1", "1")


def test_an_expert_is_judged_like_any_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    naive = (
        "// optiml: n = 300, x[n]: normal, y[n], block = 64, grid = ceil_div(n, 64)\n"
        "__global__ void plain(float* y, const float* x, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
    )
    texts = {"plain": naive, "good": naive.replace("plain", "good").replace("2 * x[i]", "x[i] + x[i]")}
    texts["bad"] = naive.replace("plain", "bad").replace("i < n", "i < n - 1")
    for name, text in texts.items():
        (tmp_path / f"{name}.cu").write_text(text)
    monkeypatch.setattr("optiml_core.bench.experts.kernel_file", lambda name: tmp_path / f"{name}.cu")
    assert judged(SuiteKernel("x", "plain", ("good",))) == "equivalent"
    assert judged(SuiteKernel("x", "plain", ("bad",))).startswith("not equivalent")


def test_results_are_kept_kernel_by_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in the second kernel leaves the first in the file."""
    answers = iter([FOUND])
    monkeypatch.setattr(suite, "searched", lambda request: next(answers))
    monkeypatch.setattr(suite, "_expert", lambda *given: (None, "not judged"))
    output, gpu = tmp_path / "suite.json", gpu_facts("H100")
    assert not isinstance(gpu, Failure)
    with pytest.raises(StopIteration):
        run_suite(SUITE[:2], discover(), "emulator", gpu, 1.0, output)
    value = json.loads(output.read_text())
    assert [one["name"] for one in value["kernels"]] == [SUITE[0].name]
    assert value["geometric_mean"] == pytest.approx(4.0)
    assert json.loads(json.dumps(as_json([row(NOTHING)], "emulator", "NVIDIA H100", 1.0)))["geometric_mean"] == 1.0


def test_a_choice_of_kernels() -> None:
    found = chosen("gelu, transpose")
    assert not isinstance(found, Failure)
    assert [one.name for one in found] == ["transpose", "gelu"]
    unknown = chosen("transpose,nothing")
    assert isinstance(unknown, Failure)
    assert "nothing" in unknown.message
    assert "softmax" in unknown.cure


def test_no_library_call_is_said_so() -> None:
    assert library_seconds("", 0) == (None, "no single call does this")


def test_bad_input_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "kernels", "--only", "nothing", "--device", "emulator"]) == 2
    assert main(["bench", "kernels", "--seconds", "0", "--device", "emulator"]) == 2
    error = capsys.readouterr().err
    assert "nothing" in error
    assert "--seconds" in error


def test_one_kernel_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way on the emulator: search, expert, file, table."""
    output = tmp_path / "suite.json"
    command = ["bench", "kernels", "--only", "gelu", "--device", "emulator", "--seconds", "4", "--output", str(output)]
    status = main(command)
    (kernel,) = json.loads(output.read_text())["kernels"]
    assert kernel["kind"] == "predicted"
    # The expert's loads of four take sizes that four divides; the table says so.
    assert kernel["expert_verdict"].startswith("not equivalent: faults")
    assert 0 < kernel["expert"] < kernel["original"]
    assert status == (0 if kernel["gain"] > 1 else 1)
    assert "equivalent]" in capsys.readouterr().out
