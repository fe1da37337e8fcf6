"""The lock of a GPU: runs share it, timing has it alone, and who waits to time is not overtaken."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import platformdirs
import pytest

from optiml_core.device.cuda.lock import gpu_lock


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)


def free(shared: bool) -> bool:
    """Whether somebody else would get the lock now. Each call opens the file anew, as another process does."""
    with gpu_lock("GPU-1", seconds=0.0, shared=shared) as held:
        return held


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_only_runs_share(first: bool, second: bool, together: bool) -> None:
    with gpu_lock("GPU-1", shared=first) as held:
        assert held
        assert free(second) is together
        with gpu_lock("GPU-2", seconds=0.0) as other:
            assert other
    assert free(False)


def test_who_waits_to_time_is_not_overtaken() -> None:
    order: list[str] = []

    def take(name: str, shared: bool) -> None:
        with gpu_lock("GPU-1", shared=shared) as held:
            assert held
            order.append(name)

    threads = []
    with gpu_lock("GPU-1", shared=True):
        for name, shared in (("timing", False), ("run", True)):
            threads.append(threading.Thread(target=take, args=(name, shared)))
            threads[-1].start()
            time.sleep(0.1)
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == ["timing", "run"]


def test_waiting_is_told_once() -> None:
    told: list[str] = []
    with gpu_lock("GPU-1"), gpu_lock("GPU-1", seconds=2.5, waiting=lambda: told.append("waiting")) as held:
        assert not held
    assert told == ["waiting"]
