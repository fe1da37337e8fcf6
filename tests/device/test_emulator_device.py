"""EmulatorDevice from text to results: plain kernels, their faults, their counts, their failures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Array, Built, Contents, RunOptions, RunResult
from optiml_core.records import (
    BufferArgument,
    BufferContent,
    Failure,
    Launch,
    ScalarArgument,
    Step,
    StructField,
    Variant,
)
from optiml_core.source import element_type_of

ADD = """
#include <cstdio>
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
int main() { add<<<1, 1>>>(nullptr, nullptr, nullptr, 0); printf("host\\n"); }
"""


def element(spelling: str) -> Any:
    found = element_type_of(spelling)
    assert found is not None, spelling
    return found


def built(device: EmulatorDevice, text: str, kernel: str, *arguments: str, steps: tuple[Step, ...] = ()) -> Built:
    result = device.build(Variant("kernel.cu", text.encode(), kernel, steps=steps), arguments)
    assert isinstance(result, Built), result
    return result


def launch_of(
    buffers: Mapping[str, tuple[str, Array]],
    scalars: Mapping[str, tuple[str, Any]],
    grid: int = 1,
    block: int = 32,
    **more: Any,
) -> Launch:
    arguments = [
        BufferArgument(name, element(kind), len(array), BufferContent("normal"))
        for name, (kind, array) in buffers.items()
    ]
    values = [ScalarArgument(name, element(kind), value) for name, (kind, value) in scalars.items()]
    return Launch((grid, 1, 1), (block, 1, 1), more.pop("shared", 0), (*arguments, *values), **more)


def ran(device: EmulatorDevice, build: Built, launch: Launch, contents: Contents, **options: Any) -> RunResult:
    result = device.run(build, launch, contents, RunOptions(**options))
    assert isinstance(result, RunResult), result
    return result


def add_case(n: int, claimed: int | None = None) -> tuple[Launch, Contents]:
    random = np.random.default_rng(n)
    arrays = {name: random.normal(size=n).astype("f4") for name in "ab"} | {"c": np.full(n, np.nan, "f4")}
    buffers = {name: ("float", array) for name, array in arrays.items()}
    scalars = {"n": ("int", n if claimed is None else claimed)}
    return launch_of(buffers, scalars, grid=-(-max(n, 1) // 64), block=64), Contents(arrays)


@pytest.mark.parametrize("n", [1, 31, 64, 1000])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_plain_kernel_computes_what_numpy_does(device: EmulatorDevice, n: int, offset: int) -> None:
    launch, contents = add_case(n)
    result = ran(device, built(device, ADD, "add"), launch, evolve(contents, offset_elements=offset))
    np.testing.assert_array_equal(result.buffers["c"], contents.buffers["a"] + contents.buffers["b"])
    np.testing.assert_array_equal(result.buffers["a"], contents.buffers["a"])
    assert result.faults == ()
    assert result.guards_intact


def test_one_past_the_end_is_a_fault_at_its_line(device: EmulatorDevice) -> None:
    launch, contents = add_case(100, claimed=101)
    result = ran(device, built(device, ADD, "add"), launch, contents)
    fault = result.faults[0]
    assert (fault.kind, fault.line, fault.block, fault.thread) == ("out-of-bounds", 5, (1, 0, 0), (36, 0, 0))
    assert fault.buffer in ("a", "b")


def test_counts_are_per_line_and_buffer(device: EmulatorDevice) -> None:
    launch, contents = add_case(256)
    result = ran(device, built(device, ADD, "add"), launch, contents, counts=True)
    seen = {(a.line, a.kind, a.buffer): (a.requests, a.sectors, a.bytes) for a in result.accesses}
    assert seen == {
        (5, "load", "a"): (8, 32, 1024),
        (5, "load", "b"): (8, 32, 1024),
        (5, "store", "c"): (8, 32, 1024),
    }


def test_a_subset_of_the_blocks(device: EmulatorDevice) -> None:
    launch, contents = add_case(256)
    result = ran(device, built(device, ADD, "add"), launch, contents, counts=True, blocks=(1, 3))
    written = ~np.isnan(result.buffers["c"])
    assert written[64:128].all()
    assert written[192:].all()
    assert written.sum() == 128


def test_two_runs_use_other_addresses(device: EmulatorDevice) -> None:
    text = "__global__ void where(float** out, float* x) { out[0] = x; }"
    build = built(device, text, "where")
    x = np.zeros(4, "f4")
    seen = set()
    for _ in range(3):
        launch = launch_of({"out": ("unsigned long long", np.zeros(1, "u8")), "x": ("float", x)}, {}, block=1)
        result = ran(device, build, launch, Contents({"out": np.zeros(1, "u8"), "x": x}))
        seen.add(int(result.buffers["out"][0]))
    assert len(seen) == 3
    assert all(address % 256 == 0 for address in seen)


def test_in_place_by_alias(device: EmulatorDevice) -> None:
    launch, contents = add_case(50)
    result = ran(device, built(device, ADD, "add"), launch, evolve(contents, aliases={"c": "a"}))
    np.testing.assert_array_equal(result.buffers["c"], contents.buffers["a"] + contents.buffers["b"])
    np.testing.assert_array_equal(result.buffers["a"], result.buffers["c"])


GLOBALS = """
namespace weights { __constant__ float table[4]; }
__device__ int calls;
__global__ void use(float* out) {
  out[threadIdx.x] = weights::table[threadIdx.x] * 2;
  if (threadIdx.x == 0) calls = calls + 1;
}
"""


def test_globals_are_filled_and_module_state_is_kept(device: EmulatorDevice) -> None:
    build = built(device, GLOBALS, "use")
    table = np.array([1, 2, 3, 4], "f4")
    calls = np.zeros(1, "i4")
    out = np.zeros(4, "f4")
    constant = BufferArgument("table", element("float"), 4, BufferContent("normal"))
    counter = BufferArgument("calls", element("int"), 1, BufferContent("zeros"))
    launch = launch_of({"out": ("float", out)}, {}, block=4, globals=(constant, counter))
    result = ran(device, build, launch, Contents({"out": out, "table": table, "calls": calls}))
    np.testing.assert_array_equal(result.buffers["out"], table * 2)
    assert result.buffers["calls"][0] == 1
    assert result.faults == ()


TYPES = """
typedef unsigned char byte;
struct Shape { int rows; double scale; float2 offset[2]; bool on; };
enum Mode : short { OFF, ON };
template <typename Real, int N>
__global__ void types(double* out, Shape shape, Real r, byte b, Mode mode, bool flag, long long big, float4 v) {
  out[0] = shape.rows; out[1] = shape.scale; out[2] = shape.offset[1].y; out[3] = shape.on;
  out[4] = r; out[5] = b; out[6] = mode; out[7] = flag; out[8] = (double)big; out[9] = v.z; out[10] = N;
}
"""


def test_scalars_of_every_sort(device: EmulatorDevice) -> None:
    build = built(device, TYPES, "types", "float", "7")
    out = np.zeros(11)
    members = (
        StructField("rows", element("int"), 0),
        StructField("scale", element("double"), 8),
        StructField("offset", element("float2"), 16, 2),
        StructField("on", element("bool"), 32),
    )
    shape = evolve(element("double"), spelling="Shape", dtype="", size=40, fields=members)
    value = {"rows": 3, "scale": 0.25, "offset": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "on": True}
    launch = launch_of(
        {"out": ("double", out)},
        {"r": ("float", 1.5), "b": ("unsigned char", 200), "mode": ("short", 1), "flag": ("bool", True)}
        | {"big": ("long long", -(1 << 40)), "v": ("float4", {"x": 1, "y": 2, "z": 3, "w": 4})},
        block=1,
    )
    launch = evolve(
        launch, arguments=(launch.arguments[0], ScalarArgument("shape", shape, value), *launch.arguments[1:])
    )
    result = ran(device, build, launch, Contents({"out": out}))
    assert result.buffers["out"].tolist() == [3, 0.25, 4, 1, 1.5, 200, 1, 1, -(1 << 40), 3, 7]


FLAGS = {
    "definition": (("-DFACTOR=3",), "x[0] = FACTOR;", 3),
    "definition without a value": (("-DON",), "x[0] = ON;", 1),
    "undefinition": (("-DON", "-UON"), "\n#ifdef ON\nx[0] = 1;\n#else\nx[0] = 2;\n#endif\n", 2),
    "architecture": (("-arch=sm_80",), "x[0] = __CUDA_ARCH__;", 800),
    "no architecture": ((), "x[0] = __CUDA_ARCH__ >= 750;", 1),
    "standard": (("-std=c++20",), "x[0] = __cplusplus >= 202002L;", 1),
    "default standard": ((), "x[0] = __cplusplus == 201703L;", 1),
}


@pytest.mark.parametrize("name", FLAGS)
def test_compile_flags(device: EmulatorDevice, name: str) -> None:
    flags, body, expected = FLAGS[name]
    text = f"__global__ void k(int* x) {{ {body} }}"
    result = device.build(Variant("kernel.cu", text.encode(), "k", flags))
    assert isinstance(result, Built), result
    x = np.zeros(1, "i4")
    assert (
        ran(device, result, launch_of({"x": ("int", x)}, {}, block=1), Contents({"x": x})).buffers["x"][0] == expected
    )


DYNAMIC = {
    "in the kernel": ("", "extern __shared__ int line[];"),
    "at file scope": ("extern __shared__ int line[];", ""),
    "in a namespace": ("namespace memory {\nextern __shared__ __align__(16) int line[];\n}\nusing memory::line;", ""),
    "in extern C": ('extern "C" {\nextern __shared__ int line[];\n}', ""),
    "as bytes": ("extern __shared__ unsigned char raw[];", "int* line = (int*)raw;"),
    "words in another order": ("", "__shared__ extern int line[];"),
    "type first": ("", "extern int __shared__ line[];"),
    "alignas": ("", "extern __shared__ alignas(alignof(int4)) int line[];"),
    "static with alignas": ("", "__shared__ alignas(16) int line[96];"),
    "volatile": ("extern volatile __shared__ int line[];", ""),
    "in a function": ("__device__ int* get() { extern __shared__ int row[]; return row; }", "int* line = get();"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_shared_memory_and_barriers(device: EmulatorDevice, name: str) -> None:
    before, inside = DYNAMIC[name]
    text = f"""{before}
    __global__ void reverse(int* x) {{
      {inside}
      line[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      x[threadIdx.x] = line[blockDim.x - 1 - threadIdx.x];
    }}"""
    x = np.arange(96, dtype="i4")
    launch = launch_of({"x": ("int", x)}, {}, block=96, shared=96 * 4)
    result = ran(device, built(device, text, "reverse"), launch, Contents({"x": x}))
    np.testing.assert_array_equal(result.buffers["x"], x[::-1])
    assert result.faults == ()


def test_template_arguments_may_be_macros_and_constants(device: EmulatorDevice) -> None:
    text = """
    #define TIMES 3
    constexpr int shift = 1 << 2;
    struct Pair { int a, b; };
    template <typename T, int N, int M> __global__ void k(int* x) { x[0] = sizeof(T) * 100 + N * 10 + M; }"""
    build = built(device, text, "k", "Pair", "TIMES", "shift")
    launch = launch_of({"x": ("int", np.zeros(1, "i4"))}, {}, block=1)
    assert ran(device, build, launch, Contents({"x": np.zeros(1, "i4")})).buffers["x"][0] == 834
    unknown = device.build(Variant("kernel.cu", text.encode(), "k"), ("Pair", "NOTHING", "1"))
    assert isinstance(unknown, Failure)
    assert "k<Pair, NOTHING, 1>" in unknown.message
    hostile = device.build(Variant("kernel.cu", text.encode(), "k"), ('int, 1, 1>; } void f() { asm(""); ', "1"))
    assert isinstance(hostile, Failure)
    assert hostile.kind == "bad-input"


CALLS = {
    "table of functions": (
        "typedef float (*F)(float);\n__device__ float twice(float a) { return 2 * a; }\n"
        "__device__ float half_of(float a) { return a / 2; }\n__device__ F table[2] = {twice, half_of};",
        "x[i] = table[i & 1](x[i]);",
    ),
    "virtual function": (
        "struct Any { __device__ virtual float f(float a) = 0; };\n"
        "struct Base : Any { __device__ float f(float a) override { return 2 * a; } };\n"
        "struct Derived : Base { __device__ float f(float a) override { return a / 2; } };",
        "Base b; Derived d; Base* p = i & 1 ? &d : &b; x[i] = p->f(x[i]);",
    ),
    "lambda as a pointer": (
        "",
        "float (*f)(float) = i & 1 ? (float (*)(float))[](float a) { return a / 2; } : [](float a) { return 2 * a; };"
        " x[i] = f(x[i]);",
    ),
    "switch": ("", "switch (i & 7) { case 1: case 3: case 5: case 7: x[i] /= 2; break; default: x[i] *= 2; }"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_through_pointers_reach_the_kernels_own_functions(device: EmulatorDevice, name: str) -> None:
    before, inside = CALLS[name]
    text = f"{before}\n__global__ void k(float* x) {{ int i = threadIdx.x; {inside} }}"
    x = np.arange(32, dtype="f4")
    result = ran(device, built(device, text, "k"), launch_of({"x": ("float", x)}, {}), Contents({"x": x}))
    np.testing.assert_array_equal(result.buffers["x"], np.where(np.arange(32) % 2 == 0, 2 * x, x / 2))


def test_a_recursive_forceinline_function(device: EmulatorDevice) -> None:
    text = """
    __device__ __forceinline__ int sum(int n) { return n == 0 ? 0 : n + sum(n - 1); }
    __global__ void k(int* x) { x[0] = sum(x[0]); }"""
    x = np.array([10], "i4")
    result = ran(device, built(device, text, "k"), launch_of({"x": ("int", x)}, {}, block=1), Contents({"x": x}))
    assert result.buffers["x"][0] == 55


def test_an_explicit_specialisation_and_a_template_without_arguments(device: EmulatorDevice) -> None:
    text = """
    template <typename T> __global__ void k(T* x) { x[0] = 1; }
    template <> __global__ void k<int>(int* x) { x[0] = 2; }"""
    x = np.zeros(1, "i4")
    for kernel, arguments in (("k<int>", ()), ("k", ("int",))):
        result = ran(
            device,
            built(device, text, kernel, *arguments),
            launch_of({"x": ("int", x)}, {}, block=1),
            Contents({"x": x}),
        )
        assert result.buffers["x"][0] == 2
    unknown = device.build(Variant("kernel.cu", text.encode(), "k"))
    assert isinstance(unknown, Failure)
    assert unknown.kind == "unsupported"
    assert "template" in unknown.message


LOCAL = {
    "local array": "int a[4]; for (int j = 0; j < 4; j++) a[j] = j; a[n] = 9; x[0] = a[1] + a[n & 3];",
    "member array": "struct { int a[4]; int b; } s = {}; s.a[n] = 9; x[0] = s.b + s.a[n & 3];",
    "row of a local matrix": "int a[2][3] = {}; a[0][n] = 9; x[0] = a[1][n & 1];",
}


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("index", [2, 4, -1])
def test_a_local_array_indexed_outside(device: EmulatorDevice, name: str, index: int) -> None:
    text = f"__global__ void k(int* x, int n) {{\n{LOCAL[name]}\n}}"
    x = np.zeros(1, "i4")
    launch = launch_of({"x": ("int", x)}, {"n": ("int", index)}, block=1)
    result = ran(device, built(device, text, "k"), launch, Contents({"x": x}))
    faults = [(fault.kind, fault.line) for fault in result.faults if "array" in fault.note]
    assert faults == ([] if index == 2 else [("out-of-bounds", 2)])


BAD_TEXTS = {
    "type error": ("__global__ void k(float* x) {\n  x[0] = nothing;\n}", "compile-error", 2),
    "missing kernel": ("__global__ void other(float* x) {}", "bad-input", None),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_text_is_a_failure_with_its_line(device: EmulatorDevice, name: str) -> None:
    text, kind, line = BAD_TEXTS[name]
    failure = device.build(Variant("kernel.cu", text.encode(), "k"))
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.line) == (kind, line)


BAD_LAUNCHES = {
    "too few arguments": lambda launch, contents: (evolve(launch, arguments=launch.arguments[:3]), contents),
    "a scalar for a pointer": lambda launch, contents: (
        evolve(launch, arguments=(launch.arguments[3], *launch.arguments[1:3], launch.arguments[3])),
        contents,
    ),
    "a buffer for a scalar": lambda launch, contents: (
        evolve(launch, arguments=(*launch.arguments[:3], launch.arguments[0])),
        contents,
    ),
    "missing contents": lambda launch, contents: (launch, Contents({"a": contents.buffers["a"]})),
    "alias of nothing": lambda launch, contents: (launch, evolve(contents, aliases={"a": "z"})),
}


@pytest.mark.parametrize("name", BAD_LAUNCHES)
def test_a_launch_that_does_not_fit_is_bad_input(device: EmulatorDevice, name: str) -> None:
    build = built(device, ADD, "add")
    launch, contents = BAD_LAUNCHES[name](*add_case(10))
    failure = device.run(build, launch, contents)
    assert isinstance(failure, Failure), failure
    assert failure.kind == "bad-input"
    ran(device, build, *add_case(10))  # the device stays usable


WIDENED = """
struct Scale { float by; int shift; };
__constant__ float weights[2];
__global__ void k(const float* x, const double* d, float* y, double* e, Scale scale, float add, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] * scale.by + add + weights[scale.shift];
  e[i] = d[i] / 3.0;
}
"""


def test_the_widened_build_computes_in_wider_types(device: EmulatorDevice) -> None:
    result = device.build(Variant("kernel.cu", WIDENED.encode(), "k"), (), True)
    assert isinstance(result, Built), result
    scale = evolve(
        element("float"),
        spelling="Scale",
        dtype="",
        size=8,
        fields=(StructField("by", element("float"), 0), StructField("shift", element("int"), 4)),
    )
    x, d = np.array([0.1, 1e-9, 3.0]), np.array([1, 2, 4], np.longdouble)
    arrays: dict[str, Array] = {
        "x": x, "d": d, "y": np.zeros(3), "e": np.zeros(3, np.longdouble), "weights": np.array([0.5, 1e-12]),
    }  # fmt: skip
    launch = launch_of(
        {"x": ("float", x), "d": ("double", d), "y": ("float", x), "e": ("double", d)},
        {"add": ("float", 1.0), "n": ("int", 3)},
        globals=(BufferArgument("weights", element("float"), 2, BufferContent("normal")),),
    )
    values = ScalarArgument("scale", scale, {"by": 2.0, "shift": 1})
    launch = evolve(launch, arguments=(*launch.arguments[:4], values, *launch.arguments[4:]))
    run = ran(device, result, launch, Contents(arrays))
    assert run.faults == ()
    np.testing.assert_array_equal(run.buffers["y"], x * 2.0 + 1.0 + 1e-12)
    np.testing.assert_array_equal(run.buffers["e"], d / np.longdouble(3))


def test_buffers_beyond_the_memory_limit_are_a_failure(device: EmulatorDevice) -> None:
    launch, contents = add_case(1 << 20)
    failure = device.run(built(device, ADD, "add"), launch, contents, RunOptions(memory=8 << 20))
    assert isinstance(failure, Failure)
    assert failure.kind == "out-of-memory"


def test_two_threads_share_a_device(device: EmulatorDevice) -> None:
    cases = [add_case(n) for n in range(1, 60)]
    build = built(device, ADD, "add")

    def one(case: tuple[Launch, Contents]) -> bool:
        launch, contents = case
        result = ran(device, build, launch, contents, counts=True)
        return bool((result.buffers["c"] == contents.buffers["a"] + contents.buffers["b"]).all()) and not result.faults

    with ThreadPoolExecutor(max_workers=3) as pool:
        assert all(pool.map(one, cases))


def test_a_forked_child_is_told_to_open_its_own_device(device: EmulatorDevice) -> None:
    build = built(device, ADD, "add")
    launch, contents = add_case(5)
    ran(device, build, launch, contents)
    child = os.fork()
    if child == 0:
        result = device.run(build, launch, contents)
        os._exit(0 if isinstance(result, Failure) else 1)
    assert os.waitpid(child, 0)[1] == 0
    ran(device, build, launch, contents)  # the parent's workers are untouched


def test_module_variables_keep_what_the_last_run_left(device: EmulatorDevice) -> None:
    """So a candidate that remembers its first answer is seen to give it again for other contents."""
    text = """
    __device__ int known; __device__ int answer;
    __global__ void k(const int* x, int* y) { if (!known) { known = 1; answer = 2 * x[0]; } y[0] = answer; }"""
    build = built(device, text, "k")
    answers = []
    for value, fresh in ((5, False), (7, False), (7, True)):
        if fresh:
            device.forget(build)
        x, y = np.array([value], "i4"), np.zeros(1, "i4")
        launch = launch_of({"x": ("int", x), "y": ("int", y)}, {}, block=1)
        answers.append(int(ran(device, build, launch, Contents({"x": x, "y": y})).buffers["y"][0]))
    assert answers == [10, 10, 14]
