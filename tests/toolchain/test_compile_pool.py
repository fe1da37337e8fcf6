"""Compiling with NVRTC and nvcc: results, failures, the store, and that nothing outlives its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from optiml_core.records import Failure
from optiml_core.store import Store
from optiml_core.toolchain import CompiledKernel, CompileLimits, CompilePool, Tool, Toolchain
from optiml_core.toolchain.children.confinement import landlock_version
from tests.toolchain.conftest import Compile, request_for

pytestmark = pytest.mark.cuda_toolchain

SAXPY = """#include <cstdio>
__global__ void k(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = a * x[i];
}
"""


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"])
def test_a_kernel_becomes_machine_code(compiled: Compile, architecture: str) -> None:
    result = compiled(SAXPY, architecture=architecture)
    assert isinstance(result, CompiledKernel), result
    assert result.cubin.startswith(b"\x7fELF")
    assert result.lowered_name == "_Z1kPffi"
    assert result.lowered_name.encode() in result.cubin
    assert result.resources.architecture == architecture
    assert 4 <= result.resources.registers <= 16
    assert result.resources.spill_stores == result.resources.stack == result.resources.shared == 0
    assert ".visible .entry _Z1kPffi" in result.ptx
    assert result.compiler.startswith("NVRTC 13")
    assert not result.cached


@pytest.mark.parametrize(
    ("text", "kernel", "arguments", "lowered"),
    [
        ("template <class T, int N> __global__ void k(T* x) { x[0] = N; }", "k", ("float", "4"), "_Z1kIfLi4EEvPT_"),
        ("namespace a { namespace b { __global__ void k() {} } }", "a::b::k", (), "_ZN1a1b1kEv"),
        ('extern "C" __global__ void k() {}', "k", (), "k"),
        ("static __global__ void k() {}", "k", (), "_Z1kv"),
        ("namespace { __global__ void k() {} }", "k", (), "1kEv"),
        ("namespace a { template <class T> __global__ void k(T* x) {} }", "a::k", ("double",), "_ZN1a1kIdEEvPT_"),
        (
            "struct F { __device__ float operator()(float a) { return a; } };\n"
            "template <class G> __global__ void k(float* x, G g) { x[0] = g(x[1]); }",
            "k",
            ("F",),
            "_Z1kI1FEvPfT_",
        ),
        ("__global__ void k(int* x) {}\n__global__ void k(float* x) {}", "k", (), "_Z1kPi"),
    ],
)
@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_names(
    pool: CompilePool, text: str, kernel: str, arguments: tuple[str, ...], lowered: str, compiler: str
) -> None:
    if compiler == "nvcc" and kernel != "k":
        pytest.skip("nvcc is slow; the plain cases show its part")
    request = request_for(text, kernel, arguments=arguments)
    assert not isinstance(request, Failure)
    result = pool.compile(request) if compiler == "nvrtc" else pool.compile_with_nvcc(request)
    assert isinstance(result, CompiledKernel), result
    assert result.lowered_name.endswith(lowered)
    assert result.lowered_name.encode() in result.cubin


def test_resources_are_those_of_the_kernel(compiled: Compile) -> None:
    result = compiled(
        """__global__ void k(float* x) {
          __shared__ float tile[512];
          tile[threadIdx.x] = x[threadIdx.x];
          __syncthreads();
          x[threadIdx.x] = tile[511 - threadIdx.x];
        }"""
    )
    assert isinstance(result, CompiledKernel)
    assert (result.resources.shared, result.resources.barriers) == (2048, 1)
    forced = "__global__ void k(double* x, int n) {\n  double a[40];\n"
    forced += "  for (int i = 0; i < 40; i++) a[i] = x[i * n];\n  for (int j = 0; j < n; j++)\n"
    forced += "    for (int i = 0; i < 40; i++) a[i] = a[i] * a[(i + 7) % 40] + x[j];\n"
    forced += "  for (int i = 0; i < 40; i++) x[i] = a[i];\n}"
    spilled = compiled(forced, flags=("-maxrregcount=32",))
    assert isinstance(spilled, CompiledKernel)
    assert spilled.resources.registers <= 32
    assert spilled.resources.spill_stores > 100
    assert spilled.resources.spill_loads > 100


@pytest.mark.parametrize(
    "body",
    [
        "uint32_t a = UINT32_MAX; x[0] = a;",
        "x[0] = FLT_MAX + DBL_EPSILON + INT_MAX + M_PI + INFINITY + NAN;",
        "x[0] = std::numeric_limits<float>::max() + std::numeric_limits<int>::lowest();",
        "x[0] = std::max(x[1], 2.0f) + std::min(1, 2) + std::sqrt(x[2]) + std::abs(-1.0f);",
        'assert(x[0] > 0); printf("%f\\n", x[0]);',
        "std::swap(x[0], x[1]);",
        'static_assert(std::is_same<float, float>::value, ""); uint u = 3; x[u] = 1;',
    ],
)
def test_our_own_standard_headers(compiled: Compile, body: str) -> None:
    includes = "cassert cfloat climits cmath cstdint cstdio algorithm limits type_traits utility"
    text = "".join(f"#include <{name}>\n" for name in includes.split())
    assert isinstance(compiled(f"{text}__global__ void k(float* x) {{ {body} }}"), CompiledKernel)


CONSTANTS = """
CHAR_BIT SCHAR_MIN SCHAR_MAX UCHAR_MAX SHRT_MIN SHRT_MAX USHRT_MAX INT_MIN INT_MAX UINT_MAX LONG_MIN
LONG_MAX ULONG_MAX LLONG_MIN LLONG_MAX ULLONG_MAX FLT_EPSILON FLT_MIN FLT_MAX FLT_MANT_DIG FLT_DIG
FLT_MAX_EXP FLT_MIN_EXP FLT_MAX_10_EXP FLT_TRUE_MIN DBL_EPSILON DBL_MIN DBL_MAX DBL_MANT_DIG DBL_DIG
DBL_MAX_EXP DBL_MIN_EXP DBL_TRUE_MIN INT8_MIN INT8_MAX UINT8_MAX INT16_MIN INT16_MAX UINT16_MAX
INT32_MIN INT32_MAX UINT32_MAX INT64_MIN INT64_MAX UINT64_MAX SIZE_MAX M_PI M_E M_LN2 M_LN10 M_SQRT2
M_SQRT1_2 M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_LOG2E M_LOG10E RAND_MAX EXIT_FAILURE
"""


def test_constants_of_our_own_headers_are_right(pool: CompilePool, toolchain: Toolchain, tmp_path: Path) -> None:
    """Every limit and constant equals the host compiler's."""
    names = CONSTANTS.split()
    includes = ("cfloat", "climits", "cmath", "cstdint", "cstdlib", "cstdio")
    host = "".join(f"#include <{name}>\n" for name in includes)
    host += "int main() {\n" + "".join(
        f'printf("{name} %zu %a %lld\\n", sizeof({name}), double({name}), (long long)({name} > 1e30 ? 0 : {name}));\n'
        for name in names
    )
    compiler = toolchain.path("g++")
    if compiler is None:
        pytest.skip("needs g++")
    (tmp_path / "host.cpp").write_text(host + "}\n")
    subprocess.run([compiler, "-w", "-o", str(tmp_path / "host"), str(tmp_path / "host.cpp")], check=True)
    lines = subprocess.run([str(tmp_path / "host")], check=True, capture_output=True, text=True).stdout.splitlines()
    asserts = ""
    for line in lines:
        name, size, value, whole = line.split()
        asserts += f'static_assert(sizeof({name}) == {size} && double({name}) == {value}, "{name}");\n'
        asserts += f'static_assert({name} > 1e30 || (long long)({name}) == {whole}ll, "{name}");\n'.replace(
            "-9223372036854775808ll", "(-9223372036854775807ll - 1)"
        )
    text = "#include <cfloat>\n#include <climits>\n#include <cmath>\n#include <cstdint>\n#include <cstdlib>\n"
    request = request_for(f"{text}__global__ void k() {{\n{asserts}}}")
    assert not isinstance(request, Failure)
    result = pool.compile(request)
    assert isinstance(result, CompiledKernel), result


HEAVY = """#include <cooperative_groups.h>
__global__ void k(int* x) {{ x[0] = {} + cooperative_groups::this_grid().size(); }}"""


def test_headers_of_nvidia_are_precompiled_for_later_variants(toolchain: Toolchain) -> None:
    with CompilePool(toolchain, workers=2) as pool:
        seconds = []
        for number in range(4):
            request = request_for(HEAVY.format(number))
            assert not isinstance(request, Failure)
            result = pool.compile(request)
            assert isinstance(result, CompiledKernel), result
            assert result.compiler.startswith("NVRTC")
            seconds.append(result.seconds)
    assert max(seconds[1:]) < 0.6 * seconds[0]


@pytest.mark.parametrize(
    "text",
    [
        "#include <cuda_fp16.h>\n__global__ void k(__half* x) { x[0] = __hadd(x[1], __float2half(1.0f)); }",
        "#include <cuda_bf16.h>\n__global__ void k(__nv_bfloat16* x) { x[0] = x[1]; }",
        "#include <mma.h>\nusing namespace nvcuda;\n__global__ void k(float* x) {\n"
        "  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\n  wmma::fill_fragment(c, 1.0f);\n"
        "  wmma::store_matrix_sync(x, c, 16, wmma::mem_row_major);\n}",
        "#include <cooperative_groups.h>\n#include <cstdint>\n#include <limits>\n#include <algorithm>\n"
        "namespace cg = cooperative_groups;\n__global__ void k(int64_t* x) {\n"
        "  x[0] = cg::this_thread_block().size() + std::numeric_limits<int>::max();\n}",
    ],
)
def test_nvidias_own_headers(compiled: Compile, text: str) -> None:
    result = compiled(text)
    assert isinstance(result, CompiledKernel), result


def test_project_headers_and_their_lines(compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "a.cuh").write_text("#pragma once\n#include <vector>\n__device__ int f() { return 1; }\n")
    text = '#include "a.cuh"\n#include "a.cuh"\n__global__ void k(int* x) { *x = f(); }\n'
    assert isinstance(compiled(text, path=str(tmp_path / "m.cu")), CompiledKernel)
    (tmp_path / "a.cuh").write_text("#pragma once\n#include <vector>\n__device__ int f() { return oops; }\n")
    failure = compiled(text, path=str(tmp_path / "m.cu"))
    assert isinstance(failure, Failure)
    assert (failure.file, failure.line) == (str(tmp_path / "a.cuh"), 3)
    assert "oops" in failure.message


def test_an_error_names_its_line(compiled: Compile) -> None:
    failure = compiled("int main() {}\n\n__global__ void k(float* x) {\n  x[0] = undefined_name;\n}\n")
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.file, failure.line) == ("compile-error", "file.cu", 4)
    assert 'identifier "undefined_name" is undefined' in failure.message


def test_a_missing_header_is_named_only_if_something_of_it_is_missed(compiled: Compile) -> None:
    assert isinstance(compiled("#include <mpi.h>\n__global__ void k(float* x) {}"), CompiledKernel)
    failure = compiled('#include "helper_math.h"\n__global__ void k(float* x) { x[0] = lerp(1, 2, 3); }')
    assert isinstance(failure, Failure)
    assert "helper_math.h" in failure.cure


def test_a_header_of_nvidias_that_is_not_installed_is_named(compiled: Compile, toolchain: Toolchain) -> None:
    if any((Path(folder) / "curand_kernel.h").exists() for folder in toolchain.include_folders):
        pytest.skip("cuRAND is installed here")
    text = "#include <curand_kernel.h>\n__global__ void k(float* x) { curandState s; *x = curand_uniform(&s); }"
    failure = compiled(text)
    assert isinstance(failure, Failure)
    assert "curand_kernel.h" in failure.message
    assert "-I" in failure.cure


def test_what_nvcc_still_takes(compiled: Compile) -> None:
    assert isinstance(compiled("__global__ void k(float* x) { register float a = x[0]; x[1] = a; }"), CompiledKernel)


def test_flags_reach_the_compiler(compiled: Compile) -> None:
    text = "__global__ void k(float* x) { x[0] = N; }"
    assert isinstance(compiled(text), Failure)
    assert isinstance(compiled(text, flags=("-DN=4",)), CompiledKernel)
    assert isinstance(
        compiled("__global__ void k(int* x) { if constexpr (true) *x = 1; }", flags=("-std=c++17",)), CompiledKernel
    )
    concept = "template <class T> concept C = true;\ntemplate <C T> __global__ void k(T* x) {}"
    assert isinstance(compiled(concept, arguments=("int",), flags=("-std=c++17",)), Failure)
    assert isinstance(compiled(concept, arguments=("int",), flags=("-std=c++20",)), CompiledKernel)
    divide = "__global__ void k(float* x) { x[0] = x[1] / x[2]; }"
    exact, fast = compiled(divide), compiled(divide, flags=("-use_fast_math",))
    assert isinstance(exact, CompiledKernel)
    assert isinstance(fast, CompiledKernel)
    assert len(fast.cubin) < len(exact.cubin)


def test_many_at_a_time_come_back_in_order(pool: CompilePool) -> None:
    texts = [f"__global__ void k(float* x) {{ x[{n}] = {n}; }}" for n in range(12)] + ["__global__ void k() { bad; }"]
    requests = [request for text in texts if not isinstance(request := request_for(text), Failure)]
    results = pool.compile_many(requests)
    assert [isinstance(result, CompiledKernel) for result in results] == [True] * 12 + [False]
    cubins = [result.cubin for result in results if isinstance(result, CompiledKernel)]
    assert len(set(cubins)) == 12
    again = pool.compile(requests[3])
    assert isinstance(again, CompiledKernel)
    assert again.cubin == cubins[3]


# ------------------------------------------------------------------------------------------ store


def test_what_was_compiled_is_not_compiled_again(toolchain: Toolchain, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    good, bad = request_for(SAXPY), request_for("__global__ void k() { oops; }")
    other = request_for(SAXPY, flags=("-DX",))
    assert not isinstance(good, Failure)
    assert not isinstance(bad, Failure)
    assert not isinstance(other, Failure)
    with (
        Store.open(folder / "s.sqlite", secret_path=folder / "key") as store,
        CompilePool(toolchain, 1, store) as pool,
    ):
        first = pool.compile(good)
        failure = pool.compile(bad)
    with (
        Store.open(folder / "s.sqlite", secret_path=folder / "key") as store,
        CompilePool(toolchain, 1, store) as pool,
    ):
        second = pool.compile(good)
        assert pool.compile(bad) == failure
        assert pool.is_confined is None  # no compiler was started
        third = pool.compile(other)
        assert pool.is_confined is not None
    assert isinstance(first, CompiledKernel)
    assert isinstance(second, CompiledKernel)
    assert isinstance(third, CompiledKernel)
    assert (first.cached, second.cached, third.cached) == (False, True, False)
    assert (second.cubin, second.resources, second.lowered_name) == (first.cubin, first.resources, first.lowered_name)


# ------------------------------------------------------------------------- without a tool, closing


def without(toolchain: Toolchain, *names: str) -> Toolchain:
    gone = {name: Tool(name, None, None, f"{name} is gone", f"get {name}") for name in names}
    return Toolchain({**toolchain.tools, **gone})


def test_nvcc_is_the_fallback(toolchain: Toolchain) -> None:
    if toolchain.path("nvcc") is None:
        pytest.skip("needs nvcc (extra `cuda`)")
    request, bad = request_for(SAXPY), request_for("#include <mpi.h>\n\n__global__ void k(float* x) { x[0] = nope; }")
    assert not isinstance(request, Failure)
    assert not isinstance(bad, Failure)
    with CompilePool(without(toolchain, "nvrtc")) as pool:
        result = pool.compile(request)
        assert isinstance(result, CompiledKernel), result
        assert result.compiler.startswith("nvcc 13")
        assert (result.lowered_name, result.resources.architecture) == ("_Z1kPffi", "sm_90")
        failure = pool.compile(bad)
        assert isinstance(failure, Failure)
        assert (failure.kind, failure.line) == ("compile-error", 3)
        assert "nope" in failure.message
        assert "mpi.h" in failure.cure


def test_no_compiler_at_all_is_said(toolchain: Toolchain) -> None:
    request = request_for(SAXPY)
    assert not isinstance(request, Failure)
    failure = CompilePool(without(toolchain, "nvrtc", "nvcc")).compile(request)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cure) == ("missing-tool", "get nvrtc")


def test_a_library_that_is_none_is_a_missing_tool(toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "libnvrtc.so.13").write_text("not a library")
    broken = Toolchain({**toolchain.tools, "nvrtc": Tool("nvrtc", str(tmp_path / "libnvrtc.so.13"), "13.0")})
    request = request_for(SAXPY)
    assert not isinstance(request, Failure)
    with CompilePool(broken) as pool:
        failure = pool.compile(request)
    assert isinstance(failure, Failure)
    assert failure.kind == "missing-tool"


def test_a_closed_pool_is_cancelled_and_leaves_nothing(toolchain: Toolchain) -> None:
    request = request_for(SAXPY)
    assert not isinstance(request, Failure)
    pool = CompilePool(toolchain)
    pool.compile(request)
    servers = children_named("compile_server.py", os.getpid())
    assert len(servers) >= 1
    connection = pool._connection
    assert connection is not None
    scratch = connection.scratch
    pool.close()
    pool.close()
    wait_until(lambda: not os.path.exists(scratch))
    failure = pool.compile(request)
    assert isinstance(failure, Failure)
    assert failure.kind == "cancelled"


def test_a_server_that_is_killed_is_replaced(toolchain: Toolchain) -> None:
    request = request_for(SAXPY)
    assert not isinstance(request, Failure)
    with CompilePool(toolchain) as pool:
        assert isinstance(pool.compile(request), CompiledKernel)
        connection = pool._connection
        assert connection is not None
        os.kill(connection._process.pid, signal.SIGKILL)
        assert isinstance(pool.compile(request), CompiledKernel)


PARENT = """
import sys, time
from optiml_core.toolchain import CompilePool, discover
from tests.toolchain.conftest import request_for
bomb = "template <int N, long M> struct S { static const long v = S<N - 1, 2 * M>::v + S<N - 1, 2 * M + 1>::v; };" \\
       "template <long M> struct S<0, M> { static const long v = M; };" \\
       "__global__ void k(long* x) { *x = S<40, 1>::v; }"
pool = CompilePool(discover(), 2)
request = request_for("__global__ void k() {}")
pool.compile(request)
import threading
threading.Thread(target=lambda: pool.compile(request_for(bomb)), daemon=True).start()
{nvcc}
time.sleep(0.4)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "nvcc", ["", "threading.Thread(target=lambda: pool.compile_with_nvcc(request_for(bomb))).start()"]
)
def test_killing_the_parent_leaves_no_child(nvcc: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT.replace("{nvcc}", nvcc)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    assert parent.stdout.readline() == "ready\n"
    family = descendants(parent.pid)
    assert len(family) >= 2  # the server and the child that compiles
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(alive(process) for process in family))


def descendants(process: int) -> set[int]:
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            chain, at = [], int(entry.name)
            while at > 1 and at != process:
                chain.append(at)
                at = parent_of(at)
            if at == process:
                found.update(chain)
    return found


def parent_of(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_named(script: str, parent: int) -> list[int]:
    return [
        process
        for process in descendants(parent)
        if script in Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    ]


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_threads_share_a_pool(pool: CompilePool) -> None:
    results: list[object] = []

    def work(number: int) -> None:
        request = request_for(f"__global__ void k(int* x) {{ *x = {number}; }}")
        assert not isinstance(request, Failure)
        results.append(pool.compile(request))

    threads = [threading.Thread(target=work, args=(100 + number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(result, CompiledKernel) for result in results)
    assert len(results) == 6


def test_the_system_keeps_the_compiler_confined_where_it_can(pool: CompilePool, compiled: Compile) -> None:
    assert isinstance(compiled(SAXPY), CompiledKernel)
    assert pool.is_confined == (landlock_version() > 0)


def test_limits_are_part_of_the_request() -> None:
    request = request_for(SAXPY, limits=CompileLimits(cpu_seconds=1))
    assert not isinstance(request, Failure)
    assert request.limits.cpu_seconds == 1


def test_a_process_that_does_not_close_its_pool_tidies_up(tmp_path: Path) -> None:
    code = (
        "from optiml_core.toolchain import CompilePool, discover\n"
        "from tests.toolchain.conftest import request_for\n"
        "pool = CompilePool(discover(), 1)\n"
        "print(type(pool.compile(request_for('__global__ void k() {}'))).__name__)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "CompiledKernel\n"
    assert ran.returncode == 0
    # The server ends when its pipe does, a moment after its parent.
    end = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
