"""Descriptions and what becomes of them: a specification, or one question. None is a prompt of the benchmark."""

from __future__ import annotations

import pytest

from optiml_core.synthesis import Draft, Question, specify

# description -> pattern, parameters (name type role shape) in the order of the kernel's signature
UNDERSTOOD = [
    ("y[i] = 2.5 * x[i] for n floats in x", "map", "x float input n; y float output n; n int size"),
    ("// z = a * x + y for the float vectors x, y and z of length n", "map", None),
    ("Add the n floats of a and b, into c.", "map", "a float input n; b float input n; c float output n; n int size"),
    ("Scale the vector u by beta and add it to v, both of len floats.", "axpy", None),
    ("Apply tanh to the n doubles of x, into y", "map", "x double input n; y double output n; n int size"),
    ("Largest of the n ints in v, into best", "reduction over all", "v int input n; best int output 1; n int size"),
    ("Sum over each column of a float matrix m (rows x cols), into s", "reduction over columns", None),
    ("Dot product of the vectors x and y of n floats, into d", "dot product", None),
    ("RMS norm of each row of a float matrix x (rows x cols), into y", "rms norm", None),
    ("Layer norm over the rows of a double matrix x (rows x cols), result in y", "layer norm", None),
    ("Transpose the float matrix a (h x w) into b", "transpose", None),
    ("C = A B for float matrices A (p x q) and B (q x r)", "matrix product", None),
    ("out[i] = u[i+1] - u[i-1] for n floats in u; zero outside", "stencil", None),
    ("Argmin of the n doubles in x, into place", "argmin", None),
    ("Count how many of the n ints in x are equal to 3, into hits", "count", None),
]
# description -> a part of the question
ASKED = [
    ("", "compute"),
    ("Order me a pizza", "recipe"),
    ("Sum the positive n floats of x into s", "`positive`"),
    ("Sum the n floats of x except the last into s", "`except`"),
    ("Do not sum the n floats of x into s", "`Do not`"),
    ("Sum of a float matrix x (rows x cols), into s", "all elements, each row, or each column"),
    ("Prefix sum of the n floats in x, into y", "inclusive"),
    ("out[i] = u[i-1] + u[i+1] for n floats in u", "outside"),
    ("Sort the n floats in x, result in y", "ascending"),
    ("y = x * gain for n floats in x", "`gain`"),
    ("y[i] = x[i] / z[i] for n ints in x and z", "integers"),
    ("Histogram of the n ints in keys", "bins"),
    ("C = A B for float matrices A (p x q) and B (r x s)", "columns"),
    ("Convolve a float image of h x w pixels with the 3x3 float filter f, zero padding, into out", "flipped"),
]


@pytest.mark.parametrize(("text", "pattern", "parameters"), UNDERSTOOD)
def test_a_description_becomes_a_specification(text: str, pattern: str, parameters: str | None) -> None:
    draft = specify(text)
    assert isinstance(draft, Draft), draft.text
    assert draft.specification.pattern == pattern
    if parameters is not None:
        found = [" ".join((p.name, p.type, p.role, *p.shape)) for p in draft.specification.parameters]
        assert "; ".join(found) == parameters


@pytest.mark.parametrize(("text", "part"), ASKED)
def test_what_is_open_is_asked(text: str, part: str) -> None:
    question = specify(text)
    assert isinstance(question, Question), question.specification
    assert part in question.text
