"""Compiling hostile text: what a compiler's process may read, write and cost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optiml_core.device.emulator import EmulatorDevice, build, compile_plan
from optiml_core.device.emulator.build import KernelName
from optiml_core.device.emulator.build_command import run_compiler
from optiml_core.device.emulator.build_slice import EmulatorSource
from optiml_core.device.emulator.build_toolbox import Toolbox, _identity
from optiml_core.records import Failure, Variant

FORBIDDEN = {
    "reading a system file": ["/bin/cat", "/etc/passwd"],
    "reading the home": ["/bin/ls", os.path.expanduser("~")],
    "writing elsewhere": ["/usr/bin/touch", "/tmp/optiml-compiler-was-here"],
    "writing the cache": ["/bin/rm", "-f", "{cache}/key"],
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_compiler_touches_only_its_folder(toolbox: Toolbox, tmp_path: Path, name: str) -> None:
    command = [word.format(cache=toolbox.worker.parent) for word in FORBIDDEN[name]]
    key = (toolbox.worker.parent / "key").read_bytes()
    result = run_compiler(command, tmp_path, confinement=toolbox.confinement)
    assert isinstance(result, Failure)
    assert "ermission denied" in result.message
    assert not Path("/tmp/optiml-compiler-was-here").exists()
    assert (toolbox.worker.parent / "key").read_bytes() == key


BOMBS = {
    "templates": "template <int N> struct B { typename B<2 * N>::x a; typename B<2 * N + 1>::x b; };\n"
    "__global__ void k(int* x) { x[0] = sizeof(B<1>); }",
    "constant expressions": "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
    "__global__ void k(int* x) { constexpr long v = f(90); x[0] = v; }",
    "macros": "#define A(x) x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\n"
    "__global__ void k(int* x) { C(x[0] = 1;) }",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_in_a_failure(device: EmulatorDevice, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(build, "CANDIDATE_SECONDS", 1.0)
    start = time.monotonic()
    result = device.build(Variant("bomb.cu", BOMBS[name].encode(), "k"))
    assert isinstance(result, Failure), name
    assert time.monotonic() - start < 10


def test_a_pipe_is_not_read(device: EmulatorDevice, tmp_path: Path) -> None:
    pipe = tmp_path / "endless.h"
    os.mkfifo(pipe)
    text = f'#include "{pipe}"\n__global__ void k(int* x) {{ x[0] = 1; }}\n'
    start = time.monotonic()
    result = device._builder.compile(EmulatorSource(text), KernelName("::k", "k"))
    assert isinstance(result, Failure)
    assert time.monotonic() - start < 5


def test_a_compiler_dies_with_its_parent(toolbox: Toolbox, tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    script = f"""
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from optiml_core.device.emulator.build_command import Confinement, run_compiler
confinement = Confinement(Path({str(toolbox.confinement.launcher)!r}))
command = ["/bin/sh", "-c", "sleep 54321 & sleep 54321"]
run_compiler(command, Path({str(tmp_path)!r}), seconds=60, confinement=confinement)
"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    assert wait_for(lambda: len(sleepers()) == 2)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_for(lambda: not sleepers())


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and path.joinpath("cmdline").read_bytes() == b"sleep\x0054321\x00":
                found.append(path.name)
        except OSError:
            continue
    return found


def wait_for(condition: object, seconds: float = 5.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


OF_THE_MACHINE = {
    "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n": "timeout",
    "g++: internal compiler error: CPU time limit exceeded signal terminated program cc1plus\n": "timeout",
    "cc1plus: out of memory allocating 65536 bytes after a total of 131072 bytes\n": "out-of-memory",
    "cc1plus: fatal error: cannot write PCH file: No space left on device\n": "crash",
    "<command-line>: fatal error: /x/shim.h.gch: couldn't open PCH file: Permission denied\n": "crash",
    'candidate.cu:3:1: error: "PCH out of memory" is a text of the kernel\n': "compile-error",
    "elsewhere.h:3:1: error: a secret\n": "compile-error",
}


@pytest.mark.parametrize("errors", OF_THE_MACHINE)
def test_the_kernel_is_not_blamed_for_the_machine(tmp_path: Path, errors: str) -> None:
    """A verdict "does not compile" is kept for good; a full disk or a limit passes."""
    command = ["/bin/sh", "-c", 'printf "%s" "$0" >&2; exit 1', errors]
    result = run_compiler(command, tmp_path, own_files={"candidate.cu": ""})
    assert isinstance(result, Failure)
    assert result.kind == OF_THE_MACHINE[errors]
    assert "secret" not in result.message


def test_two_installations_do_not_share_what_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    here = build_toolbox_identity()
    monkeypatch.setattr(compile_plan, "SHIM_HEADER", Path("/elsewhere/kernel_shim.h"))
    assert build_toolbox_identity() != here


def build_toolbox_identity() -> str:
    return _identity("/usr/bin/g++", "12.2.0")


HARDENED = """#!/bin/sh
exec /usr/bin/g++ -fstack-protector-all -D_FORTIFY_SOURCE=2 -fcf-protection=full -D_GLIBCXX_ASSERTIONS "$@"
"""
LOCAL_ARRAY = """__global__ void k(float* x) {
  float sums[8], other[8];
  for (int i = 0; i < 8; i++) sums[i] = x[8 * threadIdx.x + i];
  memcpy(other, sums, sizeof(float) * (threadIdx.x + 1));
  x[8 * threadIdx.x] = other[0];
}
"""


def test_the_defaults_of_a_hardened_compiler_do_not_reach_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu's g++ protects the stack and checks copies unless told not to."""
    compiler = tmp_path / "prefix" / "bin" / "g++"
    compiler.parent.mkdir(parents=True)
    compiler.write_text(HARDENED)
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "find_compiler", lambda: str(compiler))
    with EmulatorDevice(tmp_path / "cache") as hardened:
        built = hardened.build(Variant("local.cu", LOCAL_ARRAY.encode(), "k"))
    assert not isinstance(built, Failure), built
