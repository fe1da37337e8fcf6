"""Roles of buffers from runs of the original, not from ``const``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optiml_core.device.protocol import Array, Contents, RunResult
from optiml_core.records import BufferArgument, BufferContent, ElementType, Failure, Launch
from optiml_core.verification.roles import Roles, declared_outputs, find_roles

FLOAT = ElementType("float", "float32", 4, 4)
INT = ElementType("int", "int32", 4, 4)
SIZE = 16

Change = Callable[[dict[str, Array]], None]


def launch(*outputs: str) -> Launch:
    def argument(name: str) -> BufferArgument:
        content = BufferContent("poison" if name in outputs else "normal")
        return BufferArgument(name, INT if name == "i" else FLOAT, SIZE, content)

    return Launch((1, 1, 1), (SIZE, 1, 1), 0, tuple(argument(name) for name in "abci"))


def contents(seed: int) -> Contents:
    random = np.random.default_rng(seed)
    buffers = {name: random.normal(0, 1, SIZE).astype(np.float32) for name in "abc"}
    return Contents({**buffers, "i": random.integers(0, SIZE, SIZE).astype(np.int32)})


def roles_of(change: Change, *outputs: str) -> Roles:
    def run(given: Contents) -> RunResult | Failure:
        buffers = {name: np.array(array) for name, array in given.buffers.items()}
        with np.errstate(all="ignore"):
            change(buffers)
        return RunResult(buffers, (), True)

    found = find_roles(run, launch(*outputs), contents(1), contents(2))
    assert isinstance(found, Roles)
    return found


def assign(name: str, compute: Callable[[dict[str, Array]], Array]) -> Change:
    def change(b: dict[str, Array]) -> None:
        b[name][...] = compute(b)

    return change


def half_of_c(b: dict[str, Array]) -> None:
    b["c"][: SIZE // 2] = b["a"][: SIZE // 2]


def last_touch(b: dict[str, Array]) -> None:
    b["b"][...] = b["a"]
    b["c"][...] = b["b"] * 2


@pytest.mark.parametrize(
    ("change", "outputs", "expected", "read_first"),
    [
        (assign("c", lambda b: b["a"] + b["b"]), "c", {"a": "in", "b": "in", "c": "out", "i": "untouched"}, ()),
        (assign("c", lambda b: b["a"][b["i"]]), "c", {"a": "in", "b": "untouched", "c": "out", "i": "in"}, ()),
        (assign("c", lambda b: b["c"] + b["a"]), "c", {"a": "in", "c": "in place"}, ("c",)),
        (assign("c", lambda b: b["c"] * 0 + b["a"]), "c", {"c": "in place"}, ("c",)),
        (assign("c", lambda b: b["c"] + b["a"]), "", {"a": "in", "c": "in place"}, ()),
        (half_of_c, "c", {"a": "in", "c": "out"}, ()),
        (last_touch, "bc", {"a": "in", "b": "out", "c": "out"}, ()),
        (assign("c", lambda b: b["b"] + b["a"]), "bc", {"b": "in", "c": "out"}, ("b",)),
        (lambda b: None, "c", {"a": "untouched", "c": "untouched"}, ()),
    ],
)
def test_roles(change: Change, outputs: str, expected: dict[str, str], read_first: tuple[str, ...]) -> None:
    found = roles_of(change, *outputs)
    assert {name: found.by_name[name] for name in expected} == expected
    assert found.read_first == read_first


def test_noise_is_no_evidence_of_reading() -> None:
    random = np.random.default_rng(5)
    noisy = assign("c", lambda b: b["a"] + random.normal(0, 1e-6, SIZE))
    assert roles_of(noisy, "c").read_first == ()


def test_a_failing_run_is_passed_on() -> None:
    failure = Failure("timeout", "too long")
    assert find_roles(lambda given: failure, launch("c"), contents(1), contents(2)) == failure


def test_declared_outputs() -> None:
    assert declared_outputs(launch("c", "a")) == ("a", "c")
