"""Compiling is an attack, too: what a candidate's text can try, and that it gets nothing."""

import os
import time
from pathlib import Path

import pytest

from optiml_core.records import Failure
from optiml_core.source import SourceFile
from optiml_core.toolchain import (
    CompiledKernel,
    CompileLimits,
    CompilePool,
    CompileRequest,
    DeviceSlice,
    Toolchain,
    compile_file_with_nvcc,
)
from optiml_core.toolchain.children.confinement import landlock_version
from optiml_core.toolchain.limited_process import ProcessLimits, ProcessResult, run_limited
from tests.toolchain.conftest import Compile, request_for

pytestmark = pytest.mark.cuda_toolchain

SECRET = "optiml_secret_marker"
KERNEL = "__global__ void k(int* x) { x[0] = 1; }\n"


def past_the_first_fence(text: str, limits: CompileLimits = CompileLimits()) -> CompileRequest:  # noqa: B008
    """A request whose text no slice has looked at, as if the first fence had a hole."""
    cut = DeviceSlice("file.cu", "k", "nvrtc", text, (), (), (), ())
    return CompileRequest(cut, "sm_90", limits=limits)


needs_landlock = pytest.mark.skipif(landlock_version() == 0, reason="the kernel has no Landlock")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.h"
    # Valid text: a compiler that could read it would compile the kernel.
    file.write_text(f"#define {SECRET} 1\n")
    return file


@needs_landlock
@pytest.mark.parametrize(
    "text",
    [
        '#include "{secret}"\n' + KERNEL,
        "#include <{secret}>\n" + KERNEL,
        '%:include "{secret}"\n' + KERNEL,
        '#include "/etc/passwd"\n' + KERNEL,
        '#if __has_include("{secret}")\n#error found\n#endif\n#include <nowhere>\n' + KERNEL,
        '#embed "{secret}"\n' + KERNEL,
        '__global__ void k(int* x) {{ const char a[] = {{\n#embed "{secret}"\n}}; x[0] = a[0]; }}',
        '#line 1 "file.cu"\n#include "{secret}"\n' + KERNEL,
        '#include "/proc/self/environ"\n' + KERNEL,
        '#include "/proc/self/cmdline"\n' + KERNEL,
    ],
)
@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_no_file_can_be_read_even_past_the_first_fence(
    pool: CompilePool, secret: Path, text: str, compiler: str
) -> None:
    request = past_the_first_fence(text.replace("{secret}", str(secret)).replace("{{", "{").replace("}}", "}"))
    result = pool.compile(request) if compiler == "nvrtc" else pool.compile_with_nvcc(request)
    assert isinstance(result, Failure)
    shown = f"{result.message} {result.cure}"
    assert SECRET not in shown
    assert "root:" not in shown
    assert "found" not in shown or "not found" in shown


def test_only_messages_about_the_own_lines_are_passed_on(toolchain: Toolchain, secret: Path) -> None:
    """Without the system's fence: an include that the compiler can read must not show in the failure."""
    folder = Toolchain(
        {
            **toolchain.tools,
            "cuda_headers": toolchain.tool("cuda_headers").__class__("cuda_headers", str(secret.parent), "0"),
        }
    )
    cut = DeviceSlice("file.cu", "k", "nvrtc", '#include "secret.h"\n' + KERNEL, (), ("cuda_fp16.h",), (), ())
    with CompilePool(folder) as pool:
        result = pool.compile(CompileRequest(cut, "sm_90"))
    assert isinstance(result, Failure)
    assert SECRET not in result.message
    assert SECRET not in result.cure


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_a_fifo_does_not_block(pool: CompilePool, tmp_path: Path, compiler: str) -> None:
    fifo = tmp_path / "fifo.h"
    os.mkfifo(fifo)
    began = time.monotonic()
    for path in (str(fifo), "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        request = past_the_first_fence(f'#include "{path}"\n{KERNEL}', CompileLimits(seconds=2))
        result = pool.compile(request) if compiler == "nvrtc" else pool.compile_with_nvcc(request)
        assert isinstance(result, Failure) or path != str(fifo)
        if isinstance(result, CompiledKernel):
            assert path.startswith(("/dev", "/proc"))  # it is the null device: an empty file
    assert time.monotonic() - began < 30


BOMBS = {
    "templates in memory": "template <int N, long M> struct S {\n"
    "  static const long v = S<N - 1, 2 * M>::v + S<N - 1, 2 * M + 1>::v;\n};\n"
    "template <long M> struct S<0, M> { static const long v = M; };\n__global__ void k(long* x) { *x = S<40, 1>::v; }",
    "types that double": "template <class A, class B> struct P {};\ntemplate <int N> struct D {\n"
    "  using type = P<typename D<N - 1>::type, typename D<N - 1>::type>;\n  type a; int b[sizeof(type)];\n};\n"
    "template <> struct D<0> { using type = int; };\ntemplate <class T> __device__ int name(T) { return sizeof(T); }\n"
    "__global__ void k(int* x) { x[0] = name(D<26>::type()); }",
    "a macro that doubles": "#define A0 x[0] += 1;\n"
    + "".join(f"#define A{n + 1} A{n} A{n} A{n} A{n}\n" for n in range(14))
    + "__global__ void k(int* x) { A14 }",
    "a constexpr loop": "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s ^= i * n; return s; }\n"
    "__global__ void k(long* x) { constexpr long a = f(1l << 60); x[0] = a; }",
    "an unrolled mountain": "__global__ void k(float* x) {\n#pragma unroll\n  for (int i = 0; i < 300; i++)\n"
    "#pragma unroll\n    for (int j = 0; j < 300; j++)\n#pragma unroll\n"
    "      for (int l = 0; l < 300; l++) x[i * j + l] = x[l] * x[i] + j;\n}",
    "a header that includes itself": "",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_within_their_limits(pool: CompilePool, compiled: Compile, name: str, tmp_path: Path) -> None:
    text = BOMBS[name]
    path = str(tmp_path / "file.cu")
    if name == "a header that includes itself":
        (tmp_path / "a.h").write_text('#include "a.h"\n#include "a.h"\n__device__ int f();\n')
        text = '#include "a.h"\n__global__ void k(int* x) { *x = f(); }'
    limits = CompileLimits(cpu_seconds=1, seconds=4, memory=1 << 30)
    began = time.monotonic()
    result = compiled(text, path=path, limits=limits)
    assert time.monotonic() - began < 6
    assert isinstance(result, Failure)
    assert result.kind in ("timeout", "out-of-memory", "compile-error", "crash")
    assert isinstance(compiled(KERNEL), CompiledKernel)  # and the next one is served


def test_a_flood_of_messages_stays_small(compiled: Compile) -> None:
    lines = "\n".join(f"  undefined_{number}(x);" for number in range(20_000))
    result = compiled(f"__global__ void k(int* x) {{\n{lines}\n}}")
    assert isinstance(result, Failure)
    assert result.kind == "compile-error"
    assert len(result.message) < 4000
    deep = "template <class T, int N> struct S : S<S<T, N>, N - 1> {};\n__global__ void k() { S<int, 900> s; }"
    result = compiled(deep, limits=CompileLimits(cpu_seconds=5, seconds=10))
    assert isinstance(result, Failure)
    assert len(result.message) < 20_000


@pytest.mark.parametrize(
    "flags",
    [
        ("-Xcompiler", "-fplugin=evil.so"),
        ("-ccbin", "/tmp/evil"),
        ("@/tmp/flags",),
        ("--options-file", "/tmp/flags"),
        ("-include", "/etc/passwd"),
    ],
)
def test_a_flag_that_got_past_the_list_still_reaches_no_compiler(
    pool: CompilePool, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """NVRTC gets only flags that are translated one by one; unknown ones fall away."""
    request = request_for(KERNEL, flags=flags)
    assert not isinstance(request, Failure)
    assert isinstance(pool.compile(request), CompiledKernel)


def test_the_original_may_not_read_outside_its_project_by_nvcc_either(
    pool: CompilePool, toolchain: Toolchain, tmp_path: Path
) -> None:
    if landlock_version() == 0:
        pytest.skip("the kernel has no Landlock")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "secret.h").write_text(f"{SECRET} is here;\n")
    (tmp_path / "project" / "own.h").write_text("static inline int own() { return 1; }\n")
    path = tmp_path / "project" / "file.cu"
    good = f'#include "own.h"\n#include <vector>\n{KERNEL}int main() {{ return own(); }}\n'
    request = request_for(good, path=str(path))
    assert not isinstance(request, Failure)
    result = compile_file_with_nvcc(SourceFile(str(path), good.encode()), "k", request, toolchain)
    assert isinstance(result, CompiledKernel), result
    bad = f'#include "../secret.h"\n{KERNEL}'
    result = compile_file_with_nvcc(SourceFile(str(path), bad.encode()), "k", request, toolchain)
    assert isinstance(result, Failure)
    assert SECRET not in result.message


# ---------------------------------------------------------------------------------- limited commands


def test_a_limited_command_has_an_empty_environment_and_only_its_folder(tmp_path: Path) -> None:
    os.environ["OPTIML_TEST_SECRET"] = SECRET
    try:
        result = run_limited(["/bin/sh", "-c", "env; pwd"], str(tmp_path))
    finally:
        del os.environ["OPTIML_TEST_SECRET"]
    assert isinstance(result, ProcessResult)
    assert SECRET not in result.output
    assert str(tmp_path) in result.output
    assert "PATH=/" not in result.output.replace("PWD", "").replace("OLDPWD", "") or "HOME" in result.output


@needs_landlock
@pytest.mark.parametrize("command", ["cat {other}/secret", "echo x > {other}/new", "ls {other}", "cat /etc/passwd"])
def test_a_limited_command_reaches_no_other_file(tmp_path: Path, command: str) -> None:
    (tmp_path / "own").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret").write_text(SECRET)
    result = run_limited(["/bin/sh", "-c", command.replace("{other}", str(other))], str(tmp_path / "own"))
    assert isinstance(result, ProcessResult)
    assert result.status != 0
    assert SECRET not in result.output
    assert "root:" not in result.output
    assert not (other / "new").exists()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("while :; do :; done", "timeout"),
        ("sleep 60", "timeout"),
        ("sleep 60 & sleep 60", "timeout"),
        ("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done", "crash"),
        ("kill -9 $$", "crash"),
    ],
)
def test_a_limited_command_is_stopped(tmp_path: Path, command: str, kind: str) -> None:
    limits = ProcessLimits(cpu_seconds=1, seconds=1.5, output=10_000)
    began = time.monotonic()
    result = run_limited(["/bin/sh", "-c", command], str(tmp_path), limits=limits)
    assert time.monotonic() - began < 5
    assert isinstance(result, Failure)
    assert result.kind == kind


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    result = run_limited(["/nowhere/program"], str(tmp_path))
    assert isinstance(result, Failure)
    assert result.kind == "missing-tool"


def test_output_and_status_come_back(tmp_path: Path) -> None:
    result = run_limited(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], str(tmp_path))
    assert isinstance(result, ProcessResult)
    assert result.status == 3
    assert sorted(result.output.split()) == ["err", "out"]
