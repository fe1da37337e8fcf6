"""Kernels, their parameters and launches, in whole and in broken files."""

from __future__ import annotations

import pytest

from optiml_core.records import Edit
from optiml_core.source import SourceFile, TranslationUnit, apply_edits, parse


def unit_of(text: str | bytes) -> TranslationUnit:
    return parse(SourceFile("k.cu", text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__global__ void k(float* a) {}", ["k"]),
        ("void __global__ k(float* a) {}", ["k"]),
        ("static __global__ void k(float* a) {}", ["k"]),
        ("__global__ static inline void k() {}", ["k"]),
        ('extern "C" __global__ void k() {}', ["k"]),
        ('extern "C" { __global__ void k() {} }', ["k"]),
        ("namespace a { namespace b { __global__ void k() {} } __global__ void m() {} }", ["a::b::k", "a::m"]),
        ("namespace a::b { __global__ void k() {} }", ["a::b::k"]),
        ("namespace { __global__ void k() {} }", ["k"]),
        ("template <typename T> __global__ void k(T* a) {}", ["k"]),
        ("template <> __global__ void k<float>(float* a) {}", ["k<float>"]),
        ("__global__ void __launch_bounds__(256, 2) k() {}", ["k"]),
        ("__launch_bounds__(256) __global__ void k() {}", ["k"]),
        ("__global__ void __cluster_dims__(2, 1, 1) k(const __grid_constant__ P p) {}", ["k"]),
        ("__global__ void k();", []),
        ("// __global__ void k() {}\n/* __global__ void m() {} */", []),
        ('const char* s = "__global__ void k() {}";', []),
        ('const char* s = R"(__global__ void k() {})";', []),
        ("#if 0\n__global__ void k() {}\n#else\n__global__ void m() {}\n#endif", ["m"]),
        ("#if 1\n__global__ void k() {}\n#else\n__global__ void m() {}\n#endif", ["k"]),
        ("#ifdef A\n__global__ void k() {}\n#else\n__global__ void m() {}\n#endif", ["k", "m"]),
        ("#define KERNEL __global__ void\nKERNEL k(int n) { }", ["k"]),
        ("#define KERNEL(n) __global__ void n\nKERNEL(k)(int n) { }", ["k"]),
        ("#define NAME(n) n##_kernel\n__global__ void NAME(k)(int n) { }", ["k_kernel"]),
        ("#define API __attribute__((visibility))\nAPI __global__ void k(int n) { }", ["k"]),
        ("CHECK(x)\n__global__ void k(int n) { }", ["k"]),
        ("int x = 1'000; char c = '{'; __global__ void k(int n) { }", ["k"]),
    ],
)
def test_which_kernels_are_found(text: str, names: list[str]) -> None:
    unit = unit_of(text)
    assert [k.qualified for k in unit.kernels] == names
    for kernel in unit.kernels:
        assert unit.kernel(kernel.qualified) == kernel
        assert unit.node(kernel) is not None
        assert not kernel.has_syntax_error


def test_ranges_of_a_kernel() -> None:
    text = "int a;\ntemplate <int N>\n__global__ void k(int n) {\n  n = N;\n}\n"
    kernel = unit_of(text).kernels[0]
    source = SourceFile("k.cu", text.encode())
    assert source.slice(kernel.range) == text[7:-1]
    assert source.slice(kernel.name_range) == "k"
    assert source.slice(kernel.signature_range) == "k(int n)"
    assert source.slice(kernel.body_range) == "{\n  n = N;\n}"
    assert (kernel.range.start_line, kernel.range.end_line) == (2, 5)


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("float* a", ("a", "float*", True, False, False, "float32")),
        ("const float *__restrict__ a", ("a", "const float* __restrict__", True, True, True, "float32")),
        ("float * const a", ("a", "float* const", True, False, False, "float32")),
        ("float const * a", ("a", "float const*", True, True, False, "float32")),
        ("const int n", ("n", "const int", False, True, False, "int32")),
        ("unsigned long long int n", ("n", "unsigned long long int", False, False, False, "uint64")),
        ("unsigned", ("", "unsigned", False, False, False, "uint32")),
        ("float", ("", "float", False, False, False, "float32")),
        ("float*", ("", "float*", True, False, False, "float32")),
        ("float a[3]", ("a", "float [3]", True, False, False, "float32")),
        ("real* a", ("a", "real*", True, False, False, "float64")),
        ("DATA a", ("a", "DATA", False, False, False, "float32")),
        ("fptr a", ("a", "fptr", True, False, False, "float32")),
        ("float4* a", ("a", "float4*", True, False, False, "float32")),
        ("const __half2* a", ("a", "const __half2*", True, True, False, "float16")),
        ("std::uint8_t* a", ("a", "std::uint8_t*", True, False, False, "uint8")),
        ("float** a", ("a", "float**", True, False, False, None)),
        ("T* a", ("a", "T*", True, False, False, None)),
        ("std::pair<int, int> a", ("a", "std::pair<int, int>", False, False, False, None)),
        ("int (*f)(int, int)", ("f", "int (*)(int, int)", True, False, False, None)),
        ("size_t /* how many */ n", ("n", "size_t", False, False, False, "uint64")),
    ],
)
def test_parameters(parameter: str, expected: tuple[object, ...]) -> None:
    declarations = "typedef double real;\n#define DATA float\nusing fptr = float*;\n"
    parameters = unit_of(f"{declarations}__global__ void k({parameter}, int last = 3) {{}}").kernels[0].parameters
    assert [p.name for p in parameters][-1] == "last"
    assert parameters[1].default == "3"
    p = parameters[0]
    assert (p.name, p.type, p.is_pointer, p.is_const, p.is_restrict, p.element and p.element.dtype) == expected


@pytest.mark.parametrize("nothing", ["", "void", " /* none */ "])
def test_no_parameters(nothing: str) -> None:
    assert unit_of(f"__global__ void k({nothing}) {{}}").kernels[0].parameters == ()


def test_template_parameters_launch_bounds_and_instantiations() -> None:
    unit = unit_of(
        """
template <typename T, int N = 4, bool Fast = (2 > 1)>
__global__ void __launch_bounds__(N * 32, 2) k(T* a) {}
template __global__ void k<double, 2>(double*);
void run(float* a) { k<float><<<1, 2>>>(a); k<float, 8><<<1, 2>>>(a); k<float><<<3, 2>>>(a); }
"""
    )
    kernel = unit.kernels[0]
    assert [(t.name, t.kind, t.default) for t in kernel.template_parameters] == [
        ("T", "typename", None),
        ("N", "int", "4"),
        ("Fast", "bool", "(2 > 1)"),
    ]
    assert kernel.launch_bounds == ("N * 32", "2")
    assert kernel.instantiations == (("double", "2"), ("float",), ("float", "8"))


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        ("k<<<g, b>>>(a, n);", ("k", "g", "b", None, None, ("a", "n"), ())),
        ("k<<<dim3(1, 2), 32, n * sizeof(float), s>>>(f(a, b), n);",
         ("k", "dim3(1, 2)", "32", "n * sizeof(float)", "s", ("f(a, b)", "n"), ())),
        ("ns::k<float, (3 > 2)> <<< g , b >>> ();", ("ns::k", "g", "b", None, None, (), ("float", "(3 > 2)"))),
        ("k<<<(n + 31) >> 5, {32, 1}>>>(a < b, c > d);",
         ("k", "(n + 31) >> 5", "{32, 1}", None, None, ("a < b", "c > d"), ())),
        ("CHECK((k<<<g, b>>>(a)));", ("k", "g", "b", None, None, ("a",), ())),
        ("table[i]<<<g, b>>>(a);", ("table[i]", "g", "b", None, None, ("a",), ())),
        ("void* p[] = {&a, (void*)&n}; cudaLaunchKernel((const void*)k<int>, g, b, p, 7, s);",
         ("k", "g", "b", "7", "s", ("a", "n"), ("int",))),
        ("cudaLaunchCooperativeKernel((void*)&k, g, b, p);", ("k", "g", "b", None, None, (), ())),
    ],
)  # fmt: skip
def test_launch_sites(launch: str, expected: tuple[object, ...]) -> None:
    text = f"void host() {{ {launch} }}"
    (site,) = unit_of(text).launch_sites
    assert expected == (
        site.kernel, site.grid, site.block, site.shared, site.stream, site.arguments, site.template_arguments
    )  # fmt: skip
    source = SourceFile("k.cu", text.encode())
    assert source.slice(site.grid_range) == site.grid
    assert source.slice(site.block_range) == site.block
    assert site.function_range is not None
    assert source.slice(site.function_range) == text


def test_shifts_and_comments_are_no_launches() -> None:
    assert unit_of("int f() { // k<<<1,1>>>(a)\n return 1 << 2 >> 1; }").launch_sites == ()


BROKEN = [
    ("unclosed loop", "__global__ void k(int n) {\n  for (;;) {\n  n = 1;\n}\n__global__ void m() {\n}\n", ["k", "m"]),
    ("end of file", "__global__ void m() { }\n__global__ void k(int n) {\n  if (n) {\n", ["m", "k"]),
    ("half a statement", "__global__ void k(int n) { n = ; x[ }\n__global__ void m() { }", ["k", "m"]),
    ("one brace too many", "__global__ void k() { } }\n__global__ void m() { }", ["k", "m"]),
    ("open string", '__global__ void k() { f("abc); }\n__global__ void m() { }', ["k", "m"]),
    ("open comment", "__global__ void k() { } /* abc\n__global__ void m() { }", ["k"]),
    ("branches open one block twice",
     "__global__ void k(int n) {\n#ifdef A\n if (n) {\n#else\n if (!n) {\n#endif\n }\n}\n__global__ void m() { }",
     ["k", "m"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_files_still_give_their_kernels(text: str, names: list[str]) -> None:
    unit = unit_of(text)
    assert [k.name for k in unit.kernels] == names
    for kernel in unit.kernels:
        body = text[kernel.body_range.start_byte : kernel.body_range.end_byte]
        assert body.startswith("{")
        assert "__global__" not in body


@pytest.mark.parametrize("form", ["crlf", "bom", "tabs", "latin-1"])
def test_edits_keep_the_bytes_of_odd_files_elsewhere(form: str) -> None:
    data = b"// caf\xc3\xa9\n__global__ void k(float* a) {\n  a[0] = 1;\n}\n"
    data = {
        "crlf": data.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + data,
        "tabs": data.replace(b"  ", b"\t"),
        "latin-1": data.replace(b"\xc3\xa9", b"\xe9"),
    }[form]
    unit = unit_of(data)
    (kernel,) = unit.kernels
    node = unit.node(kernel)
    assert node is not None
    assert not node.has_error
    at = kernel.body_range.start_byte
    assert data[at : at + 1] == b"{"
    after = apply_edits(data, [Edit("k.cu", at, at + 1, b"{ int x;")])
    assert after == data[:at] + b"{ int x;" + data[at + 1 :]
