"""Approximate functions carry their documented error: within the bound, not exact, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from optiml_core.device.emulator.build import definitions
from tests.device.runtime_harness import BuiltKernel

N = 4096
Wide = Callable[[Any], Any]


def run(expression: str, x: Any, prologue: str = "") -> Any:
    out = np.zeros(len(x), np.float32)
    source = (
        f"{prologue}__global__ void k(const float* a, float* o) {{ int i = blockIdx.x * 256 + threadIdx.x;"
        f" float x = a[i]; o[i] = {expression}; }}"
    )
    result = BuiltKernel(source, "k").launch(len(x) // 256, 256, x, out, races=0, lockstep=0)
    assert result.status == "done"
    return out


def ulps(found: Any, exact: Any) -> Any:
    return np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


# Expression, range, the exact function, the bound in ulp (CUDA C++ Programming Guide, tables of errors).
BY_ULP: list[tuple[str, tuple[float, float], Wide, Wide]] = [
    ("__expf(x)", (-20, 20), np.exp, lambda x: 2 + np.floor(np.abs(1.173 * x))),
    ("__exp10f(x)", (-10, 10), lambda x: 10.0**x, lambda x: 2 + np.floor(np.abs(2.97 * x))),
    ("__logf(x)", (3, 1e6), np.log, lambda x: 3 + 0 * x),
    ("__log2f(x)", (3, 1e6), np.log2, lambda x: 2 + 0 * x),
    ("__log10f(x)", (3, 1e6), np.log10, lambda x: 3 + 0 * x),
    ("__fdividef(1.0f, x)", (0.01, 100), lambda x: 1 / x, lambda x: 2 + 0 * x),
    ("rsqrtf(x)", (0.01, 100), lambda x: 1 / np.sqrt(x), lambda x: 2 + 0 * x),
]


@pytest.mark.parametrize(
    ("expression", "interval", "exact", "bound"), BY_ULP, ids=lambda v: v if isinstance(v, str) else ""
)
def test_error_in_ulp(expression: str, interval: tuple[float, float], exact: Wide, bound: Wide) -> None:
    x = np.random.default_rng(0).uniform(*interval, N).astype(np.float32)
    found, wide = run(expression, x), x.astype(np.float64)
    error = ulps(found, exact(wide))
    assert (error <= bound(wide) + 0.5).all()
    assert error.max() > 1.0  # an exact function has at most half a unit
    np.testing.assert_array_equal(found, run(expression, x))


BY_SIZE: list[tuple[str, tuple[float, float], Wide, float]] = [
    ("__logf(x)", (0.5, 2), np.log, 2.0**-21.41),
    ("__log2f(x)", (0.5, 2), np.log2, 2.0**-22),
    ("__sinf(x)", (-3.14, 3.14), np.sin, 2.0**-21.41),
    ("__cosf(x)", (-3.14, 3.14), np.cos, 2.0**-21.19),
]


@pytest.mark.parametrize(
    ("expression", "interval", "exact", "bound"), BY_SIZE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_absolute_error(expression: str, interval: tuple[float, float], exact: Wide, bound: float) -> None:
    x = np.random.default_rng(1).uniform(*interval, N).astype(np.float32)
    error = np.abs(run(expression, x).astype(np.float64) - exact(x.astype(np.float64)))
    assert error.max() <= bound + 2.0**-25  # and half a unit of a result near one
    assert error.max() > bound / 2


def test_division_by_huge_numbers_gives_zero() -> None:
    x = np.full(256, 2.0**127, np.float32)
    assert (run("__fdividef(3.0e38f, x)", x) == 0).all()
    assert (run("3.0e38f / x", x) > 1).all()


def test_exact_at_zero_and_one() -> None:
    assert (run("__expf(x)", np.zeros(256, np.float32)) == 1).all()
    assert (run("__logf(x)", np.ones(256, np.float32)) == 0).all()


def test_plain_functions_are_not_disturbed_unless_the_flag_says_so() -> None:
    x = np.random.default_rng(2).uniform(-10, 10, N).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert ulps(run("expf(x)", x), exact).max() <= 1.0
    fast = definitions(["-use_fast_math"])
    for expression in ("expf(x)", "exp(x)", "std::exp(x)"):
        np.testing.assert_array_equal(run(expression, x, fast), run("__expf(x)", x))
    np.testing.assert_array_equal(run("exp((double)x)", x, fast), run("(float)exp((double)x)", x))
