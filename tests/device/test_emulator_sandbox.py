"""The second fence: machine code that the first one never saw, in a real worker. x86-64."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from optiml_core.device.emulator import worker_wire as wire
from optiml_core.device.emulator.allow_list_object import check_shared_object
from optiml_core.device.emulator.build_elf import read_elf
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.emulator.compile_plan import RUNTIME_DIRECTORY
from optiml_core.device.emulator.worker import Worker
from optiml_core.records import Failure
from tests.device.hostile import hostile_object, request, started

# System calls of x86-64, by number (arch/x86/entry/syscalls/syscall_64.tbl).
CALLS = {
    "open": 'call(2, (long)"/etc/passwd", 0)',
    "openat": 'call(257, -100, (long)"/etc/passwd", 0)',
    "create a file": 'call(257, -100, (long)"/tmp/optiml-attack", 0101, 0600)',
    "openat2": 'call(437, -100, (long)"/etc/passwd", 0, 0)',
    "socket": "call(41, 2, 1, 0)",
    "fork": "call(57)",
    "vfork": "call(58)",
    "clone": "call(56, 17)",
    "clone3": "call(435, 0, 0)",
    "execve": 'call(59, (long)"/bin/sh", 0, 0)',
    "kill the parent": "call(62, call(110), 9)",
    "kill everything": "call(62, -1, 9)",
    "tgkill": "call(234, 1, 1, 9)",
    "ptrace": "call(101, 0)",
    "getpid": "call(39)",
    "write to standard error": 'call(1, 2, (long)"x", 1)',
    "read a foreign descriptor": 'call(0, 0, (long)"", 1)',
    "executable memory": "call(9, 0, 4096, 7, 0x22, -1, 0)",
    "map a file": "call(9, 0, 4096, 1, 1, 3, 0)",
    "make memory executable": "call(10, (long)call & ~4095, 4096, 7)",
    "process_vm_writev": "call(311, 1, 0, 0, 0, 0)",
    "prctl": "call(157, 1, 0)",
    "seccomp again": "call(317, 1, 0, 0)",
    "ftruncate the arena": "call(77, 3, 0)",
    "unlink": 'call(87, (long)"/tmp/x")',
    "ioctl": "call(16, 0, 0x5412, 0)",
    "io_uring": "call(425, 1, 0)",
    "bpf": "call(321, 0, 0, 0)",
    "signal handler": "call(13, 31, 0, 0, 8)",
    "x32 getpid": "call(0x40000000 + 39)",
    "32-bit call": '({ long r; asm volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); r; })',
    "userfaultfd": "call(323, 0)",
    "setrlimit": "call(160, 0, 0)",
}


@pytest.mark.parametrize("name", CALLS)
def test_machine_code_makes_no_system_call(
    toolbox: Toolbox, spawner: ThreadPoolExecutor, tmp_path: Path, name: str
) -> None:
    data = hostile_object(tmp_path, f"void optiml_entry(void**) {{ {CALLS[name]}; call(231, 0); }}")
    worker = started(toolbox, spawner, tmp_path, data)
    assert isinstance(worker, Worker), worker
    try:
        result = worker.run(request(), 5.0)
        assert isinstance(result, Failure), result
        assert result.kind == "refused", result
        assert "system call" in result.message
        assert worker.process.wait(5) == -signal.SIGSYS
    finally:
        worker.close()
    assert not Path("/tmp/optiml-attack").exists()


CONSTRUCTORS = {
    "socket": "call(41, 2, 1, 0);",
    "write a file": 'call(257, -100, (long)"/tmp/optiml-attack", 0101, 0600);',
    "fork": "call(57);",
    "kill the parent": "call(62, call(110), 9);",
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_an_initialiser_is_refused_and_could_do_nothing(
    toolbox: Toolbox, spawner: ThreadPoolExecutor, tmp_path: Path, name: str
) -> None:
    body = f"__attribute__((constructor)) void start() {{ {CONSTRUCTORS[name]} }}\nvoid optiml_entry(void**) {{}}"
    data = hostile_object(tmp_path, body)
    refusal = check_shared_object(read_elf(data), toolbox.exported)
    assert refusal is not None
    assert "initialiser" in refusal.message
    worker = started(toolbox, spawner, tmp_path, data)  # even if nobody had looked
    assert isinstance(worker, Failure), worker
    assert worker.kind == "refused"
    assert not Path("/tmp/optiml-attack").exists()


def test_what_runs_has_an_empty_environment_and_no_descriptors(
    toolbox: Toolbox, spawner: ThreadPoolExecutor, tmp_path: Path
) -> None:
    worker = started(toolbox, spawner, tmp_path, hostile_object(tmp_path, "void optiml_entry(void**) {}"))
    assert isinstance(worker, Worker)
    try:
        process = Path(f"/proc/{worker.process.pid}")
        assert process.joinpath("environ").read_bytes().strip(b"\0") == b""
        assert os.readlink(process / "cwd") == str(tmp_path)
        status = dict(
            line.split(":\t", 1) for line in process.joinpath("status").read_text().splitlines() if ":\t" in line
        )
        assert (status["NoNewPrivs"], status["Seccomp"], status["Seccomp_filters"]) == ("1", "2", "2")
        open_files = {os.readlink(f) for f in process.joinpath("fd").iterdir()}
        assert {f for f in open_files if not f.startswith("pipe:")} == {"/dev/null"}
        assert "Max core file size        0" in process.joinpath("limits").read_text()
    finally:
        worker.close()
    assert isinstance(result_of(worker), Failure)


def result_of(worker: Worker) -> wire.Reply | Failure:
    try:
        return worker.run(request(), 1.0)
    except OSError as error:
        return Failure("crash", str(error))


def test_both_sides_of_the_wire_have_the_same_sizes(tmp_path: Path) -> None:
    structs = {
        "OptimlWireRequest": wire.REQUEST.size,
        "OptimlWireParameter": wire.PARAMETER.itemsize,
        "OptimlWireRange": wire.RANGE.itemsize,
        "OptimlWireCopy": wire.COPY.itemsize,
        "OptimlWireReserved": wire.RESERVED.itemsize,
        "OptimlWireReply": wire.REPLY_HEADER.size,
        "OptimlSite": wire.SITE.itemsize,
        "OptimlReport": wire.REPORT.itemsize,
        "OptimlTraffic": wire.TRAFFIC.itemsize,
    }
    constants = {
        "OPTIML_WIRE_VERSION": wire.VERSION,
        "OPTIML_REQUEST_TABLES": wire.REQUEST_TABLES,
        "OPTIML_REPLY": wire.REPLY,
        "OPTIML_REPLY_TABLES": wire.REPLY_TABLES,
        "OPTIML_PAYLOAD": wire.PAYLOAD,
    }
    values = [f"sizeof({name})" for name in structs] + list(constants)
    source = tmp_path / "sizes.cpp"
    source.write_text(
        f'#include "wire.h"\n#include <cstdio>\nint main() {{ for (unsigned long v : '
        f'{{{", ".join(f"(unsigned long){v}" for v in values)}}}) printf("%lu ", v); }}'
    )
    command = ["g++", "-std=c++17", f"-I{RUNTIME_DIRECTORY}", "-include", "initializer_list", str(source), "-o"]
    subprocess.run([*command, str(tmp_path / "sizes")], check=True)
    printed = subprocess.run([str(tmp_path / "sizes")], check=True, capture_output=True, text=True).stdout.split()
    assert dict(zip(values, map(int, printed), strict=True)) == dict(
        zip(values, [*structs.values(), *constants.values()], strict=True)
    )


# Each writes over the reply, then claims to be done: `reply` is where the reply's header lies.
REPLIES = {
    # In 8-byte words: 8 to 10 the totals, 11 to 14 the counts, 15 to 18 the positions (wire.h, OptimlWireReply).
    "huge counts": "for (int i = 11; i < 15; i++) reply[i] = ~0ul;",
    "huge positions": "for (int i = 11; i < 15; i++) reply[i] = 1; for (int i = 15; i < 19; i++) reply[i] = ~0ul >> 1;",
    "positions outside": "reply[11] = 1; reply[15] = 0;",
    "more than there is room": "reply[11] = 1 << 20; reply[15] = 2 << 20;",
    "noise": "for (int i = 1; i < 30; i++) reply[i] = 0x9e3779b97f4a7c15ul * i;",
    "another version": "*(unsigned*)reply = 99;",
    "another sequence": "((unsigned*)reply)[2] = 77;",
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_forged_reply_is_data(toolbox: Toolbox, spawner: ThreadPoolExecutor, tmp_path: Path, name: str) -> None:
    body = f"""void optiml_entry(void** a) {{
      unsigned long* reply = (unsigned long*)((char*)a[0] - {wire.PAYLOAD - wire.REPLY});
      unsigned* words = (unsigned*)reply;
      words[0] = 1; words[1] = {wire.RAN}; words[2] = 1;
      {REPLIES[name]}
      int fd = *(int*)a[0];
      call(1, fd, (long)"x", 1);
      for (;;);
    }}"""
    worker = started(toolbox, spawner, tmp_path, hostile_object(tmp_path, body))
    assert isinstance(worker, Worker)
    try:
        pipes = [
            int(f.name) for f in Path(f"/proc/{worker.process.pid}/fd").iterdir() if os.readlink(f).startswith("pipe:")
        ]
        worker.arena.bytes[wire.PAYLOAD : wire.PAYLOAD + 4] = np.frombuffer(np.int32(max(pipes)).tobytes(), np.uint8)
        result = worker.run(request(1), 2.0)
        assert isinstance(result, Failure), result
        assert result.kind == "crash"
        assert "reply" in result.message or "another request" in result.message
    finally:
        worker.close()


def test_a_candidate_cannot_take_all_memory(toolbox: Toolbox, spawner: ThreadPoolExecutor, tmp_path: Path) -> None:
    body = """void optiml_entry(void** a) {
      long got = 0;
      for (int i = 0; i < 4096; i++) if (call(9, 0, 64 << 20, 3, 0x22, -1, 0) > 0) got++;
      *(long*)a[0] = got;
    }"""
    worker = started(toolbox, spawner, tmp_path, hostile_object(tmp_path, body), memory=1 << 30)
    assert isinstance(worker, Worker)
    try:
        result = worker.run(request(1), 5.0)
        assert isinstance(result, wire.Reply), result
        got = int(worker.arena.bytes[wire.PAYLOAD : wire.PAYLOAD + 8].view(np.int64)[0])
        assert 1 <= got <= (1 << 30 | 256 << 20) // (64 << 20)
    finally:
        worker.close()
