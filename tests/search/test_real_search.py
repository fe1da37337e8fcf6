"""Searches with real evaluations: the same for one seed, resumed after a kill, cancelled within a second."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from optiml_core.search import pool as pool_module
from optiml_core.search import run
from optiml_core.search.outcome_store import OutcomeStore
from optiml_core.search.pool import EvaluationPool
from optiml_core.search.problem import EvaluationTask, SearchProblem
from optiml_core.search.records import Proposal, SearchEvent, SearchResult
from optiml_core.store import Store
from tests.search.real_search import PROBLEM, answer_or_crash, decided, search

pytestmark = pytest.mark.cuda_toolchain
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def undisturbed() -> SearchResult:
    return search(processes=1)


def test_the_search_has_something_to_decide(undisturbed: SearchResult) -> None:
    """Without this, the comparisons below would compare little."""
    assert [step.step.name for step in undisturbed.trajectory] == ["register-accumulator", "parallel-row"]
    assert len(undisturbed.nodes) > 8
    assert len({node.time for node in undisturbed.nodes}) > 5
    assert max(node.visits for node in undisturbed.nodes[1:]) > 1


def test_the_same_on_two_processes(undisturbed: SearchResult) -> None:
    assert decided(search(processes=2)) == decided(undisturbed)


def issued(result: SearchResult) -> list[tuple[object, ...]]:
    """The nodes without what later evaluations change."""
    return [(node.identifier, node.parent, node.step, node.state, node.order) for node in result.nodes]


def test_a_cancelled_search_resumes_exactly(
    undisturbed: SearchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[EvaluationPool] = []

    class Watched(EvaluationPool):
        def __init__(self, problem: SearchProblem, processes: int, store: OutcomeStore | None = None) -> None:
            super().__init__(problem, processes, store)
            pools.append(self)

    monkeypatch.setattr(run, "EvaluationPool", Watched)
    evaluated: list[SearchEvent] = []

    def cancelled() -> bool:
        return sum(event.kind == "evaluated" for event in evaluated) >= 8

    with Store.open(tmp_path / "store.db", secret_path=tmp_path / "key") as store:
        first = search(2, store, evaluated.append, cancelled)
        assert first.stopped == "cancelled"
        assert first.evaluations == 8
        assert issued(first) == issued(undisturbed)[:9]
        second = search(2, store)
    assert pools[1].reused >= 8
    assert decided(second) == decided(undisturbed)


def started(store: Path, temporary: Path) -> subprocess.Popen[str]:
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.search.real_search", str(store)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip


def left_running(temporary: Path) -> list[str]:
    """The processes whose temporary files or whose folder lie in ``temporary``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            about = (entry / "environ").read_bytes() + os.fsencode(os.readlink(entry / "cwd"))
            if entry.name.isdigit() and os.fsencode(temporary) in about:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:  # another user's, or gone meanwhile
            continue
    return found


def nothing_left(temporary: Path) -> None:
    end = time.monotonic() + 15.0
    while (left_running(temporary) or list(temporary.iterdir())) and time.monotonic() < end:
        time.sleep(0.1)
    assert left_running(temporary) == []
    assert list(temporary.iterdir()) == []


def test_a_killed_search_leaves_nothing_and_resumes_exactly(undisturbed: SearchResult, tmp_path: Path) -> None:
    process = started(tmp_path / "store.db", tmp_path / "temporary")
    assert process.stdout is not None
    for line in process.stdout:
        if line == "evaluated\n":
            break
    time.sleep(1.0)  # into the next round: compilers and emulators run now
    assert left_running(tmp_path / "temporary")
    process.kill()
    process.wait()
    process.stdout.close()
    nothing_left(tmp_path / "temporary")
    with Store.open(tmp_path / "store.db") as store:
        assert decided(search(2, store)) == decided(undisturbed)


@contextmanager
def cancelled_after(seconds: float) -> Iterator[threading.Event]:
    event = threading.Event()
    timer = threading.Timer(seconds, event.set)
    timer.start()
    yield event
    timer.cancel()


@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_cancelling_is_heard_while_the_original_is_evaluated(seconds: float) -> None:
    events: list[SearchEvent] = []
    with cancelled_after(seconds) as event:
        began = time.monotonic()
        result = search(1, None, events.append, event.is_set)
        took = time.monotonic() - began
    assert "evaluated" not in {one.kind for one in events}
    assert result.stopped == "cancelled"
    assert result.best is None
    assert result.patch == ""
    # A second, and one more because the machine may be busy.
    assert took - seconds < 2.0


def test_only_the_task_that_ends_its_process_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_evaluate_in_child", answer_or_crash)
    names = ["first", "crash", "second", "crash", "third"]
    tasks = [EvaluationTask(PROBLEM.original, (Proposal(name, {}, "", 1.0),)) for name in names]
    pool = EvaluationPool(PROBLEM, 2)
    try:
        outcomes = pool.evaluate(tasks, lambda: False)
    finally:
        pool.close()
    assert [outcome.reason if outcome else None for outcome in outcomes] == [
        *("first", "the evaluation process crashed", "second", "the evaluation process crashed", "third")
    ]
