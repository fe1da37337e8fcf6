"""Running ncu, with a stand-in for it: what it is asked, and what becomes of its failures. The real one: tests/gpu."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optiml_core.device.cuda import tools
from optiml_core.device.cuda.requests import KernelImage
from optiml_core.device.protocol import Built, Contents
from optiml_core.records import Failure, Launch, Variant
from optiml_core.toolchain import Tool

BUILT = Built("token", Variant("k.cu", b"", "k"))
LAUNCH = Launch((1, 1, 1), (32, 1, 1), 0, ())


class OneKernel:
    """As much of a CudaDevice as running a tool needs."""

    index = 0

    def image_of(self, built: Built) -> KernelImage | None:
        return KernelImage("token", b"", "_Z1kv") if built is BUILT else None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        yield None


class OneTool:
    def __init__(self, path: str | None) -> None:
        self._path = path

    def tool(self, name: str) -> Tool:
        return Tool(
            name, self._path, "1.0", "" if self._path else "ncu was not found", "" if self._path else "install it"
        )


def script(folder: Path, text: str) -> str:
    path = folder / "ncu"
    path.write_text(f'#!/bin/bash\necho "$*" >> "{folder}/asked"\nout="$3"\n{text}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(folder: Path, text: str | None, built: Built = BUILT) -> tuple[Failure | None, list[str]]:
    """What came back, and the command lines that the stand-in was given."""
    device: Any = OneKernel()
    toolchain: Any = OneTool(script(folder, text) if text is not None else None)
    result = tools.profile_with_ncu(device, built, LAUNCH, Contents({}), toolchain, folder / "r.ncu-rep")
    asked = folder / "asked"
    return result, asked.read_text().splitlines() if asked.exists() else []


def test_asks_for_one_launch_of_the_mangled_name(tmp_path: Path) -> None:
    failed, asked = run(tmp_path, 'touch "$out"')
    assert failed is None
    assert len(asked) == 1
    for words in ("--kernel-name-base mangled --kernel-name _Z1kv", "--launch-count 1", "--replay-mode kernel",
                  "--section SourceCounters", "--clock-control none"):  # fmt: skip
        assert words in asked[0]


def test_replays_the_process_where_the_kernel_cannot_be(tmp_path: Path) -> None:
    only_application = (
        'if [[ "$*" == *"--replay-mode application"* ]]; then touch "$out"; else echo "==ERROR== no memory"; exit 1; fi'
    )
    failed, asked = run(tmp_path, only_application)
    assert failed is None
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ('echo "==ERROR== An error was reported by the driver"; exit 1', "crash", "reported by the driver"),
        ("exit 0", "crash", "ncu failed"),  # it ended well and wrote nothing
        ('echo "==ERROR== ERR_NVGPUCTRPERM"; exit 1', "no-permission", "does not let this user"),
        (None, "missing-tool", "not found"),
    ],
)
def test_failures_have_their_reasons(tmp_path: Path, text: str | None, kind: str, message: str) -> None:
    failed, _ = run(tmp_path, text)
    assert failed is not None
    assert (failed.kind, message in failed.message) == (kind, True), failed


def test_the_first_attempt_is_the_cause(tmp_path: Path) -> None:
    failed, _ = run(
        tmp_path, 'if [[ "$*" == *application* ]]; then echo "==ERROR== two"; else echo "==ERROR== one"; fi; exit 1'
    )
    assert failed is not None
    assert "one" in failed.message


def test_a_profiler_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "NCU_SECONDS", 0.5)
    failed, asked = run(tmp_path, "exec sleep 30")
    assert failed is not None
    assert failed.kind == "timeout"
    assert len(asked) == 1


def test_builds_of_other_devices_are_refused(tmp_path: Path) -> None:
    failed, asked = run(tmp_path, 'touch "$out"', Built("other", Variant("k.cu", b"", "k")))
    assert failed is not None
    assert failed.kind == "bad-input"
    assert asked == []
