"""What is kept of a file and what is blanked. ``|`` at the start of a line of a case is its first column."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import DeviceSlice, device_slice


def slice_of(text: str, kernel: str = "k", path: str = "file.cu", **options: object) -> DeviceSlice | Failure:
    unit = parse(SourceFile(path, text.encode()))
    found = next(found for found in unit.kernels if found.name == kernel)
    return device_slice(unit, found, "nvrtc", **options)  # type: ignore[arg-type]


def check(before: str, after: str, kernel: str = "k", **options: object) -> None:
    result = slice_of(before, kernel, **options)
    assert isinstance(result, DeviceSlice), result
    assert len(result.text.splitlines()) == len(before.splitlines())
    squeezed = [" ".join(line.split()) for line in result.text.split("\n")]
    assert squeezed == [" ".join(line.split()) for line in after.split("\n")]


KERNEL = "__global__ void k(float* x) { x[0] = 1; }"

CASES: dict[str, tuple[str, str]] = {
    "host code goes, lines stay": (
        f"#include <vector>\nstd::vector<float> v;\nint main() {{\n  k<<<1, 1>>>(v.data());\n}}\n{KERNEL}",
        f"\n\n\n\n\n{KERNEL}",
    ),
    "a device function that is called stays, one that is not goes": (
        "__device__ int f(int a) { return g(a); }\n__device__ int g(int a) { return a; }\n"
        "__device__ int h() { return 1; }\n"
        "__global__ void k(int* x) { *x = f(1); }",
        "__device__ int f(int a) { return g(a); }\n__device__ int g(int a) { return a; }\n\n"
        "__global__ void k(int* x) { *x = f(1); }",
    ),
    "another kernel goes": (f"__global__ void other() {{}}\n{KERNEL}", f"\n{KERNEL}"),
    "a forward declaration stays": (
        f"__global__ void k(float* x);\nvoid host(float* x);\n{KERNEL}",
        f"__global__ void k(float* x);\n\n{KERNEL}",
    ),
    "constants, types and aliases that are used": (
        "const int N = 4;\nconst int M = 5;\nstruct P { int a; };\nstruct Q { std::string s; };\nusing R = P;\n"
        "typedef float real;\n__constant__ float c[N];\nfloat* d_x;\nenum { A, B };\n"
        "__global__ void k(R r, real* x) { *x = c[B] + r.a; }",
        "const int N = 4;\n\nstruct P { int a; };\n\nusing R = P;\n"
        "typedef float real;\n__constant__ float c[N];\n\nenum { A, B };\n"
        "__global__ void k(R r, real* x) { *x = c[B] + r.a; }",
    ),
    "macros stay and pull in what they name": (
        "#define SCALE(v) (factor * (v))\n__constant__ float factor;\n__global__ void k(float* x) { *x = SCALE(*x); }",
        "#define SCALE(v) (factor * (v))\n__constant__ float factor;\n__global__ void k(float* x) { *x = SCALE(*x); }",
    ),
    "qualifiers hidden in macros": (
        "#define DEVICE __device__ __forceinline__\n#define HD __host__ DEVICE\nHD int f() { return 1; }\n"
        "int g() { return 2; }\n__global__ void k(int* x) { *x = f() + g; }",
        "#define DEVICE __device__ __forceinline__\n#define HD __host__ DEVICE\nHD int f() { return 1; }\n"
        "\n__global__ void k(int* x) { *x = f() + g; }",
    ),
    "namespaces stay open and closed": (
        'namespace a { namespace {\nvoid host() { b(); }\n__global__ void k() {}\n} }\nextern "C" {\nvoid h() {}\n}',
        'namespace a { namespace {\n\n__global__ void k() {}\n} }\nextern "C" {\n\n}',
    ),
    "conditionals stay whole": (
        "#ifdef USE_DOUBLE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n#ifdef MPI\n#include <mpi.h>\n"
        "void host() {}\n#endif\n__global__ void k(real* x) {}",
        "#ifdef USE_DOUBLE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n#ifdef MPI\n\n"
        "\n#endif\n__global__ void k(real* x) {}",
    ),
    "braces that a conditional opens twice": (
        "__global__ void k(int* x) {\n#ifdef A\n  if (x[0]) {\n#else\n  if (x[1]) {\n#endif\n"
        "  x[2] = 1; }\n}\nint main() {}",
        "__global__ void k(int* x) {\n#ifdef A\n  if (x[0]) {\n#else\n  if (x[1]) {\n#endif\n  x[2] = 1; }\n}\n",
    ),
    "comments are blanked, strings are not": (
        '__global__ void k() { /* #include "x" */ printf("// %d /*", 1); // end\n}',
        '__global__ void k() { printf("// %d /*", 1);\n}',
    ),
    "inactive branches are blanked": (
        f"#if 0\n__device__ int k() {{}}\n#endif\n{KERNEL}",
        f"#if 0\n\n#endif\n{KERNEL}",
    ),
    "a host constructor goes from a type, device members stay": (
        "struct P {\n  P(std::string s) : a(s.size()) { std::cout << s; }\n  __device__ int f() { return a; }\n"
        '  public: void print();\n  int a;\n  P() = default;\n  struct I { void h() { puts(""); } int b; };\n};\n'
        "__global__ void k(P p) {}",
        "struct P {\n\n  __device__ int f() { return a; }\n"
        "  public:\n  int a;\n  P() = default;\n  struct I { int b; };\n};\n__global__ void k(P p) {}",
    ),
    "operators come along": (
        "__device__ float2 operator+(float2 a, float2 b) { return a; }\n"
        "std::ostream& operator<<(std::ostream& o, int i) {}\n"
        "__global__ void k(float2* x) { *x = *x + *x; }",
        "__device__ float2 operator+(float2 a, float2 b) { return a; }\n\n"
        "__global__ void k(float2* x) { *x = *x + *x; }",
    ),
    "template arguments of launches pull in functors": (
        "struct Add { __device__ float operator()(float a) { return a; } };\nstruct Mul {};\n"
        "template <class F> __global__ void k(F f) {}\nvoid h() { k<Add><<<1, 1>>>(Add()); }",
        "struct Add { __device__ float operator()(float a) { return a; } };\n\n"
        "template <class F> __global__ void k(F f) {}\n",
    ),
    "specialisations and partial ones": (
        "template <int N> struct V { float a[N]; };\ntemplate <> struct V<2> { float2 a; };\n"
        "template <class T, int N = sizeof(T) >= 4 ? 1 : 2> __device__ T f(T a) { return a; }\n"
        "template __global__ void k<2>(float*);\n"
        "template <int N> __global__ void k(float* x) { V<N> v; f(x); }",
        "template <int N> struct V { float a[N]; };\ntemplate <> struct V<2> { float2 a; };\n"
        "template <class T, int N = sizeof(T) >= 4 ? 1 : 2> __device__ T f(T a) { return a; }\n"
        "\n"
        "template <int N> __global__ void k(float* x) { V<N> v; f(x); }",
    ),
    "a global lambda and an initialised array": (
        "auto twice = [] __device__ (int a) { return 2 * a; };\nconstexpr int table[] = {1, 2};\nint host[] = {3};\n"
        "__global__ void k(int* x) { *x = table[1] + host[0]; }",
        "\nconstexpr int table[] = {1, 2};\n\n__global__ void k(int* x) { *x = table[1] + host[0]; }",
    ),
    "a macro that defines device functions": (
        "#define DEFINE(name, op) __device__ void do_##name(float* x) { x[0] op 1; }\nDEFINE(add, +=)\nint h;\n"
        "__global__ void k(float* x) { do_add(x); }",
        "#define DEFINE(name, op) __device__ void do_##name(float* x) { x[0] op 1; }\nDEFINE(add, +=)\n\n"
        "__global__ void k(float* x) { do_add(x); }",
    ),
    "another kernel of the same name goes, a specialisation stays": (
        "__global__ void k(float* x);\n__global__ void k(float* x) {}\n__global__ void k(int* x) {}\n"
        "template <class T> __global__ void k(T** x) {}",
        "\n__global__ void k(float* x) {}\n\n",
    ),
    "a specialisation of the kernel stays": (
        "template <class T> __global__ void k(T* x) {}\ntemplate <> __global__ void k<float>(float* x) {}",
        "template <class T> __global__ void k(T* x) {}\ntemplate <> __global__ void k<float>(float* x) {}",
    ),
    "a macro call without semicolon does not swallow what follows": (
        f"CHECK_HOST(int)\nREGISTER(foo, bar)\n{KERNEL}",
        f"\n\n{KERNEL}",
    ),
    "using namespace only of what is known": (
        f"using namespace std;\nusing namespace cv;\nnamespace own {{}}\nusing namespace own;\n{KERNEL}",
        f"using namespace std;\n\nnamespace own {{}}\nusing namespace own;\n{KERNEL}",
    ),
    "pragmas by list": (
        '#pragma GCC dependency "/etc/passwd"\n#pragma omp parallel\n__global__ void k() {\n'
        "#pragma unroll 4\nfor (;;) {}\n}",
        "\n\n__global__ void k() {\n#pragma unroll 4\nfor (;;) {}\n}",
    ),
    "#line and unknown directives are dropped": (
        f'#line 7 "a"\n#ident "x"\n#embed "/etc/passwd"\n{KERNEL}',
        f"\n\n\n{KERNEL}",
    ),
    "carriage returns stay": (f"int main() {{\r\n}}\r\n{KERNEL}\r\n", f"\r\n\r\n{KERNEL}\r\n"),
    "an unclosed brace": (f"{KERNEL}\nint main() {{ if (1) {{", f"{KERNEL}\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept(name: str) -> None:
    before, after = CASES[name]
    check(before, after)


# ------------------------------------------------------------------------------------------ includes


def test_headers_are_sorted_by_what_they_are_for(tmp_path: Path) -> None:
    result = slice_of(
        "#include <cuda_runtime.h>\n#include <cmath>\n#include <stdint.h>\n#include <cuda_fp16.h>\n"
        "#include <cub/cub.cuh>\n"
        "#include <mpi.h>\n__global__ void k(half* x) {}"
    )
    assert isinstance(result, DeviceSlice)
    # A header that is not there is taken to bring some of the standard ones along.
    assert result.standard_headers == ("cmath", "cstdint", "limits", "algorithm")
    assert result.cuda_headers == ("cuda_fp16.h",)
    assert result.dropped_includes == ("mpi.h",)
    assert result.text.strip() == "__global__ void k(half* x) {}"


def write(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder / "main.cu")


def test_headers_of_the_project_are_cut_the_same_way(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "inc/a.cuh": '#pragma once\n#include <vector>\n#include "../b.h"\nvoid host(std::vector<int>);\n'
            "__device__ int f() { return g(); }\n",
            "b.h": "#ifndef B_H\n#define B_H\n__device__ int g() { return 1; }\n"
            "__device__ int unused() { return 2; }\n#endif\n",
        },
    )
    text = '#include "inc/a.cuh"\n#include "b.h"\nint main() {}\n__global__ void k(int* x) { *x = f() + g(); }\n'
    result = slice_of(text, path=path)
    assert isinstance(result, DeviceSlice)
    assert [Path(header.path).name for header in result.headers] == ["a.cuh", "b.h"]
    flat = result.flattened()
    lines = [line for line in flat.splitlines() if line.strip()]
    assert lines == [
        f'#line 1 "{path}"',
        "#ifndef OPTIML_ONCE_OPTIML_1_A_CUH",
        "#define OPTIML_ONCE_OPTIML_1_A_CUH",
        f'#line 1 "{tmp_path}/inc/a.cuh"',
        f'#line 1 "{tmp_path}/b.h"',
        "#ifndef B_H",
        "#define B_H",
        "__device__ int g() { return 1; }",
        "#endif",
        f'#line 3 "{tmp_path}/inc/a.cuh"',
        "__device__ int f() { return g(); }",
        "#endif",
        f'#line 1 "{path}"',
        "__global__ void k(int* x) { *x = f() + g(); }",
    ]


def test_a_header_inside_a_function_is_kept_whole(tmp_path: Path) -> None:
    path = write(tmp_path, {"body.inc": "x[0] = TWO; // two\n"})
    result = slice_of('#define TWO 2\n__global__ void k(int* x) {\n#include "body.inc"\n}\n', path=path)
    assert isinstance(result, DeviceSlice)
    assert "x[0] = TWO;" in result.flattened()
    assert "// two" not in result.flattened()


@pytest.mark.parametrize("spelling", ['"common/x.cuh"', "<common/x.cuh>"])
def test_include_folders_come_from_the_flags(tmp_path: Path, spelling: str) -> None:
    write(tmp_path, {"lib/common/x.cuh": "__device__ int f() { return 1; }\n", "src/common.h": ""})
    text = f"#include {spelling}\n__global__ void k(int* x) {{ *x = f(); }}\n"
    path = str(tmp_path / "src" / "main.cu")
    for flag in (f"-I{tmp_path}/lib", f"-isystem={tmp_path}/lib"):
        result = slice_of(text, path=path, flags=(flag,))
        assert isinstance(result, DeviceSlice)
        assert [header.text.strip() for header in result.headers] == ["__device__ int f() { return 1; }"]
    result = slice_of(text, path=path)
    assert isinstance(result, DeviceSlice)
    assert result.headers == ()
    assert result.dropped_includes == ("common/x.cuh",)


# --------------------------------------------------------------------------------- hostile text


@pytest.mark.parametrize(
    "include",
    [
        '"/etc/passwd"',
        "</etc/passwd>",
        '"../../../../../../../../etc/passwd"',
        '"/dev/stdin"',
        '"fifo.h"',
        '"link.h"',
        '"secrets.txt"',
        '"x/../../../../../../../../etc/hostname"',
    ],
)
def test_includes_that_lead_elsewhere_are_refused(tmp_path: Path, include: str) -> None:
    path = write(tmp_path, {"secrets.txt": "token", "x/a.h": ""})
    os.mkfifo(tmp_path / "fifo.h")
    (tmp_path / "link.h").symlink_to("/etc/passwd")
    result = slice_of(f"int a;\n#include {include}\n{KERNEL}", path=path)
    assert isinstance(result, Failure)
    assert (result.kind, result.line) == ("refused", 2)


@pytest.mark.parametrize(
    "hidden",
    [
        '%: include "/etc/passwd"',
        '??=include "/etc/passwd"',
        'const char32_t q = u8\'"R"(\';\n#include "/etc/passwd"\n//)";',
        'int a = u8\'R"(\' ;\n#include "/etc/passwd"\n//)"',
        '/* x *\\\n/ \n#include "/etc/passwd"\n/* */',
        '%\\\n: include "/etc/passwd"',
        '#if __has_include("/etc/passwd")\n#endif',
        "#if __has_include(<../../etc/passwd>)\n#endif",
        '#define H __has_include\n#if H("/etc/passwd")\n#endif',
        '#if __has_embed("/etc/passwd")\n#endif',
        '#define P(x) _Pragma(#x)\nP(GCC dependency "/etc/passwd")',
        '_Pragma("GCC dependency \\"/etc/passwd\\"")',
    ],
)
def test_no_hidden_include_reaches_a_compiler(hidden: str) -> None:
    result = slice_of(f"__global__ void k(float* x) {{\n{hidden}\n}}\n")
    if isinstance(result, DeviceSlice):
        assert "include" not in result.text
        assert "embed" not in result.text
        assert "passwd" not in result.text
    else:
        assert result.kind == "refused"


@pytest.mark.parametrize(
    "harmless",
    [
        "#if __has_include(<cuda_bf16.h>)\n#endif",
        '#define UNROLL _Pragma("unroll")\nUNROLL for (;;) {}',
        "#define TEXT(x) #x\nconst char* a = TEXT(# b);",
    ],
)
def test_harmless_text_is_not_refused(harmless: str) -> None:
    assert isinstance(slice_of(f"__global__ void k(float* x) {{\n{harmless}\n}}\n"), DeviceSlice)


def test_a_header_that_includes_itself_ends(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.h": '#include "a.h"\n__device__ int f();\n'})
    result = slice_of('#include "a.h"\n__global__ void k(int* x) { *x = f(); }', path=path)
    assert isinstance(result, DeviceSlice)
    assert result.flattened().count("int f();") == 1


def test_a_header_under_a_condition_is_repeated_where_it_is_sure(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.h": "#pragma once\n__device__ int f() { return 1; }\n"})
    text = '#ifdef A\n#include "a.h"\n#endif\n#include "a.h"\n#include "a.h"\n__global__ void k(int* x) { *x = f(); }\n'
    result = slice_of(text, path=path)
    assert isinstance(result, DeviceSlice)
    assert result.flattened().count("int f()") == 2
    assert result.flattened().count("#ifndef OPTIML_ONCE") == 2


def test_headers_that_multiply_stay_small(tmp_path: Path) -> None:
    # Each header includes the next twice: two to the power of 24 copies, if one followed them.
    files = {f"h{i}.h": f'#include "h{i + 1}.h"\n#include "h{i + 1}.h"\n' for i in range(24)}
    path = write(tmp_path, {**files, "h24.h": "// end\n" + "__device__ int f();\n" * 100})
    result = slice_of('#include "h0.h"\n__global__ void k(int* x) { *x = f(); }', path=path)
    assert isinstance(result, DeviceSlice)
    assert len(result.flattened()) < 32 << 20


def test_a_kernel_in_a_header_is_cut_with_the_file_that_includes_it(tmp_path: Path) -> None:
    write(tmp_path, {"main.cu": 'struct P { int a; };\n#include "k.cuh"\nint main() {}\n', "k.cuh": "stale"})
    kernel = "// in an editor\n__global__ void k(P p) {}\n"
    unit = parse(SourceFile(str(tmp_path / "k.cuh"), kernel.encode()))
    includer = SourceFile.read(tmp_path / "main.cu")
    assert isinstance(includer, SourceFile)
    result = device_slice(unit, unit.kernels[0], "nvrtc", includer=includer)
    assert isinstance(result, DeviceSlice)
    assert result.path == includer.path
    lines = [line for line in result.flattened().splitlines() if line.strip() and not line.startswith("#")]
    assert lines == ["struct P { int a; };", "__global__ void k(P p) {}"]


PIECES = """{ } ( ) [ ] < > ; , : :: # " ' \\ /* */ // = + struct class enum template typename namespace using typedef
__global__ __device__ constexpr void int k f x operator #define #if #else #endif #include R"( )" 0 return""".split()  # noqa: SIM905


@given(st.lists(st.sampled_from([*PIECES, "\n", " "]), max_size=60), st.binary(max_size=20))
def test_any_text_is_cut_or_refused_on_its_lines(pieces: list[str], noise: bytes) -> None:
    data = " ".join(pieces).encode() + noise + b"\n__global__ void kernel_k(float* x) { x[0] = 1; }\n"
    unit = parse(SourceFile("file.cu", data))
    for kernel in unit.kernels:
        result = device_slice(unit, kernel, "emulator")
        if isinstance(result, DeviceSlice):
            assert result.text.count("\n") == data.count(b"\n")
            result.flattened()
