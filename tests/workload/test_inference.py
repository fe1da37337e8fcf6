"""What is inferred from host code, from a signature and from a kernel's own bounds."""

from __future__ import annotations

import pytest

from optiml_core.records import Failure, Launch
from optiml_core.workload import Workload, find_workload, resolve_launch
from tests.workload.cases import unit_of, workload_of

ADD = (
    "__global__ void add(const float* a, float* b, int n) "
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = a[i]; }\n"
)


def lines(workload: Workload) -> str:
    """The declaration without its comment marks, as one line."""
    return ", ".join(line.removeprefix("// optiml: ") for line in workload.text.split("\n"))


def check(host: str, expected: str, kernel: str = ADD, guessed: int = 0) -> None:
    workload = workload_of(kernel + host)
    assert lines(workload) == expected
    assert workload.origin == "inferred"
    assert len(workload.problems) == guessed, workload.problems
    if not guessed:
        assert isinstance(resolve_launch(workload), Launch)


WHOLE = "n = 1000, a[n]: normal, b[n], grid = ceil_div(n, 256), block = 256"
MEMORY = "float *x, *y; cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, n * sizeof(float));"
RUN = "add<<<(n + 255) / 256, 256>>>(x, y, n);"
LAUNCHER = "void run(float* p, float* q, int m) { add<<<(m + 255) / 256, 256>>>(p, q, m); }\n"


@pytest.mark.parametrize(
    ("before", "body"),
    [
        # Where the number comes from.
        ("", f"int n = 1000; {MEMORY} {RUN}"),
        ("#define N 1000", f"int n = N; {MEMORY} {RUN.replace(', n)', ', N)')}"),
        ("const int N = 10 * 100;", f"int n = N; {MEMORY} {RUN}"),
        ("enum { N = 1000 };", f"int n = N; {MEMORY} {RUN}"),
        ("static int n = 1000;", f"{MEMORY} {RUN}"),
        ("#ifdef BIG\n#define N 99999\n#else\n#define N 1000\n#endif", f"int n = N; {MEMORY} {RUN}"),
        ("", f"int n = 1000; if (argc > 1) n = atoi(argv[1]); {MEMORY} {RUN}"),
        ("", f"int n = argc > 1 ? atoi(argv[1]) : 1000; {MEMORY} {RUN}"),
        ("", f"int n; if (argc == 2) {{ n = atoi(argv[1]); }} else {{ n = 1000; }} {MEMORY} {RUN}"),
        ("", f"int n = 500; n *= 2; {MEMORY} {RUN}"),
        ("void sizes(int& n) { n = 1000; }", f"int n; sizes(n); {MEMORY} {RUN}"),
        # How the grid is written.
        (
            "",
            f"int n = 1000; {MEMORY} dim3 block(256), grid((n + block.x - 1) / block.x); "
            "add<<<grid, block>>>(x, y, n);",
        ),
        (
            "",
            f"int n = 1000; {MEMORY} dim3 block, grid; block.x = 256; grid.x = (n - 1) / 256 + 1; "
            "add<<<grid, block>>>(x, y, n);",
        ),
        (
            "",
            f"int n = 1000; {MEMORY} dim3 grid = {{(unsigned)ceil(n / 256.0)}}; "
            "add<<<grid, dim3(256, 1, 1)>>>(x, y, n);",
        ),
        ("", f"int n = 1000; {MEMORY} add<<<(int)ceil((float)n / 256), 256>>>(x, y, n);"),
        ("", f"int n = 1000; {MEMORY} int g = n % 256 == 0 ? n / 256 : n / 256 + 1; add<<<g, 256>>>(x, y, n);"),
        (
            "#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))",
            f"int n = 1000; {MEMORY} add<<<CEIL_DIV(n, 256), 256>>>(x, y, n);",
        ),
        (
            "int blocks(int n, int b) { return (n + b - 1) / b; }",
            f"int n = 1000; {MEMORY} add<<<blocks(n, 256), 256>>>(x, y, n);",
        ),
        # Where the memory comes from.
        ("", f"int n = 1000; float *x, *y; cudaMallocManaged(&x, n * 4); cudaMallocManaged((void**)&y, 4 * n); {RUN}"),
        (
            "",
            "int n = 1000; size_t bytes = n * sizeof(float); float *x, *y; CHECK(cudaMalloc(&x, bytes)); "
            f"CHECK(cudaMalloc(&y, bytes)); {RUN}",
        ),
        ("", f"int n = 1000; float* x = new float[n]; float* y = (float*)malloc(n * sizeof(*y)); {RUN}"),
        (
            "",
            "int n = 1000; thrust::device_vector<float> x(n), y(n); add<<<(n + 255) / 256, 256>>>"
            "(thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(&y[0]), n);",
        ),
        (
            "float* make(int count) { float* p; cudaMalloc(&p, count * sizeof(float)); return p; }",
            f"int n = 1000; float* x = make(n); float* y = make(n); {RUN}",
        ),
        (
            "void make(float** p, int count) { cudaMalloc(p, count * sizeof(float)); }",
            f"int n = 1000; float *x, *y; make(&x, n); make(&y, n); {RUN}",
        ),
        (
            "#define ALLOC(p, n) cudaMalloc(&p, (n) * sizeof(float))",
            f"int n = 1000; float *x, *y; ALLOC(x, n); ALLOC(y, n); {RUN}",
        ),
        (
            "float *x, *y;\nvoid setup(int n) { cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); }",
            f"int n = 1000; setup(n); {RUN}",
        ),
        # Through functions.
        (LAUNCHER, f"int n = 1000; {MEMORY} run(x, y, n);"),
        (
            LAUNCHER + "void outer(float* p, float* q, int m) { run(p, q, m); }",
            f"int n = 1000; {MEMORY} outer(x, y, n);",
        ),
        (
            LAUNCHER + "void call(void (*f)(float*, float*, int), float* p, float* q, int m) { f(p, q, m); }",
            f"int n = 1000; {MEMORY} call(run, x, y, n);",
        ),
        ("", f"int n = 1000; {MEMORY} auto k = &add; k<<<(n + 255) / 256, 256>>>(x, y, n);"),
        # What must not confuse it.
        ("", f"int n = 1000; {MEMORY} {{ int n = 7; use(n); }} {RUN}"),
        ("", f"int n = 1000; {MEMORY} {RUN} n = 5;"),
        ("", f"int n = 1000; {MEMORY} for (int i = 0; i < 10; i++) {{ {RUN} }}"),
        ("", f"int n = 1000; /* int n = 7; */ {MEMORY} {RUN} // n = 8;"),
    ],
)
def test_one_size(before: str, body: str) -> None:
    check(f"{before}\nint main(int argc, char** argv) {{ {body}\n}}\n", WHOLE)


MATRIX = (
    "__global__ void t(const float* in, float* out, int w, int h) {\n"
    "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "  if (x < w && y < h) out[x * h + y] = in[y * w + x];\n}\n"
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (
            "int main() { const int w = 64, h = 48;\n"
            "float *a, *b; cudaMalloc(&a, w * h * 4); cudaMalloc(&b, w * h * 4);\n"
            "dim3 block(32, 8), grid((w + 31) / 32, (h + 7) / 8); t<<<grid, block>>>(a, b, w, h); }",
            "w = 64, h = 48, in[w * h]: normal, out[w * h], grid = (ceil_div(w, 32), ceil_div(h, 8)), block = (32, 8)",
        ),
        (  # One number on the host, two arguments: the kernel's own bounds tell them apart.
            "#define N 64\nint main() { float *a, *b; cudaMalloc(&a, N * N * 4); cudaMalloc(&b, N * N * 4);\n"
            "t<<<dim3((N + 31) / 32, (N + 7) / 8), dim3(32, 8)>>>(a, b, N, N); }",
            "w = 64, h = 64, in[h * w]: normal, out[h * w], grid = (ceil_div(w, 32), ceil_div(h, 8)), block = (32, 8)",
        ),
        (
            "int main() { int w = 64; int h = 2 * w;\n"
            "float *a, *b; cudaMalloc(&a, w * h * 4); cudaMalloc(&b, w * h * 4);\n"
            "t<<<dim3((w + 31) / 32, (h + 7) / 8), dim3(32, 8)>>>(a, b, w, h); }",
            "w = 64, h = 128, in[h * w]: normal, out[h * w], grid = (ceil_div(w, 32), ceil_div(h, 8)), block = (32, 8)",
        ),
    ],
)
def test_two_sizes(host: str, expected: str) -> None:
    check(host, expected, MATRIX)


def test_a_composite_argument_stands_for_itself() -> None:
    host = (
        "int main() { int rows = 30, cols = 40; int n = rows * cols; float *x, *y; cudaMalloc(&x, rows * cols * 4);\n"
        "cudaMalloc(&y, n * 4); add<<<(n + 255) / 256, 256>>>(x, y, rows * cols); }"
    )
    check(host, "n = 1200, a[n]: normal, b[n], grid = ceil_div(n, 256), block = 256")


def test_a_constant_of_the_kernel_is_named_and_stays() -> None:
    kernel = (
        "#define W 16\n__global__ void f(const float* a, float* b, int n) "
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] = a[i * W]; }\n"
    )
    host = (
        "int main() { int n = 100; float *a, *b; cudaMalloc(&a, n * W * 4); cudaMalloc(&b, n * 4); "
        "f<<<(n + 63) / 64, 64>>>(a, b, n); }"
    )
    workload = workload_of(kernel + host)
    assert lines(workload) == "n = 100, W = 16, a[n * W]: normal, b[n], grid = ceil_div(n, 64), block = 64"
    assert workload.fixed == {"W"}
    assert workload.sizes == ("n",)


def test_a_loop_over_block_sizes_takes_a_common_one_and_says_so() -> None:
    host = (
        f"int main() {{ int n = 1000; {MEMORY} int sizes[] = {{32, 128, 256, 1024}};\n"
        "for (int j = 0; j < 4; j++) { int block_size = sizes[j]; "
        "add<<<(n + block_size - 1) / block_size, block_size>>>(x, y, n); } }"
    )
    workload = workload_of(ADD + host)
    assert lines(workload) == (
        "n = 1000, block_size = 256, a[n]: normal, b[n], grid = ceil_div(n, block_size), block = block_size"
    )
    assert len(workload.problems) == 1
    problem = workload.problems[0]
    assert "takes the values 32, 128, 256, 1024 in turn; 256 was taken" in problem.message
    assert problem.line == 3
    assert problem.cure == "add `// optiml: block_size = 256` above the kernel"


def test_a_loop_over_problem_sizes_takes_the_largest() -> None:
    host = (
        "int main() { std::vector<int> sizes = {128, 4096}; for (int n : sizes) { float *x, *y; "
        "cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); add<<<(n + 255) / 256, 256>>>(x, y, n); } }"
    )
    assert "n = 4096" in workload_of(ADD + host).text


def test_a_value_from_the_command_line_is_guessed_and_said() -> None:
    host = f"int main(int argc, char** argv) {{\n int n = atoi(argv[1]); {MEMORY} {RUN} }}"
    workload = workload_of(ADD + host)
    assert isinstance(resolve_launch(workload), Launch)
    assert [problem.line for problem in workload.problems] == [3]
    assert "command line" in workload.problems[0].message
    assert "add `// optiml: n = " in workload.problems[0].cure


def test_a_guess_that_a_number_follows_from_is_said() -> None:
    host = (
        "int main() { cudaDeviceProp prop; cudaGetDeviceProperties(&prop, 0); int n = 1000;\n"
        "int root = sqrt(prop.multiProcessorCount); float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);\n"
        "add<<<root, 256>>>(x, y, n); }"
    )
    workload = workload_of(ADD + host)
    assert "`root` follows from `multiProcessorCount`" in workload.problems[0].message


def test_several_launches_are_several_launches() -> None:
    host = (
        f"int main() {{ int n = 1000; {MEMORY} add<<<(n + 255) / 256, 256>>>(x, y, n); "
        "add<<<n / 128, 128>>>(x, y, n); add<<<(n + 255) / 256, 256>>>(y, x, n); }"
    )
    workload = workload_of(ADD + host)
    assert workload.launch_count == 2
    second = resolve_launch(workload, 1)
    assert isinstance(second, Launch)
    assert (second.grid, second.block) == ((7, 1, 1), (128, 1, 1))


def test_shared_memory_and_template_arguments() -> None:
    kernel = (
        "template <typename T, int B> __global__ void f(const T* a, T* b, int n) "
        "{ extern __shared__ float s[]; int i = blockIdx.x * B + threadIdx.x; if (i < n) b[i] = a[i]; }\n"
    )
    host = (
        "const int B = 128;\nint main() { int n = 1000; double *x, *y; cudaMalloc(&x, n * sizeof(double)); "
        "cudaMalloc(&y, n * sizeof(double)); f<double, B><<<(n + B - 1) / B, B, B * sizeof(double)>>>(x, y, n); }"
    )
    workload = workload_of(kernel + host)
    launch = resolve_launch(workload)
    assert isinstance(launch, Launch)
    assert launch.template_arguments == ("double", "128")
    assert launch.shared == 1024
    assert [argument.element.dtype for argument in launch.arguments] == ["float64", "float64", "int32"]


def test_a_deduced_type_and_a_type_through_a_launcher() -> None:
    kernel = "template <typename T> __global__ void f(T* a, int n) { if (threadIdx.x < n) a[threadIdx.x] += 1; }\n"
    host = (
        "template <typename Real> void run(int n) { Real* x; cudaMalloc(&x, n * sizeof(Real)); f<<<1, 64>>>(x, n); }\n"
        "int main() { run<double>(50); }"
    )
    workload = workload_of(kernel + host)
    launch = resolve_launch(workload)
    assert isinstance(launch, Launch)
    assert launch.template_arguments == ("double",)
    assert lines(workload) == "T = double, n = 50, a[n]: normal, grid = 1, block = 64"


# ------------------------------------------------------------------------------------ contents

USE = (
    "int main() {{ int n = 100; {type}* x; float* y; cudaMalloc(&x, n * sizeof({type})); cudaMalloc(&y, n * 4); "
    "{fill} f<<<1, 128>>>(x, y, n); }}"
)


def content(kernel_body: str, fill: str, kind: str = "int") -> str:
    kernel = f"__global__ void f({kind}* x, float* y, int n) {{ {kernel_body} }}\n"
    workload = workload_of(kernel + USE.format(type=kind, fill=fill))
    line = next(line for line in lines(workload).split(", ") if line.startswith("x["))
    return line.partition(": ")[2]


COPY = (
    "{type}* h = ({type}*)malloc(n * 4); for (int i = 0; i < n; i++) h[i] = {value}; "
    "cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice);"
)
SAME = "y[threadIdx.x] = x[threadIdx.x];"


def copied(value: str, kind: str = "int") -> str:
    return COPY.format(value=value, type=kind)


@pytest.mark.parametrize(
    ("body", "fill", "expected"),
    [
        (SAME, copied("rand() % 17"), "uniform(0"),
        (SAME, copied("i"), "ramp"),
        (SAME, copied("0"), "zeros"),
        (SAME, copied("1"), "uniform(0"),
        ("atomicAdd(&x[threadIdx.x], 1);", "cudaMemset(x, 0, n * 4);", "zeros"),
        ("y[x[threadIdx.x]] = 1;", "", "index(n)"),
        ("y[threadIdx.x] = y[x[threadIdx.x] * 4];", "", "index(n / 4)"),
        ("int j = x[threadIdx.x]; y[j] = 1;", "", "index(n)"),
        ("for (int j = x[threadIdx.x]; j < x[threadIdx.x + 1]; j++) y[j] = 1;", "", "offsets(n)"),
        ("x[threadIdx.x] = 1;", "", ""),
        (SAME, "", "uniform"),
    ],
)
def test_contents_of_integers(body: str, fill: str, expected: str) -> None:
    assert content(body, fill) == expected


@pytest.mark.parametrize(
    ("body", "fill", "expected"),
    [
        (SAME, copied("rand() / (float)RAND_MAX", "float"), "uniform"),
        (SAME, copied("2.0f", "float"), "uniform"),
        ("x[threadIdx.x] += 1;", "cudaMemset(x, 0, n * 4);", "zeros"),
        ("x[threadIdx.x] *= 2;", "", "normal"),
        ("x[threadIdx.x] = 2;", "", ""),
        ("__stcs(x + threadIdx.x, 2.0f);", "", ""),
        ("store(x, threadIdx.x);", "", "normal"),
    ],
)
def test_contents_of_floats(body: str, fill: str, expected: str) -> None:
    assert content(body, fill, "float") == expected


def test_constant_memory_is_filled() -> None:
    kernel = (
        "#define K 9\n__constant__ float weights[K * K];\n__constant__ int limit;\n"
        "__global__ void f(float* y, int n) { if (threadIdx.x < limit) y[threadIdx.x] = weights[threadIdx.x]; }\n"
    )
    host = (
        "int main() { int n = 100; int bound = 64; float* y; cudaMalloc(&y, n * 4); "
        "cudaMemcpyToSymbol(limit, &bound, sizeof(int)); f<<<1, 128>>>(y, n); }"
    )
    workload = workload_of(kernel + host)
    launch = resolve_launch(workload)
    assert isinstance(launch, Launch)
    assert [(one.name, one.length, one.content.kind, one.content.parameters) for one in launch.globals] == [  # type: ignore[union-attr]
        ("weights", 81, "normal", ()),
        ("limit", 1, "constant", (64.0,)),
    ]


# ------------------------------------------------------------------------------- kernel's bounds


@pytest.mark.parametrize(
    ("body", "length"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = 1;", "n"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; a[i] = 1;", "n"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n) a[i] = 1;", "n + 1"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (n > i && i > 0) a[i - 1] = 1;", "n - 1"),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = 1;", "n"),
        ("for (int i = threadIdx.x; i < n * m; i += blockDim.x) a[i] = 1;", "m * n"),
        ("int r = blockIdx.x; int c = threadIdx.x; if (r < n && c < m) a[r * m + c] = 1;", "m * n"),
        ("int r = threadIdx.x; if (r < n) for (int c = 0; c < m; c++) a[c * n + r] = 1;", "m * n"),
        ("int r = threadIdx.x; if (r < n) { float* b = a + r * m; for (int c = 0; c < m; ++c) b[c] = 1; }", "m * n"),
        ("int r = threadIdx.x; if (r < n) { float4* v = reinterpret_cast<float4*>(a); v[r] = z; }", "4 * n"),
        ("for (int i = n - 1; i >= 0; i--) a[i] = 1;", "n"),
        ("a[threadIdx.x % n] = 1;", "n"),
        ("int i = threadIdx.x; if (i < n) { a[i] = 1; a[i + 3] = 2; }", "n + 3"),
        ("a[blockIdx.x * blockDim.x + threadIdx.x] = 1;", "64 * ceil_div(n, 64)"),
    ],
)
def test_lengths_from_the_kernels_own_indexes(body: str, length: str) -> None:
    kernel = f"__global__ void f(float* a, int n, int m) {{ {body} }}\n"
    host = "void run(float* a) { int n = 100, m = 30; f<<<(n + 63) / 64, 64>>>(a, n, m); }"
    workload = workload_of(kernel + host)
    assert lines(workload).partition(", a[")[2].partition("]")[0] == length


def test_a_signature_alone_gives_a_launch_that_says_what_was_guessed() -> None:
    workload = workload_of(MATRIX)
    assert lines(workload) == (
        "w = 1024, h = 1024, in[h * w]: normal, out[h * w], grid = (ceil_div(w, 32), ceil_div(h, 8)), block = (32, 8)"
    )
    assert isinstance(resolve_launch(workload), Launch)
    assert len(workload.problems) == 4
    for problem in workload.problems:
        assert problem.line is not None
        assert "`// optiml: " in problem.cure


def test_what_cannot_be_told_says_which_line_to_add() -> None:
    kernel = (
        "__device__ float get(const float* x, int i);\n"
        "__global__ void f(const float* x, float* y) { y[threadIdx.x] = get(x, 3); }\n"
    )
    workload = workload_of(kernel)
    failure = resolve_launch(workload)
    assert isinstance(failure, Failure)
    cures = [problem.cure for problem in workload.problems]
    assert "add `// optiml: x[length]: normal` above the kernel" in cures


# ------------------------------------------------------------------------------ with declarations


def test_a_declaration_is_completed_by_inference() -> None:
    host = f"int main() {{ int n = 1000; {MEMORY} add<<<(n + 255) / 256, 256>>>(x, y, n); }}"
    workload = workload_of("// optiml: n = 77, block = 32, a: uniform\n" + ADD + host)
    assert workload.origin == "declared"
    launch = resolve_launch(workload)
    assert isinstance(launch, Launch)
    assert (launch.grid, launch.block, launch.names) == ((1, 1, 1), (32, 1, 1), {"n": 77})
    assert [getattr(one, "length", None) for one in launch.arguments] == [77, 77, None]
    assert launch.arguments[0].content.kind == "uniform"  # type: ignore[union-attr]


def test_a_declaration_may_name_the_files_constants() -> None:
    text = "#define TILE 8\n// optiml: n = 3, a[TILE * n]: normal, b[n], block = TILE, grid = 1\n" + ADD
    workload = workload_of(text)
    assert workload.failures == ()
    launch = resolve_launch(workload)
    assert isinstance(launch, Launch)
    assert launch.block == (8, 1, 1)


def test_a_whole_declaration_has_no_problems() -> None:
    text = "// optiml: n = 3, a[n]: normal, b[n], block = 8, grid = 1\n" + ADD
    assert workload_of(text + "int main() { add<<<x, y>>>(p, q, r); }").problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void f(",
        "__global__ void f(int n) { f<<<>>>(); }\nint main() { f<<<1>>>(3); f<<<,>>>(,); }",
        "__global__ void f(int n) {}\nint a() { return a(); } int main() { int n = n; f<<<a(), b(n)>>>(n); }",
        "__global__ void f(int n) {}\nvoid a(int n) { b(n); } void b(int n) { a(n); f<<<n, n>>>(n); }",
        "__global__ void f(int n) {}\n#define N N\n#define M (M + 1)\nint main() { f<<<N, M>>>(N); }",
        "__global__ void f(int n) {}\nint main() { int n = 1 / 0; f<<<n % 0, 1 << 99>>>(n); }",
        "__global__ void f(int n) {}\nint main() { int n = 99999999999999999999; f<<<n, n>>>(n * n * n); }",
        "template <typename... T> __global__ void f(T... x) {}\nint main() { f<int, float><<<1, 2>>>(1, 2.0f); }",
        "__global__ void f(int n) {}\nint main() { f<<<" + "(" * 300 + "1" + ")" * 300 + ", 1>>>(1); }",
    ],
)
def test_odd_code_gives_problems_and_no_traceback(text: str) -> None:
    unit = unit_of(text)
    for kernel in unit.kernels:
        resolve_launch(find_workload(unit, kernel))
