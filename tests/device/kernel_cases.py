"""Reads kernels of the tests from ``kernels/*.cu``: one file holds many cases, each with its launch and results.

//// name of the case
//// launch 2, (32, 4) shared=1024          grid, block, options of BuiltKernel.launch
//// argument floats(64)                    in the order of the parameters; NumPy arrays or numbers with a C type
//// expect 0 = floats(64)[::-1]            an argument's contents afterwards
//// output hello 1 2.5                     a line that printf must have written
__global__ void k(...) { ... }              a line that ends in ``// ! out-of-bounds, race-in-warp`` must have exactly
                                            these faults, any other line none
"""

from __future__ import annotations

import ast
import ctypes as C
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

WORDS = ("argument", "expect", "close", "output")
FOLDER = Path(__file__).parent / "kernels"


def floats(n: int) -> Any:
    return np.arange(n, dtype=np.float32)


def ints(n: int, start: int = 0, step: int = 0) -> Any:
    return (start + step * np.arange(n)).astype(np.int32)


def zeros(n: int, dtype: Any = np.float32) -> Any:
    return np.zeros(n, dtype)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32, scale: float = 1.0) -> Any:
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def integers(low: int, high: int, n: int, dtype: Any = np.int32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


NAMES = {
    "np": np,
    "floats": floats,
    "ints": ints,
    "zeros": zeros,
    "normal": normal,
    "integers": integers,
    "int": C.c_int,
    "float": C.c_float,
    "double": C.c_double,
    "unsigned": C.c_uint,
    "long": C.c_longlong,
    "bf16": ml_dtypes.bfloat16,
    "ml_dtypes": ml_dtypes,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "u32": np.uint32,
    "u8": np.uint8,
    "i8": np.int8,
    "i64": np.int64,
}


@frozen
class KernelCase:
    """One kernel ``k`` with its launch. Expressions are evaluated anew by each call, so that runs are independent."""

    name: str
    source: str
    launch: str
    arguments: tuple[str, ...]
    expected: tuple[tuple[int, str, float], ...]  # argument, contents, relative error allowed
    output: tuple[str, ...]
    faults: frozenset[tuple[str, int]]

    def values(self) -> list[Any]:
        return [evaluate(text) for text in self.arguments]

    def options(self) -> tuple[Any, Any, dict[str, Any]]:
        """Grid, block, further options."""
        call = ast.parse(f"f({self.launch})", mode="eval").body
        assert isinstance(call, ast.Call)
        grid, block = (ast.literal_eval(a) for a in call.args)
        return grid, block, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}

    def check(self, before: list[Any], after: list[Any]) -> None:
        """Compares what the launch left with what must come out; expressions see the arguments before it as ``a``."""
        for number, text, allowed in self.expected:
            wanted = np.asarray(evaluate(text, a=before))
            found = after[number]
            assert found.shape == wanted.shape
            if allowed:
                np.testing.assert_allclose(
                    found.astype(np.longdouble), wanted.astype(np.longdouble), rtol=allowed, atol=allowed
                )
            else:
                np.testing.assert_array_equal(found.astype(wanted.dtype), wanted, err_msg=f"argument {number}")


def evaluate(text: str, **more: Any) -> Any:
    return eval(text, {**NAMES, **more})


def read_cases(file: str) -> list[KernelCase]:
    text = (FOLDER / file).read_text()
    cases = []
    for block in re.split(r"^//// (?=\w+[^\n]*\n//// launch)", text, flags=re.MULTILINE)[1:]:
        head, body, name = [], [], ""
        for number, line in enumerate(block.splitlines()):
            if number == 0:
                name = line
            elif line.startswith("//// "):
                head.append(line[5:])
            else:
                body.append(line)
        faults = set()
        for number, line in enumerate(body, 1):
            marks = re.search(r"// ! (.+)$", line)
            faults |= {(what.strip(), number) for what in marks[1].split(",")} if marks else set()
        of = {word: [h.partition(" ")[2] for h in head if h.startswith(word + " ")] for word in WORDS}
        launch = next(h.partition(" ")[2] for h in head if h.startswith("launch"))
        expected = [(int(e.partition("=")[0]), e.partition("=")[2].strip(), 0.0) for e in of["expect"]]
        for e in of["close"]:
            contents, _, allowed = e.partition("=")[2].rpartition(" within ")
            expected.append((int(e.partition("=")[0]), contents.strip(), float(allowed)))
        cases.append(
            KernelCase(
                name,
                "\n".join(body) + "\n",
                re.sub(r"\s+(?=\w+=)", ", ", launch),
                tuple(of["argument"]),
                tuple(expected),
                tuple(of["output"]),
                frozenset(faults),
            )
        )
    assert cases, file
    assert len({c.name for c in cases}) == len(cases), "two cases of one name"
    return cases
