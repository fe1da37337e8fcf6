"""Searches that ran on an H200, replayed from their records (recorded/, made by benchmarks/record_search.py)."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from optiml_core.cli.main import main
from optiml_core.device.protocol import Built, Contents, Fault, RunOptions, RunResult
from optiml_core.device.recorded import RecordedDevice, RecordingDevice, read_record
from optiml_core.device.recorded.record import FILE
from optiml_core.records import Check, Failure, Launch, Variant
from optiml_core.report.html import html_report
from optiml_core.search.evaluation import Evaluator
from optiml_core.search.optimize import GrownTree
from optiml_core.search.trajectory import search_result
from optiml_core.workload import resolve_launch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import record_search

RECORDED = Path(__file__).parent / "recorded"
ncu_report = pytest.importorskip("ncu_report", reason="needs the package ncu-report")


# ------------------------------------------------------------------------------------ whole searches


def replayed(kind: str) -> tuple[GrownTree, Evaluator]:
    problem = record_search.problem_of(kind, f"recorded:{RECORDED / kind}", "NVIDIA H200")
    evaluator = Evaluator(problem)
    return record_search.search(kind, problem, evaluator), evaluator


@pytest.fixture(scope="module")
def edits() -> Iterator[tuple[GrownTree, Evaluator]]:
    grown, evaluator = replayed("edits")
    yield grown, evaluator
    evaluator.close()


def expected(evaluator: Evaluator) -> dict[str, Any]:
    assert isinstance(evaluator.device, RecordedDevice)
    tree: dict[str, Any] = evaluator.device.record.about["tree"]
    return tree


def date_of(evaluator: Evaluator) -> str:
    assert isinstance(evaluator.device, RecordedDevice)
    return str(evaluator.device.record.about["date"])


def test_the_tree_is_the_recorded_one(edits: tuple[GrownTree, Evaluator]) -> None:
    grown, evaluator = edits
    before, now = expected(evaluator), record_search.tree_of(grown)
    assert now["nodes"] == before["nodes"]
    assert now["counted"] == before["counted"]
    assert {node["state"] for node in now["nodes"]} == {"not-better", "better", "wrong", "compile-error"}
    assert now["stopped"] == before["stopped"]


def test_the_result_is_the_recorded_one_and_says_that_it_is(edits: tuple[GrownTree, Evaluator]) -> None:
    grown, evaluator = edits
    before, now = expected(evaluator)["best"], record_search.tree_of(grown)["best"]
    assert now["steps"] == before["steps"]
    assert now["target"] == f"NVIDIA H200, recorded {date_of(evaluator)}"
    # How wide an interval is, and so after how many pairs it is tight, may be judged otherwise than when this was
    # recorded; what was timed may not.
    numbers = ("speedup", "low", "high")
    assert [now[name] for name in numbers] == pytest.approx([before[name] for name in numbers], rel=0.03)
    problem = evaluator.problem
    launch = resolve_launch(evaluator.workload)
    assert not isinstance(launch, Failure)
    result = search_result(problem, grown, evaluator.workload, [launch])
    assert result.device == "recorded"
    assert result.best is not None
    assert result.best.measurement is not None
    assert result.best.measurement.kind == "measured"
    assert f"replayed from a record of {date_of(evaluator)}" in result.best.measurement.notes
    assert any("with L2 emptied before each launch: " in note for note in result.notes)
    assert "tile[32][33]" in result.patch
    assert f"recorded {date_of(evaluator)}" in html_report(result)


def test_runs_that_the_record_lacks_are_said(edits: tuple[GrownTree, Evaluator]) -> None:
    """Verification asks for other runs as it learns; those stand as the emulator's, under not checked."""
    grown, evaluator = edits
    assert isinstance(evaluator.device, RecordedDevice)
    assert evaluator.device.recorded_runs > 10
    best = grown.best
    assert best is not None
    assert best.verdict is not None
    assert best.verdict.level == "full"
    said = [text for text in best.verdict.not_checked if "the record does not have them" in text]
    assert len(said) == (evaluator.device.unrecorded_runs > 0)
    sanitized = [check for check in best.verdict.checks if check.name.startswith("compute-sanitizer")]
    assert [check.result for check in sanitized] == ["passed"] * 4


def test_nodes_that_beat_their_parent_have_ncus_counters(edits: tuple[GrownTree, Evaluator]) -> None:
    grown, _ = edits
    for node in grown.tree.nodes:
        outcome = node.outcome
        assert outcome is not None
        measured = outcome.measurement
        faster = measured is not None and measured.speedup > 1.0
        assert (outcome.counters is not None) == (faster or node.parent is None), outcome.reason
    by_step = {n.proposal.name: n.outcome for n in grown.tree.nodes if n.proposal is not None}
    tile = by_step["tile"]
    assert tile is not None
    assert tile.counters is not None
    assert tile.counters.origin == "ncu"
    assert tile.counters.time is None  # a reported time never comes from ncu
    conflict = next(f for f in tile.findings if f.kind == "shared-bank-conflict")
    assert conflict.origin == "ncu"
    assert conflict.evidence["ncu_estimated_gain"] > 1.5  # type: ignore[operator]
    assert conflict.estimated_gain is not None
    padded = by_step["padded_tile"]
    assert padded is not None
    assert all(f.kind != "shared-bank-conflict" for f in padded.findings)


@pytest.mark.full_verdict
def test_a_search_with_rewrites() -> None:
    grown, evaluator = replayed("rewrites")
    try:
        before, now = expected(evaluator), record_search.tree_of(grown)
        if set(now["sources"]) - set(before["sources"]):
            pytest.skip("the rewrites write other text than when this was recorded: benchmarks/record_search.py")
        assert now["nodes"] == before["nodes"]
        assert now["best"]["steps"] == before["best"]["steps"]
        assert now["best"]["speedup"] == pytest.approx(before["best"]["speedup"], rel=0.03)
    finally:
        evaluator.close()


def test_the_command_line_replays(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["optimize", str(RECORDED / "transpose.cu"), "--device", f"recorded:{RECORDED / 'edits'}"]
    # No rewrite of ours is in this record: each variant ends as not recorded, the search as the honest negative.
    status = main([*arguments, "--rewrite", "shared-tile-transpose", "--evaluations", "1", "--fresh", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert status == 1
    assert (found["device"], found["target"], found["best"]) == ("recorded", "NVIDIA H200", None)
    assert found["baseline"]["kind"] == "measured"


@pytest.mark.parametrize("content", [None, b"", b"not gzip", gzip.compress(b"{}"), gzip.compress(b'{"format": 9}')])
def test_records_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    status = main(["optimize", str(RECORDED / "transpose.cu"), "--device", f"recorded:{tmp_path}", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert status == 2
    assert "record" in error["message"]


# ------------------------------------------------------------------------------- the device by itself

VARIANT = Variant("k.cu", b"__global__ void k() {}", "k")
LAUNCH = Launch((1, 1, 1), (32, 1, 1), 0, ())


class Answering:
    """A device that doubles its buffer, and an emulator that does so too unless it is told not to."""

    name = "cuda:0"

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor
        self.now = 0.0
        self.times = iter(range(1, 1000))

    def build(self, variant: Variant, template_arguments: Any = (), widened: bool = False) -> Built | Failure:
        if b"error" in variant.data:
            return Failure("compile-error", "/secret/folder/k.cu: error")
        return Built("token", variant, log="compiled in /secret/folder")

    def run(self, built: Built, launch: Launch, contents: Contents, options: RunOptions | None = None) -> RunResult:
        buffers = {name: array * np.float32(self.factor) for name, array in contents.buffers.items()}
        return RunResult(buffers, (Fault("race", 3, "a race", block=(0, 0, 0)),), True, seconds=0.5)

    def target(self) -> str:
        return "GPU"

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def conditions(self) -> tuple[str, ...]:
        return ()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        yield None

    def time_launches(self, *_: Any) -> float:
        return next(self.times) * 1e-6

    def sanitize(self, built: Built, launch: Launch, contents: Contents, checker: str) -> Check:
        return Check(f"compute-sanitizer {checker}", "failed", "error in /secret/folder/k.cu")

    def write_ncu_report(self, built: Built, launch: Launch, contents: Contents, report: Path) -> str:
        report.write_bytes(b"a report of /secret/folder" * 100)
        return "_Z1kv"

    def close(self) -> None:
        return


def contents(value: float = 1.0) -> Contents:
    return Contents({"x": np.full(64, value, np.float32), "y": np.full(64, value, np.float32)})


def record(folder: Path, emulated: float = 2.0) -> RecordedDevice:
    recording = RecordingDevice(Answering(), Answering(emulated), folder, ["/secret/folder"])
    built = recording.build(VARIANT)
    recording.build(evolve(VARIANT, data=b"error"))
    assert isinstance(built, Built)
    recording.run(built, LAUNCH, contents())
    for _ in range(3):
        recording.time_launches(built, LAUNCH, contents(), 2, False)
    recording.sanitize(built, LAUNCH, contents(), "memcheck")
    recording.write_ncu_report(built, LAUNCH, contents(), folder / "made.ncu-rep")
    (folder / "made.ncu-rep").unlink()
    recording.save({"gpu": "GPU", "date": "today"})
    return replaying(folder, emulated)


def replaying(folder: Path, emulated: float = 2.0) -> RecordedDevice:
    found = read_record(folder)
    assert not isinstance(found, Failure), found
    return RecordedDevice(found, Answering(emulated))


def built_on(device: RecordedDevice) -> Built:
    built = device.build(VARIANT)
    assert isinstance(built, Built)
    return built


@pytest.mark.parametrize("emulated", [2.0, 3.0])  # the emulator computes the same bits, or others
def test_runs_come_back(tmp_path: Path, emulated: float) -> None:
    device = record(tmp_path, emulated)
    result = device.run(built_on(device), LAUNCH, contents())
    assert isinstance(result, RunResult)
    np.testing.assert_array_equal(result.buffers["x"], np.full(64, 2.0, np.float32))
    np.testing.assert_array_equal(result.buffers["y"], np.full(64, 2.0, np.float32))
    assert result.faults == (Fault("race", 3, "a race", block=(0, 0, 0)),)
    assert device.unrecorded_runs == 0
    text = gzip.decompress((tmp_path / FILE).read_bytes())
    assert (b"bytes" in text) == (emulated != 2.0)  # kept only where the emulator does not compute them


def test_an_emulator_that_computes_other_bits_now_is_noticed(tmp_path: Path) -> None:
    record(tmp_path, 2.0)
    device = replaying(tmp_path, 5.0)
    result = device.run(built_on(device), LAUNCH, contents())
    assert isinstance(result, Failure)
    assert "other bits" in result.message


def test_runs_that_were_not_recorded_are_the_emulators_and_counted(tmp_path: Path) -> None:
    device = record(tmp_path)
    result = device.run(built_on(device), LAUNCH, contents(7.0))
    assert isinstance(result, RunResult)
    assert device.unrecorded_runs == 1


def test_times_come_in_order_and_never_twice(tmp_path: Path) -> None:
    device = record(tmp_path)
    built = built_on(device)
    before = device.clock()
    first = [device.time_launches(built, LAUNCH, contents(), 2, False) for _ in range(3)]
    assert first == [1e-6, 2e-6, 3e-6]
    assert device.clock() - before == 3.0  # what passed on the clock when they were taken
    rest = []
    while not isinstance(seconds := device.time_launches(built, LAUNCH, contents(), 2, False), Failure):
        rest.append(seconds)
    assert len(rest) == len(set(rest)) == 24
    assert seconds.kind == "not-recorded"
    other = device.time_launches(built, LAUNCH, contents(), 3, False)
    assert isinstance(other, Failure)


def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    device = record(tmp_path)
    other = device.build(evolve(VARIANT, data=b"something else"))
    assert isinstance(other, Failure)
    assert other.kind == "not-recorded"
    assert device.sanitize(built_on(device), LAUNCH, contents(), "racecheck").result == "not_run"
    missing = device.write_ncu_report(built_on(device), LAUNCH, contents(9.0), tmp_path / "r")
    assert isinstance(missing, Failure)


def test_the_sanitizers_words_and_ncus_report_come_back(tmp_path: Path) -> None:
    device = record(tmp_path)
    assert device.sanitize(built_on(device), LAUNCH, contents(), "memcheck").result == "failed"
    report = tmp_path / "copy.ncu-rep"
    assert device.write_ncu_report(built_on(device), LAUNCH, contents(), report) == "_Z1kv"
    assert len(report.read_bytes()) == 2600  # blanked byte for byte
    for path in tmp_path.glob("*.xz"):
        path.write_bytes(b"damaged")
    damaged = device.write_ncu_report(built_on(device), LAUNCH, contents(), report)
    assert isinstance(damaged, Failure)
    assert "cannot be read" in damaged.message


def test_nothing_of_the_machine_is_kept(tmp_path: Path) -> None:
    device = record(tmp_path)
    failed = device.build(evolve(VARIANT, data=b"error"))
    assert isinstance(failed, Failure)
    assert failed.kind == "compile-error"
    assert "secret" not in failed.message
    assert b"secret" not in gzip.decompress((tmp_path / FILE).read_bytes())
    report = tmp_path / "copy.ncu-rep"
    device.write_ncu_report(built_on(device), LAUNCH, contents(), report)
    assert b"secret" not in report.read_bytes()
