"""The widened build: the same kernel in wider types, and refusals where that would change its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.emulator.widening import widen, widen_arguments
from optiml_core.device.protocol import Contents, RunOptions, RunResult
from optiml_core.records import BufferArgument, BufferContent, Failure, Launch, Variant
from optiml_core.source import SourceFile, element_type_of, parse

TEXTS = [
    ("float x = 1.5f;", "double x = ((double)1.5f);"),
    ("float4 v = make_float4(0, 1, 2, 3);", "double4 v = make_double4(0, 1, 2, 3);"),
    ("double d = 1e-5;", "optiml_wide d = ((optiml_wide)1e-5);"),
    ("y = sqrtf(x) + __expf(x);", "y = optiml_wide_sqrt(x) + optiml_wide_exp(x);"),
    ("int n = 10; a[3] = b.x;", "int n = 10; a[3] = b.x;"),
    ("// float stays\n/* 1.0f */ float x;", "// float stays\n/* 1.0f */ double x;"),
    ('printf("%f float", x);', 'printf("%f float", x);'),
    ("long double l;", "long double l;"),
    ("s.sqrt(x); p->max(x);", "s.sqrt(x); p->max(x);"),
    ("sizeof(float) * 2", "sizeof(double) * 2"),
    ("reinterpret_cast<const float4*>(p)[0]", "reinterpret_cast<const double4*>(p)[0]"),
    ("__device__ float max(float a) { return a; } void f() { max(x); }",
     "__device__ double max(double a) { return a; } void f() { max(x); }"),
    ("0x1f + 1u + 07 + 1e3f", "0x1f + 1u + 07 + ((double)1e3f)"),
    ("float m = -std::numeric_limits<float>::max();", "double m = -((double)std::numeric_limits<float>::max());"),
    ("half h = __float2half(x);", "double h = optiml_wide_same(x);"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), TEXTS)
def test_tokens(before: str, after: str) -> None:
    assert widen(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "int i = __float_as_int(x);",
        "union u { float f; int i; };",
        "int* p = reinterpret_cast<int*>(x);",
        "int4 v = reinterpret_cast<const int4*>(x)[0];",
        "unsigned* p = (unsigned int*)x;",
        "char* p = (char*) x;",
        "memcpy(&a, &b, 4);",
        "__nv_fp8_e4m3 f;",
    ],
)
def test_refusals_name_the_line(text: str) -> None:
    found = widen(f"int a;\n{text}")
    assert isinstance(found, Failure)
    assert found.kind == "unsupported"
    assert found.message


def test_template_arguments() -> None:
    assert widen_arguments(("float", "4", "float4")) == ("double", "4", "double4")


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatorDevice]:
    made = EmulatorDevice()
    yield made
    made.close()


def run(device: EmulatorDevice, source: str, arrays: dict[str, Any], spelling: str, shared: int = 0) -> dict[str, Any]:
    unit = parse(SourceFile("k.cu", source.encode()))
    built = device.build(Variant("k.cu", source.encode(), unit.kernels[0].qualified), (), widened=True)
    assert not isinstance(built, Failure), built
    element = element_type_of(spelling)
    assert element is not None
    arguments = tuple(
        BufferArgument(name, element, len(array), BufferContent("normal")) for name, array in arrays.items()
    )
    launch = Launch((2, 1, 1), (32, 1, 1), shared, arguments)
    result = device.run(built, launch, Contents(arrays), RunOptions(checks=False))
    assert isinstance(result, RunResult), result
    assert result.guards_intact
    return dict(result.buffers)


def test_a_float_kernel_computes_in_double(device: EmulatorDevice) -> None:
    source = """
    __global__ void k(const float* x, float* y) {
      extern __shared__ float part[];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      part[threadIdx.x] = x[i] * (1.0f / 3.0f);
      __syncthreads();
      y[i] = expf(part[31 - threadIdx.x]) + rsqrtf(2.0f) + fmaxf(x[i], 0.25f);
    }"""
    x = np.linspace(-1, 1, 64)
    y = run(device, source, {"x": x, "y": np.zeros(64)}, "float", shared=128)["y"]
    mirrored = np.concatenate([x[:32][::-1], x[32:][::-1]])
    expected = np.exp(mirrored * (1 / 3)) + 1 / np.sqrt(2.0) + np.maximum(x, 0.25)
    np.testing.assert_allclose(y, expected, rtol=1e-15)


def test_a_double_kernel_computes_in_long_double(device: EmulatorDevice) -> None:
    source = """
    __global__ void k(const double* x, double* y) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      y[i] = sqrt(x[i]) / 3.0;
    }"""
    x = np.linspace(0, 2, 64, dtype=np.longdouble)
    y = run(device, source, {"x": x, "y": np.zeros(64, np.longdouble)}, "double")["y"]
    np.testing.assert_allclose(y, np.sqrt(x) / 3, rtol=1e-18)


def test_vector_loads_follow(device: EmulatorDevice) -> None:
    source = """
    __global__ void k(const float* x, float* y) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < 16) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v.x += 1.0f;
        reinterpret_cast<float4*>(y)[i] = v;
      }
    }"""
    x = np.random.default_rng(0).standard_normal(64)
    y = run(device, source, {"x": x, "y": np.zeros(64)}, "float")["y"]
    expected = x.copy()
    expected[::4] += 1
    np.testing.assert_array_equal(y, expected)
