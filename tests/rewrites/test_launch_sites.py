"""Host code follows the kernel's launch: every site, the variables it uses, the workload comment."""

from __future__ import annotations

import pytest

from optiml_core.records import LaunchChange
from optiml_core.rewrites import OutsideLaunch, Refusal, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.launch_text import plan
from rewrites.cases import context_of, text_after, unit_of

KERNEL = "__global__ void f(float* x, int n, int m) { const int half = n / 2; x[threadIdx.x] = half; }\n"


def relaunched(context: RewriteContext, **texts: object) -> Rewritten | Refusal:
    body = read_kernel(context)
    assert isinstance(body, KernelBody)
    return finish(context, body, (), "", launch=plan(**texts))  # type: ignore[arg-type]


def check(before: str, after: str, **texts: object) -> LaunchChange:
    context = context_of(KERNEL + before)
    made = relaunched(context, **texts)
    assert isinstance(made, Rewritten), made
    assert text_after(context, made) == KERNEL + after
    return made.launch_change


ROWS = {"grid": ("ceil_div(n, 32)", "1", "1"), "block": ("256", "1", "1")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "void g(float* x) { f<<<10, 32>>>(x, 100, 2); }",
            "void g(float* x) { f<<<(100 + 31) / 32, 256>>>(x, 100, 2); }",
            id="numbers",
        ),
        pytest.param(
            "void g(float* x, int k) { int grid = k / 2, block = 32; f<<<grid, block>>>(x, k, 2); }",
            "void g(float* x, int k) { int grid = (k + 31) / 32, block = 256; f<<<grid, block>>>(x, k, 2); }",
            id="int-variables",
        ),
        pytest.param(
            "void g(float* x, int k) { dim3 grid(k, k); dim3 block(8, 8); f<<<grid, block, 0, s>>>(x, k + 1, 2); }",
            "void g(float* x, int k) { dim3 grid((k + 1 + 31) / 32); dim3 block(256); "
            "f<<<grid, block, 0, s>>>(x, k + 1, 2); }",
            id="dim3-variables",
        ),
        pytest.param(
            "void g(float* x, int k) { dim3 grid = dim3(k, k); f<<<grid, dim3(8, 8)>>>(x, k, 2); }",
            "void g(float* x, int k) { dim3 grid = dim3((k + 31) / 32); f<<<grid, 256>>>(x, k, 2); }",
            id="dim3-initialised-by-a-call",
        ),
        pytest.param(
            "void g(float* x, int k) { dim3 grid(k); f<<<grid, 32>>>(x, k, 2); h<<<grid, 32>>>(x); }",
            "void g(float* x, int k) { dim3 grid(k); f<<<(k + 31) / 32, 256>>>(x, k, 2); h<<<grid, 32>>>(x); }",
            id="a-variable-that-another-kernel-shares-stays",
        ),
        pytest.param(
            "void g(float* x, int k) { int grid = k; k = 3; f<<<grid, 32>>>(x, k, 2); }",
            "void g(float* x, int k) { int grid = k; k = 3; f<<<(k + 31) / 32, 256>>>(x, k, 2); }",
            id="an-argument-that-changes-in-between",
        ),
        pytest.param(
            "void g(float* x) { int grid = 7; int k = 9; f<<<grid, 32>>>(x, k, 2); }",
            "void g(float* x) { int grid = 7; int k = 9; f<<<(k + 31) / 32, 256>>>(x, k, 2); }",
            id="an-argument-that-is-declared-later",
        ),
        pytest.param(
            "void g(float* x, int k) { for (int i = 0; i < 2; i++) { int b = 4; f<<<i, b>>>(x, k, 2); } "
            "f<<<3, 4>>>(x, 2 * k, 1); }",
            "void g(float* x, int k) { for (int i = 0; i < 2; i++) { int b = 256; f<<<(k + 31) / 32, b>>>(x, k, 2); } "
            "f<<<(2 * k + 31) / 32, 256>>>(x, 2 * k, 1); }",
            id="every-launch",
        ),
    ],
)
def test_sites(before: str, after: str) -> None:
    change = check(before, after, **ROWS)
    assert change == LaunchChange(grid=("ceil_div(n, 32)", "1", "1"), block=("256", "1", "1"))


def test_a_block_that_the_new_grid_still_reads_stays() -> None:
    check(
        "void g(float* x, int k) { dim3 block(32, 8); dim3 grid(k / block.x, 2); f<<<grid, block>>>(x, k, 2); }",
        "void g(float* x, int k) { dim3 block(32, 8); dim3 grid((k / block.x * 32 + 7) / 8); "
        "f<<<grid, 256>>>(x, k, 2); }",
        grid=("ceil_div(grid.x * block.x, 8)", "1", "1"),
        block=("256", "1", "1"),
    )


def test_a_block_that_the_new_grid_reads_no_more_changes() -> None:
    check(
        "void g(float* x, int k) { dim3 block(32, 8); dim3 grid(k / block.x, 2); f<<<grid, block>>>(x, k, 2); }",
        "void g(float* x, int k) { dim3 block(256); dim3 grid((k + 31) / 32); f<<<grid, block>>>(x, k, 2); }",
        **ROWS,
    )


def test_components_of_the_old_launch_are_kept() -> None:
    check(
        "void g(float* x, int k) { dim3 grid(k, k + 1, 3); f<<<grid, 32>>>(x, k, 2); }",
        "void g(float* x, int k) { dim3 grid((k + 3) / 4, k + 1, 3); f<<<grid, 32>>>(x, k, 2); }",
        grid=("ceil_div(grid.x, 4)", "grid.y", "grid.z"),
    )


def test_a_variable_of_unknown_type_is_not_taken_apart() -> None:
    context = context_of(KERNEL + "void g(float* x, auto grid) { f<<<shape(), 32>>>(x, 1, 2); }")
    made = relaunched(context, grid=("grid.x * 2", "1", "1"))
    assert isinstance(made, Refusal)
    assert "taken apart" in made.reason


def test_dynamic_shared_memory_is_added_and_replaced() -> None:
    check(
        "void g(float* x) { f<<<1, 32>>>(x, 7, 2); f<<<1, 32, 16, s>>>(x, 8, 2); }",
        "void g(float* x) { f<<<1, 32, 7 * 4>>>(x, 7, 2); f<<<1, 32, 8 * 4, s>>>(x, 8, 2); }",
        shared="n * 4",
    )


def test_locals_and_macros_of_the_kernel_are_written_out() -> None:
    text = "#define TILE 16\n#define WIDE (2 * TILE)\n" + KERNEL
    context = context_of(text + "void g(float* x, int k) { f<<<1, 32>>>(x, k, 2); }")
    made = relaunched(context, grid=("ceil_div(half, WIDE)", "1", "1"))
    assert isinstance(made, Rewritten)
    assert made.launch_change.grid == ("ceil_div(n / 2, 32)", "1", "1")
    assert "f<<<(k / 2 + WIDE - 1) / WIDE, 32>>>(x, k, 2);" in text_after(context, made)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no launch of f is known"),
        (
            "void g(float* x) { auto p = f; p<<<1, 32>>>(x, 1, 2); f<<<1, 2>>>(x, 1, 1); }",
            "used other than in a launch",
        ),
        ("void g(float* x, int k) { f<<<1, 32>>>(x, k++, 2); }", "changes a variable"),
        ("#define CHECK(x) x\nvoid g(float* x) { CHECK((f<<<1, 32>>>(x, 1, 2))); }", "macro CHECK"),
    ],
)
def test_launches_that_cannot_follow(text: str, reason: str) -> None:
    made = relaunched(context_of(KERNEL + text), **ROWS)
    assert isinstance(made, Refusal)
    assert reason in made.reason


def test_a_workspace_that_nobody_searched_is_refused_unless_the_kernel_is_private() -> None:
    text = KERNEL + "void g(float* x) { f<<<1, 32>>>(x, 1, 2); }"
    made = relaunched(context_of(text, searched=False), **ROWS)
    assert isinstance(made, Refusal)
    assert "not searched" in made.reason
    assert isinstance(relaunched(context_of("static " + text, searched=False), **ROWS), Rewritten)
    allowed = relaunched(context_of(text, searched=False, allow=("launch",)), **ROWS)
    assert isinstance(allowed, Rewritten)
    assert allowed.not_checked


def test_a_parameter_that_the_kernel_changes_is_not_used() -> None:
    text = (
        "__global__ void f(float* x, int n, int m) { n += 1; x[n] = 0; }\nvoid g(float* x) { f<<<1, 32>>>(x, 1, 2); }"
    )
    made = relaunched(context_of(text), **ROWS)
    assert isinstance(made, Refusal)
    assert "changes its parameter" in made.reason


def test_launches_in_other_files_follow() -> None:
    other = unit_of("void h(float* y, int rows) { f<<<9, 9>>>(y, rows, 4); }", "other.cu")
    context = context_of(KERNEL)
    context = RewriteContext(
        context.unit, context.kernel, other_launch_sites=(OutsideLaunch(other, other.launch_sites[0]),)
    )
    made = relaunched(context, **ROWS)
    assert isinstance(made, Rewritten)
    assert [(e.file, e.replacement) for e in made.edits] == [
        ("other.cu", b"(rows + 31) / 32"),
        ("other.cu", b"256"),
    ]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        (
            "// optiml: n = 64, m = 2, block = 32, grid = ceil_div(n, 32)",
            "// optiml: n = 64, m = 2, block = 256, grid = ceil_div(n, 32)",
        ),
        (
            "// optiml: n = 64, block = (32, 4), x[n], grid = (2, n)",
            "// optiml: n = 64, block = 256, x[n], grid = ceil_div(n, 32)",
        ),
        ("// optiml: n = 64, x[n]", "// optiml: n = 64, x[n], block = 256, grid = ceil_div(n, 32)"),
        ("// optiml:", "// optiml: block = 256, grid = ceil_div(n, 32)"),
        (
            "// optiml: block = 32, grid = n\n// optiml launch: n = 8, grid = 2\n// plain words",
            "// optiml: block = 256, grid = ceil_div(n, 32)\n"
            "// optiml launch: n = 8, grid = ceil_div(n, 32)\n// plain words",
        ),
    ],
)
def test_the_workload_comment_follows(comment: str, expected: str) -> None:
    context = context_of(comment + "\n" + KERNEL, allow=("launch",))
    made = relaunched(context, **ROWS)
    assert isinstance(made, Rewritten), made
    assert text_after(context, made) == expected + "\n" + KERNEL


def test_the_workload_comment_keeps_what_the_change_keeps() -> None:
    context = context_of("// optiml: block = (32, 8), grid = (n, m)\n" + KERNEL, allow=("launch",))
    made = relaunched(context, grid=("grid.x / 2", "grid.y", "grid.z"), block=("block.y", "block.x", "1"))
    assert isinstance(made, Rewritten)
    assert text_after(context, made) == "// optiml: block = (8, 32), grid = (n / 2, m)\n" + KERNEL


def test_changes_add_up_along_a_chain() -> None:
    text = KERNEL + "void g(float* x, int k) { f<<<(k + 31) / 32, 256>>>(x, k, 2); }"
    context = context_of(text, launch_change=LaunchChange(grid=("ceil_div(n, 32)", "1", "1"), block=("256", "1", "1")))
    made = relaunched(context, grid=("ceil_div(grid.x, 4)", "grid.y", "grid.z"))
    assert isinstance(made, Rewritten)
    assert made.launch_change == LaunchChange(grid=("ceil_div(ceil_div(n, 32), 4)", "1", "1"), block=("256", "1", "1"))
    assert "f<<<((k + 31) / 32 + 3) / 4, 256>>>" in text_after(context, made)


def test_carriage_returns_stay() -> None:
    text = (KERNEL + "void g(float* x) {\n  f<<<1, 32>>>(x, 7, 2);\n}\n").replace("\n", "\r\n")
    context = context_of(text)
    made = relaunched(context, **ROWS)
    assert isinstance(made, Rewritten)
    after = text_after(context, made)
    assert after.count("\r\n") == text.count("\r\n") == after.count("\n")


def test_a_file_with_a_kernel_of_that_name_launches_its_own() -> None:
    other = unit_of(KERNEL + "void h(float* y) { f<<<9, 9>>>(y, 3, 4); }", "other.cu")
    here = unit_of(KERNEL + "void g(float* x) { f<<<1, 32>>>(x, 7, 2); }")
    context = RewriteContext(here, here.kernels[0], other_launch_sites=(OutsideLaunch(other, other.launch_sites[0]),))
    made = relaunched(context, **ROWS)
    assert isinstance(made, Rewritten)
    assert {one.file for one in made.edits} == {"case.cu"}
