"""Every recipe on the emulator against its reference; and a wrong kernel is not offered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.synthesis import Draft, Question, specify, synthesize
from optiml_core.synthesis.checking import check
from tests.synthesis.pattern_families import FAMILIES
from tests.synthesis.test_specify import UNDERSTOOD

MORE = [
    "Softmax of each row of a double matrix x (rows x cols), into y",
    "Exclusive scan of the n doubles in a, into b",
    "Cumulative sum along each row of an int matrix x (rows x cols), into y",
    "Histogram with 256 bins of the n bytes in text, into the int array counts",
    "y = M x for the double matrix M (rows x cols) and the double vector x of length cols",
    "out[i][j] = u[i-1][j] + u[i][j+1] for a float grid u (h x w); nearest outside",
    "y[i] = table[key[i]] for n floats in y, table holds m floats and int key[i]",
    "Sort the n ints in x in descending order, into y",
    "Squared distances d between m points p and n points q in two dimensions (doubles)",
]


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as device:
        yield device


@pytest.mark.parametrize("text", [case[0] for case in UNDERSTOOD] + MORE)
def test_a_drafted_kernel_is_equal_to_its_reference(text: str, emulator: EmulatorDevice) -> None:
    answer = synthesize(text, emulator)
    assert answer.specification is not None, answer.question
    assert [one.detail for one in answer.checks if one.result != "passed"] == []
    assert answer.passed
    assert "// optiml:" in answer.source


@pytest.mark.parametrize(("family", "text", "pattern"), FAMILIES)
def test_every_family_has_recipes_that_pass(family: str, text: str, pattern: str, emulator: EmulatorDevice) -> None:
    answer = synthesize(text, emulator)
    assert answer.specification is not None, answer.question
    assert answer.specification.pattern == pattern
    assert [one.detail for one in answer.checks if one.result != "passed"] == []
    assert answer.passed


def test_a_parameter_may_have_the_name_of_a_local_variable(emulator: EmulatorDevice) -> None:
    answer = synthesize("Argmax of the n ints in best, into position", emulator)
    assert answer.passed, (answer.question, answer.checks)
    assert answer.specification is not None
    assert [one.name for one in answer.specification.parameters] == ["best", "position", "n"]


# description, what a mistake would replace in the body, by what
MISTAKES = [
    ("Sum the n floats of x into s", "mine + other", "mine - other"),
    ("Inclusive prefix sum of the n ints in x, into y", "before + tile", "tile"),
    ("Transpose the float matrix a (h x w) into b", "tile[threadIdx.x][threadIdx.y + i]", "tile[threadIdx.y + i][0]"),
    ("y[i] = 2.5 * x[i] for n floats in x", "if (i >= n) return;", ""),
    ("y[i] = 2.5 * x[i] for n floats in x", "2.5f", "2.501f"),
    ("Argmax of the n ints in x, into place", "where < position[threadIdx.x]", "where > position[threadIdx.x]"),
]


@pytest.mark.parametrize(("text", "right", "wrong"), MISTAKES)
def test_a_wrong_body_fails_its_checks(text: str, right: str, wrong: str, emulator: EmulatorDevice) -> None:
    draft = specify(text)
    assert isinstance(draft, Draft)
    assert right in draft.body
    checks = check(evolve(draft, body=draft.body.replace(right, wrong)), emulator)
    assert any(one.result == "failed" for one in checks)


def test_a_question_builds_nothing(emulator: EmulatorDevice) -> None:
    assert isinstance(specify("Prefix sum of the n floats in x, into y"), Question)
    answer = synthesize("Prefix sum of the n floats in x, into y", emulator)
    assert not answer.passed
    assert answer.source == ""
    assert "inclusive" in answer.question
