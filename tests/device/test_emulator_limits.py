"""Limits on time, memory and output; processes that must end; files planted in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from optiml_core.device.emulator import EmulatorDevice, emulator_capabilities
from optiml_core.device.emulator.build_cache import BuildCache
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.emulator.sandbox import SandboxStatus
from optiml_core.device.protocol import Built, Contents, RunOptions, RunResult
from optiml_core.records import BufferArgument, BufferContent, Failure, Launch, Step, Variant
from tests.device.hostile import INT, KERNEL, ONE, hostile_object

HUNGRY = tomllib.loads((Path(__file__).parent / "hungry_kernels.toml").read_text())


@pytest.mark.parametrize("name", HUNGRY)
def test_hungry_candidates_end(device: EmulatorDevice, name: str) -> None:
    attack = dict(HUNGRY[name])
    text, outcomes = attack.pop("text"), attack.pop("outcomes")
    built = device.build(Variant("hungry.cu", text.encode(), "k"))
    if isinstance(built, Failure):
        assert built.kind in outcomes, built
        return
    start = time.monotonic()
    result = device.run(built, ONE, Contents({"x": np.zeros(1, "i4")}), RunOptions(**attack))
    assert time.monotonic() - start < 20
    outcome = result.kind if isinstance(result, Failure) else result.faults[0].kind if result.faults else "done"
    assert outcome in outcomes, result
    plain = device.build(Variant("plain.cu", KERNEL.encode(), "k"))
    assert isinstance(plain, Built)
    after = device.run(plain, ONE, Contents({"x": np.zeros(1, "i4")}))
    assert isinstance(after, RunResult)
    assert after.buffers["x"][0] == 1


def test_output_is_cut(device: EmulatorDevice) -> None:
    text = '__global__ void k(int* x) { for (int i = 0; i < 100000; i++) printf("%d aaaaaaaaaaaaaaaaaaaa\\n", i); }'
    built = device.build(Variant("loud.cu", text.encode(), "k"))
    if isinstance(built, Failure):
        pytest.skip(f"printf is not there yet: {built.message}")
    result = device.run(built, ONE, Contents({"x": np.zeros(1, "i4")}))
    assert isinstance(result, RunResult), result
    assert len(result.output) <= 1 << 16
    assert result.metrics["output_dropped"] > 0


PARENT = """
import sys, numpy as np
sys.path[:0] = {path!r}
from optiml_core.device.emulator import EmulatorDevice, emulator_capabilities
from optiml_core.device.protocol import Contents, RunOptions
from optiml_core.records import Variant
from tests.device.hostile import ONE
device = EmulatorDevice()
text = b"__global__ void k(int* x) {{ volatile int v = x[0]; while (v == 0) v = 0; }}"
built = device.build(Variant("k.cu", text, "k"))
worker = device._start(device._loaded[built.token], 1 << 30)
print(worker.process.pid, flush=True)
device._idle.append((built.token, worker))
device.run(built, ONE, Contents({{"x": np.zeros(1, "i4")}}), RunOptions(seconds=60, memory=1 << 30))
"""


def test_killing_the_parent_leaves_no_worker() -> None:
    root = str(Path(__file__).resolve().parents[2])
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(path=[root])], stdout=subprocess.PIPE, cwd=root)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    time.sleep(0.3)
    assert Path(f"/proc/{worker}").exists()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{worker}").exists()


def test_doctor_says_what_works_here_and_what_would_bring_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {capability.name: capability for capability in emulator_capabilities()}
    assert list(found) == ["emulator", "emulator sandbox", "confined compiling"]
    assert found["emulator"].available
    assert "g++" in found["emulator"].detail
    assert all(capability.available or capability.cure for capability in found.values())
    monkeypatch.setenv("PATH", "/nowhere")
    (missing,) = emulator_capabilities()
    assert not missing.available
    assert "g++" in missing.cure


def test_idle_workers_do_not_pile_up() -> None:
    n = 20 << 20
    launch = Launch((1, 1, 1), (1, 1, 1), 0, (BufferArgument("x", INT, n, BufferContent("zeros")),))
    contents = Contents({"x": np.zeros(n, "i4")})
    with EmulatorDevice() as device:
        processes = []
        for number in range(9):
            text = KERNEL.replace("= 1", f"= {number}")
            built = device.build(Variant("k.cu", text.encode(), "k"))
            assert isinstance(built, Built)
            assert isinstance(device.run(built, launch, contents, RunOptions(checks=False)), RunResult)
            processes.append(device._idle[-1][1].process)
        alive = [process for process in processes if process.poll() is None]
        assert 1 <= len(alive) <= 6, "80 MiB each, 512 MiB allowed"
        assert alive == processes[-len(alive) :], "the newest stay"


def test_close_ends_all_workers() -> None:
    device = EmulatorDevice()
    built = device.build(Variant("k.cu", KERNEL.encode(), "k"))
    assert isinstance(built, Built)
    assert isinstance(device.run(built, ONE, Contents({"x": np.zeros(1, "i4")})), RunResult)
    processes = [worker.process for _, worker in device._idle]
    assert len(processes) == 1
    device.close()
    device.close()
    assert all(process.poll() is not None for process in processes)
    closed = device.run(built, ONE, Contents({"x": np.zeros(1, "i4")}))
    assert isinstance(closed, Failure)


def test_without_the_sandbox_model_edits_are_not_run() -> None:
    with EmulatorDevice() as device:
        device._sandbox = SandboxStatus(False, "not here", "a newer kernel")
        for proposer, allowed in (("rewrites", True), ("model", False), ("rewrites", True)):
            step = Step("edit", {}, "because", proposer)
            built = device.build(Variant("k.cu", KERNEL.encode(), "k", steps=(step,)))
            assert isinstance(built, Built), built
            result = device.run(built, ONE, Contents({"x": np.zeros(1, "i4")}))
            assert isinstance(result, RunResult) == allowed, result
            if isinstance(result, Failure):
                assert result.kind == "sandbox-missing"
                assert result.cure == "a newer kernel"


# ----------------------------------------------------------------------------------- the cache


def test_planted_cache_files_are_not_believed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache")
    path = cache.put("object-x.so", b"ours")
    assert cache.get("object-x.so") == b"ours"
    path.write_bytes(b"evil")
    assert cache.get("object-x.so") is None
    path.write_bytes(b"ours")
    path.with_name("object-y.so").write_bytes(b"ours")
    path.with_name("object-y.so.tag").write_bytes(path.with_name("object-x.so.tag").read_bytes())
    assert cache.get("object-y.so") is None, "a tag holds for its own name only"
    path.unlink()
    path.symlink_to(tmp_path / "cache" / "object-y.so")
    assert cache.get("object-x.so") is None
    assert BuildCache(tmp_path / "cache").get("object-x.so") is None


def test_an_open_folder_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    cache = BuildCache(folder)
    assert cache.folder != folder
    assert cache.folder.stat().st_mode & 0o077 == 0
    assert str(folder) in cache.note
    link = tmp_path / "link"
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    link.symlink_to(private)
    assert BuildCache(link).folder != link


def test_the_cache_forgets_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache")
    for age, name in enumerate(("new", "old", "older", "oldest")):
        cache.put(name, bytes(1000))
        os.utime(cache.path(name), (time.time() - 1000 * age,) * 2)
    assert cache.get("older") is not None  # used again
    cache.prune(largest=2500, young=500)
    assert [name for name in ("new", "old", "older", "oldest") if cache.get(name)] == ["new", "older"]
    cache.prune(largest=0, young=500)
    assert cache.get("new") is not None, "what was just used stays"
    assert not cache.path("oldest.tag").exists()


def test_a_changed_key_makes_everything_old_unknown(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache")
    cache.put("a", b"1")
    (cache.folder / "key").unlink()
    assert BuildCache(cache.folder).get("a") is None


def test_a_planted_object_is_built_anew(toolbox: Toolbox, tmp_path: Path) -> None:
    evil = hostile_object(tmp_path, "void optiml_entry(void**) { call(41, 2, 1, 0); }")
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    for path in toolbox.worker.parent.iterdir():  # so that the worker need not be built here
        if path.name == "key" or toolbox.identity in path.name:
            shutil.copy2(path, folder)
    for _ in range(2):
        with EmulatorDevice(folder) as device:
            built = device.build(Variant("k.cu", KERNEL.encode(), "k"))
            assert isinstance(built, Built)
            result = device.run(built, ONE, Contents({"x": np.zeros(1, "i4")}))
            assert isinstance(result, RunResult)
            assert result.buffers["x"][0] == 1
        planted = list(folder.glob("object-*.so"))
        assert planted
        for path in planted:
            path.write_bytes(evil)
