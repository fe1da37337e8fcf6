"""Evaluations in a pool of child processes, each with its own device and verifier.

A child that crashes or hangs costs one outcome, never the search: the pool is rebuilt and the task is recorded
as failed. The children die with their parent and ignore the terminal's interrupt, which the parent handles. What they
write for a while lies in one folder, since a child that is killed cannot tidy up: its parent removes the folder, or a
process that watches for the end of that parent.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool

from attrs import evolve

from optiml_core.records import Failure, Step, Variant
from optiml_core.search.evaluation import Evaluator, ProblemError
from optiml_core.search.outcome_store import OutcomeStore
from optiml_core.search.problem import EvaluationTask, SearchProblem
from optiml_core.search.records import DUPLICATE, Outcome
from optiml_core.search.reward import FAILED
from optiml_core.toolchain.scratch import make_scratch, remove_abandoned, remove_scratch, watch_scratch

# One evaluation that takes longer than this is a hang: compile, gate and profile all have tighter limits of their own.
TASK_SECONDS = 90.0
POLL_SECONDS = 0.1
_SCRATCH = "optiml-search-"
# Until now compile servers were killed beside their folder: what older versions left is removed too.
_ABANDONED = (_SCRATCH, "optiml-compile-")

# Lives in a child process only: one evaluator per process, or why there is none.
_evaluator: Evaluator | Failure = Failure("crash", "the evaluation process was not started")


def _never() -> bool:
    return False


def _start_child(problem: SearchProblem, parent: int, temporary: str) -> None:
    global _evaluator
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no child outlives a killed parent
        if os.getppid() != parent:
            os._exit(1)
    try:
        _evaluator = Evaluator(problem)
    except ProblemError as error:
        _evaluator = error.failure
    except Exception as error:  # noqa: BLE001 - an exception here would break the pool and print a traceback
        _evaluator = Failure("crash", f"the evaluation could not start: {type(error).__name__}: {error}")


def _guarded(variant: Variant, key: str, work: Callable[[Evaluator], Outcome]) -> Outcome:
    """Every exception in a child is an outcome with its reason: the search goes on, no traceback is printed."""
    if isinstance(_evaluator, Failure):
        return Outcome("failed", _evaluator.message, FAILED, variant, key, failure=_evaluator)
    try:
        return work(_evaluator)
    except ProblemError as error:
        failure = error.failure
    except Exception as error:  # noqa: BLE001 - see above; the place is kept for a report
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"
        failure = Failure("internal-error", f"{type(error).__name__} in {where}: {error}")
    return Outcome("failed", failure.message, FAILED, variant, key, failure=failure)


def _evaluate_in_child(task: EvaluationTask, key: str) -> Outcome:
    return _guarded(task.parent, f"failed-{key}", lambda evaluator: evaluator.evaluate(task))


def _baseline_in_child(original: Variant) -> Outcome:
    return _guarded(original, "failed-baseline", lambda evaluator: evaluator.baseline())


def _warm_up_in_child() -> None:
    if isinstance(_evaluator, Evaluator):
        with contextlib.suppress(Exception):  # whatever it is, the first evaluation meets and reports it
            _evaluator.warm_up()


def _remeasure_in_child(outcome: Outcome) -> Outcome:
    return _guarded(outcome.variant, outcome.source_key, lambda evaluator: evaluator.remeasure(outcome))


class EvaluationPool:
    """Implements ``optimize.Evaluations`` over ``processes`` child processes and a store of earlier outcomes."""

    def __init__(self, problem: SearchProblem, processes: int, store: OutcomeStore | None = None) -> None:
        self._problem_key = problem.key()
        for prefix in _ABANDONED:
            remove_abandoned(prefix)
        self._scratch: tuple[str, int] | None = make_scratch(_SCRATCH)
        self._watcher = watch_scratch(self._scratch[0])
        kept, self._temporary = (os.path.join(self._scratch[0], name) for name in ("kept", "temporary"))
        for folder in (kept, self._temporary):
            os.mkdir(folder, 0o700)
        self._problem = evolve(problem, kept_runs=kept)
        self._processes = max(1, processes)
        self._store = store
        self._executor: concurrent.futures.ProcessPoolExecutor | None = None
        # On a GPU: one process more, kept from candidates, for the final measurement.
        self._spare: concurrent.futures.ProcessPoolExecutor | None = None
        self.reused = 0

    def _running(self) -> concurrent.futures.ProcessPoolExecutor:
        if self._executor is None:
            self._executor = self._start(self._processes)
        return self._executor

    # A spawned child shares no locks or descriptors with the parent, which may be a server with threads.
    def _start(self, processes: int) -> concurrent.futures.ProcessPoolExecutor:
        return concurrent.futures.ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_child,
            initargs=(self._problem, os.getpid(), self._temporary),
        )

    def baseline(self, cancelled: Callable[[], bool] = _never) -> Outcome | None:
        key = "baseline-" + self._problem_key
        known = self._store.get(key) if self._store else None
        if known is not None:
            return known
        try:
            future = self._running().submit(_baseline_in_child, self._problem.original)
            for _ in range(self._processes - 1):
                self._running().submit(_warm_up_in_child)
            outcome = self._result(future, TASK_SECONDS * 2, cancelled)
        except (BrokenProcessPool, TimeoutError) as error:
            self.kill()
            return self._crashed(EvaluationTask(self._problem.original, ()), error)
        if self._store is not None and outcome is not None and outcome.failure is None:
            self._store.put(key, outcome)
        return outcome

    def _result(
        self, future: concurrent.futures.Future[Outcome], seconds: float, cancelled: Callable[[], bool]
    ) -> Outcome | None:
        """A child's outcome; None if cancelling came first. Raises TimeoutError after ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return future.result(POLL_SECONDS)
            except TimeoutError:
                if cancelled():
                    self.kill()
                    return None
                if time.monotonic() > deadline:
                    raise

    def evaluate(self, tasks: Sequence[EvaluationTask], cancelled: Callable[[], bool]) -> list[Outcome | None]:
        results: list[Outcome | None] = [None] * len(tasks)
        keys = [task.key(self._problem_key) for task in tasks]
        unknown: list[int] = []
        for index, task in enumerate(tasks):
            known = self._store.get(keys[index]) if self._store else None
            if known is None:
                unknown.append(index)
                continue
            self.reused += 1
            if task.level == "quick" and known.source_key in task.known:
                # In a child's words, so that a search that is resumed comes to the same tree.
                known = Outcome("duplicate", DUPLICATE, 0.0, known.variant, known.source_key)
            results[index] = known
        # A process that ends takes the others' tasks along; alone, only the task that ends it fails.
        for index in self._together(unknown, tasks, keys, results, cancelled):
            if cancelled():
                break
            if len(unknown) == 1 or self._together([index], tasks, keys, results, cancelled):
                results[index] = self._crashed(tasks[index], BrokenProcessPool())
        return results

    def _together(
        self,
        indexes: Sequence[int],
        tasks: Sequence[EvaluationTask],
        keys: Sequence[str],
        results: list[Outcome | None],
        cancelled: Callable[[], bool],
    ) -> list[int]:
        """Fills ``results`` at ``indexes``. Cancelling leaves them None, and so does a crash: those are returned."""
        if not indexes or cancelled():
            return []
        if self._spare is None and self._problem.device != "emulator":
            self._spare = self._start(1)
            self._spare.submit(_warm_up_in_child)
        waiting: dict[concurrent.futures.Future[Outcome], int] = {}
        broken: list[int] = []
        for index in indexes:
            try:
                waiting[self._running().submit(_evaluate_in_child, tasks[index], keys[index])] = index
            except BrokenProcessPool:
                self.kill()
                broken.append(index)
        deadline = time.monotonic() + TASK_SECONDS * max(1, -(-len(waiting) // self._processes))
        pending = set(waiting)
        while pending:
            done, pending = concurrent.futures.wait(pending, POLL_SECONDS)
            for future in done:
                index = waiting[future]
                try:
                    results[index] = self._kept(future.result(), keys[index])
                except BrokenProcessPool:
                    self.kill()
                    broken.append(index)
            if pending and cancelled():
                self.kill()
                break
            if pending and time.monotonic() > deadline:
                for future in pending:
                    index = waiting[future]
                    results[index] = self._crashed(tasks[index], TimeoutError())
                self.kill()
                break
        return sorted(broken)

    def _kept(self, outcome: Outcome, key: str) -> Outcome:
        # A crash, a time-out or a duplicate may be different next time; everything else is a fact worth keeping.
        if self._store is not None and outcome.state not in ("failed", "duplicate"):
            self._store.put(key, outcome)
        return outcome

    def _crashed(self, task: EvaluationTask, error: Exception) -> Outcome:
        hung = isinstance(error, TimeoutError)
        reason = "the evaluation hung and was ended" if hung else "the evaluation process crashed"
        steps = tuple(Step(p.name, dict(p.parameters), p.rationale, p.proposer) for p in task.proposals)
        variant = evolve(task.parent, steps=task.parent.steps + steps)
        failure = Failure("timeout" if hung else "crash", reason)
        key = "failed-" + task.key(self._problem_key)
        return Outcome("failed", reason, FAILED, variant, key, failure=failure)

    def remeasure(self, outcome: Outcome, cancelled: Callable[[], bool] = _never) -> Outcome | None:
        """On a GPU: paired timing once more in a process that never ran a candidate. A prediction has nothing to
        repeat."""
        if outcome.measurement is None or outcome.measurement.kind == "predicted":
            return outcome
        fresh = self._spare or self._start(1)
        self._spare = None
        self.kill()
        self._executor = fresh
        try:
            return self._result(fresh.submit(_remeasure_in_child, outcome), TASK_SECONDS * 3, cancelled)
        except (BrokenProcessPool, TimeoutError):
            self.kill()
            return evolve(outcome, state="failed", reason="the final measurement did not finish")

    def kill(self) -> None:
        """Ends the children at once; a later call starts fresh ones."""
        executors, self._executor, self._spare = (self._executor, self._spare), None, None
        for executor in executors:
            if executor is not None:
                _kill(executor)

    def close(self) -> None:
        """Ends the pool and removes what its processes shared; safe to call twice."""
        self.kill()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            remove_scratch(*scratch)
            if self._watcher is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._watcher.wait(1.0)


def _kill(executor: concurrent.futures.ProcessPoolExecutor) -> None:
    processes = list((getattr(executor, "_processes", None) or {}).values())
    for process in processes:
        process.kill()
    executor.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.join(1.0)
