"""Where stops are put behind loops: lines stay where they are, and what is not understood stays as it is."""

from __future__ import annotations

import pytest

from optiml_core.device.emulator.prepare import prepare_body

MEET = "optiml_device_meet();"


def check(before: str, after: str) -> None:
    prepared = prepare_body(before)
    assert prepared == after
    assert before.count("\n") == after.count("\n")


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("for (;i < n;) x[i] = 1;", None),  # lanes meet behind it by themselves: nothing comes round again
        ("for (;;) { for (int i = t; i < n; i++) x[i] = 1; }",
         f"for (;;) {{ {{ for (int i = t; i < n; i++) x[i] = 1; {MEET} }} }}"),
        ("for (;;) for (int i = t; i < n; i++) x[i] = 1;",
         f"for (;;) {{ for (int i = t; i < n; i++) x[i] = 1; {MEET} }}"),
        ("for (;;) for (int i = 0; i < 8; i++) x[i] = 1;", None),  # all lanes make the same turns
        ("for (;;) for (int i = 0; i < 8; i++) { if (x[i]) break; }",
         f"for (;;) {{ for (int i = 0; i < 8; i++) {{ if (x[i]) break; }} {MEET} }}"),
        ("for (;;) for (int i = t; i < n; i++) sum += i;", None),  # no access
        ("while (n) { do { x[n] = 1; } while (--n > t); }",
         f"while (n) {{ {{ do {{ x[n] = 1; }} while (--n > t); {MEET} }} }}"),
        ("for (;;) if (n) while (x[n]) n--; else x[0] = 1;",
         f"for (;;) if (n) {{ while (x[n]) n--; {MEET} }} else x[0] = 1;"),
        ("for (;;)\n#pragma unroll\nfor (int i = t; i < n; i++) x[i] = 1;", None),  # a pragma stays before its loop
        ("for (;;) { for (int i = t; i < n; i++ x[i] = 1; }", None),  # not C++
        ("auto f = [&] { for (;;) while (x[n]) n--; };",
         f"auto f = [&] {{ for (;;) {{ while (x[n]) n--; {MEET} }} }};"),
    ],
)  # fmt: skip
def test_loops_inside_loops(body: str, after: str | None) -> None:
    head = "__global__ void k(float* x, int n, int t) {\n"
    check(f"{head}{body}\n}}", f"{head}{body if after is None else after}\n}}")


@pytest.mark.parametrize(
    ("function", "meets"),
    [
        ("__device__ void f(float* x, int n) { for (int i = 0; i < n; i++) x[i] = 1; }", True),
        ("__host__ __device__ void f(float* x, int n) { for (int i = 0; i < n; i++) x[i] = 1; }", True),
        ("template <class T> __device__ T f(T* x, int n) { while (x[n]) n--; return x[n]; }", True),
        ("__device__ constexpr int f(const int* x, int n) { while (x[n]) n--; return n; }", False),
        ("constexpr __device__ int f(const int* x, int n) { while (x[n]) n--; return n; }", False),
        ("__device__ int table[] = {1, 2, 3};", False),
        ("__device__ void f(float* x, int n);", False),
    ],
)
def test_device_functions(function: str, meets: bool) -> None:
    prepared = prepare_body(function + "\n__global__ void k() {}")
    assert isinstance(prepared, str)
    assert (MEET in prepared) == meets
