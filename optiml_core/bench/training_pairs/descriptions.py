"""Descriptions for the recipes, in random words: what is read, of which type, in which shape, where the result goes.

None is a prompt of `optiml bench synthesis`, which measures; those texts must not be trained on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from attrs import frozen

_ARRAYS = (
    "x", "y", "z", "a", "b", "c", "u", "v", "w", "p", "q", "g", "h", "r", "s", "data", "values", "vec", "field",
    "src", "dst", "rho", "phi", "psi", "xs", "ys", "inp", "res", "buf", "state", "flux",
)  # fmt: skip
_LENGTHS = (
    "n", "N", "len", "m", "cnt",
)  # fmt: skip
_AREAS = (("rows", "cols"), ("height", "width"), ("m", "n"), ("M", "N"), ("h", "w"), ("ny", "nx"), ("B", "D"))


class Namer:
    """Draws names that a description has not used yet; none is a word that means something in one."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def _draw(self, pool: Sequence[str]) -> str:
        name = self._rng.choice([one for one in pool if one not in self._used])
        self._used.add(name)
        return name

    def array(self) -> str:
        return self._draw(_ARRAYS)

    def length(self) -> str:
        return self._draw(_LENGTHS)

    def area(self) -> tuple[str, str]:
        pair = self._rng.choice([one for one in _AREAS if not self._used & set(one)])
        self._used.update(pair)
        return pair

    def inner(self) -> str:
        return self._draw(("K", "k", "depth", "inner"))

    def scalar(self) -> str:
        return self._draw(("alpha", "beta", "gamma", "tau"))


@frozen
class Description:
    pattern: str
    text: str


_TYPES = (("float", "floats"), ("float", "floats"), ("double", "doubles"))
_NUMBERS = (*_TYPES, ("int", "ints"))


def _vector(rng: random.Random, plural: str, name: str, n: str) -> str:
    return rng.choice([f"the {n} {plural} of {name}", f"the {n} {plural} in {name}"])


def _matrix(rng: random.Random, ctype: str, name: str, rows: str, cols: str) -> str:
    return rng.choice([
        f"the {ctype} matrix {name} ({rows} x {cols})",
        f"the row-major {ctype} matrix {name} ({rows} x {cols})",
        f"a {ctype} matrix {name} ({rows} x {cols})",
    ])  # fmt: skip


def _into(rng: random.Random, name: str, sep: str = ", ") -> str:
    return rng.choice([f"{sep}into {name}", f"; store the result in {name}", f"; write the result to {name}"])


def formula(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_TYPES)
    n, x, y, out = draw.length(), draw.array(), draw.array(), draw.array()
    a, b = rng.choice(["0.5", "2", "1.5", "0.25", "3"]), rng.choice(["0.1", "1", "4", "0.75", "2.5"])
    one = [f"{a} * {x}[i] + {b}", f"{x}[i] / ({b} + |{x}[i]|)", f"{a} * {x}[i]^2 - {b}", f"sqrt(|{x}[i]| + {b})",
           f"exp(-{a} * |{x}[i]|)", f"tanh({a} * {x}[i])"]  # fmt: skip
    two = [f"{a} * {x}[i] + {b} * {y}[i]", f"{x}[i] * {y}[i] + {b}", f"sqrt({x}[i]^2 + {y}[i]^2 + {b})",
           f"({x}[i] - {y}[i]) * {a}", f"{x}[i] / (|{y}[i]| + {b})"]  # fmt: skip
    both = rng.random() < 0.5
    value = rng.choice(two if both else one)
    arrays = f"{x} and {y} hold {n} {plural} each" if both else f"{x} holds {n} {plural}"
    start = rng.choice(["Compute", "Apply", "Calculate"])
    ending = rng.choice(["", " for each i"])
    return Description("formula", f"{arrays}. {start} {out}[i] = {value}{ending}.")


def reduction(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, plural = rng.choice(_NUMBERS)
    n, x, out = draw.length(), draw.array(), draw.array()
    what = rng.choice(["sum", "largest element", "smallest element", "maximum", "minimum"]
                      + (["mean", "Euclidean norm", "average"] if ctype != "int" else []))  # fmt: skip
    verb = rng.choice(["Compute", "Find", "Calculate"])
    return Description(f"reduce {what}", f"{verb} the {what} of {_vector(rng, plural, x, n)}{_into(rng, f'{out}[0]')}.")


def row_or_column(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_NUMBERS)
    (rows, cols), x, out = draw.area(), draw.array(), draw.array()
    what = rng.choice(["sum", "largest element", "smallest element", "maximum"] + (["mean"] if ctype != "int" else []))
    side = rng.choice(["row", "column"])
    matrix = _matrix(rng, ctype, x, rows, cols)
    text = rng.choice([
        f"For each {side} of {matrix}, find the {what}{_into(rng, out)}.",
        f"Compute the {what} of every {side} of {matrix}{_into(rng, out)}.",
    ])  # fmt: skip
    return Description(f"{side} {what}", text)


def softmax(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    (rows, cols), x, y = draw.area(), draw.array(), draw.array()
    matrix = _matrix(rng, ctype, x, rows, cols)
    text = rng.choice([
        f"Softmax over the rows of {matrix}{_into(rng, y)}.",
        f"Compute the softmax of each row of {matrix}{_into(rng, y)}.",
    ])  # fmt: skip
    return Description("softmax", text)


def normalisation(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    (rows, cols), x, y = draw.area(), draw.array(), draw.array()
    kind = rng.choice(["Layer norm", "RMS norm", "Layer normalization"])
    return Description(kind, f"{kind} over the rows of {_matrix(rng, ctype, x, rows, cols)}{_into(rng, y)}.")


def transpose(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_NUMBERS)
    (rows, cols), x, y = draw.area(), draw.array(), draw.array()
    matrix = _matrix(rng, ctype, x, rows, cols)
    return Description("transpose", rng.choice([
        f"Transpose {matrix}{_into(rng, y)}.", f"Write the transpose of {matrix} into {y}.",
    ]))  # fmt: skip


def matrix_product(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    (m, n), k, a, b, c = draw.area(), draw.inner(), draw.array(), draw.array(), draw.array()
    return Description("matrix product", rng.choice([
        f"Multiply the {ctype} matrices {a} ({m} x {k}) and {b} ({k} x {n}){_into(rng, f'{c} ({m} x {n})')}.",
        f"Compute the matrix product of the {ctype} matrices {a} ({m} x {k}) and {b} ({k} x {n})"
        f"{_into(rng, f'{c} ({m} x {n})')}.",
    ]))  # fmt: skip


def matrix_vector(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    (m, n), a, x, y = draw.area(), draw.array(), draw.array(), draw.array()
    return Description("matrix-vector product",
                       f"Multiply the {ctype} matrix {a} ({m} x {n}) by the {ctype} vector {x} of length {n}"
                       f"{_into(rng, y)}.")  # fmt: skip


def scan(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_NUMBERS)
    n, x, y = draw.length(), draw.array(), draw.array()
    kind = rng.choice(["Inclusive", "Exclusive", "inclusive", "exclusive"])
    start = f"{kind} prefix sum of" if kind[0].isupper() else f"Compute the {kind} prefix sum of"
    return Description(f"{kind.lower()} scan", f"{start} {_vector(rng, plural, x, n)}{_into(rng, y)}.")


def histogram(rng: random.Random) -> Description:
    draw = Namer(rng)
    n, x, h = draw.length(), draw.array(), draw.array()
    bins = rng.choice(["bins", "nbins", "64", "256", "128"])
    if bins == "256" and rng.random() < 0.5:
        text = f"Histogram with 256 bins of the {n} unsigned bytes in {x}{_into(rng, h)}."
        return Description("byte histogram", text)
    return Description("key histogram",
                       f"Count how often each key from 0 to {bins} - 1 occurs in the int array {x} of length {n}"
                       f"{_into(rng, f'the int array {h}')}.")  # fmt: skip


def argument_of_extreme(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_NUMBERS)
    n, x, out = draw.length(), draw.array(), draw.array()
    what = rng.choice(["largest", "smallest"])
    return Description(f"position of the {what}",
                       f"Find the position of the {what} of {_vector(rng, plural, x, n)}; if there are several, the "
                       f"first. Store it in the int {out}[0].")  # fmt: skip


def counting(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_NUMBERS)
    n, x, out = draw.length(), draw.array(), draw.array()
    how = rng.choice(["greater than", "less than", "at least", "at most"])
    limit = rng.choice(["threshold", "limit", "0", "2"])
    text = f"Count how many of {_vector(rng, plural, x, n)} are {how} {limit}, into the int {out}[0]."
    return Description("count", text)


def stencil(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_TYPES)
    n, u, v = draw.length(), draw.array(), draw.array()
    a, b, c = (rng.choice(["0.25", "0.5", "0.1", "0.3", "1", "2"]) for _ in range(3))
    sign = rng.choice(["+", "-"])
    edge = rng.choice([
        "elements outside count as zero", "boundary elements are copied", "clamp at the edges",
    ])  # fmt: skip
    return Description("stencil", f"Smooth the {n} {plural} in {u}: "
                       f"{v}[i] = {a}*{u}[i-1] {sign} {b}*{u}[i] + {c}*{u}[i+1]; {edge}.")  # fmt: skip


def gather(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_NUMBERS)
    n, x, y = draw.length(), draw.array(), draw.array()
    order = rng.choice(["order", "perm", "map_index"])
    return Description("gather", f"{order} is a permutation of 0 to {n} - 1. "
                       f"Write the {n} {plural} of {x} in that order: {y}[i] = {x}[{order}[i]].")  # fmt: skip


def sorting(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_NUMBERS)
    n, x, y = draw.length(), draw.array(), draw.array()
    how = rng.choice(["ascending", "descending"])
    return Description(f"sort {how}", f"Sort {_vector(rng, plural, x, n)} in {how} order{_into(rng, y, ' ')}.")


def convolution(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    out, side = draw.array(), rng.choice(["3x3", "5x5", "7x7", "3x5", "1x7"])
    rows, cols = rng.choice([("height", "width"), ("rows", "cols"), ("m", "n"), ("ny", "nx")])
    text = f"Convolve a {ctype} image of {rows} x {cols} pixels with the {side} {ctype} filter"
    return Description(f"convolution {side}", f"{text} (no flip, zero padding) into {out}.")


def sparse_product(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, _ = rng.choice(_TYPES)
    x, y = draw.array(), draw.array()
    rows, cols = rng.choice([("rows", "cols"), ("m", "n")])
    return Description(
        "sparse product",
        f"Multiply a sparse matrix in CSR form ({rows} rows; int row_offsets, int "
        f"column_indices, {ctype} values) by the dense {ctype} vector {x} of length {cols}, giving {y}.",
    )


def distances(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_TYPES)
    p, q, d = draw.array(), draw.array(), draw.array()
    m, n = rng.choice([("m", "n"), ("M", "N")])
    dims = rng.choice(["two", "three", "four"])
    text = f"For {m} points {p} and {n} points {q} in {dims} dimensions ({plural}, coordinates of a point next to each "
    text += f"other), compute the Euclidean distance {d} of every pair, an {m} x {n} matrix."
    return Description("distances", text)


def scaled_addition(rng: random.Random) -> Description:
    draw = Namer(rng)
    ctype, plural = rng.choice(_TYPES)
    n, x, y, a = draw.length(), draw.array(), draw.array(), draw.scalar()
    return Description("axpy", f"Scale the vector {x} by the {ctype} {a} and add it to {y}, both of {n} {plural}, "
                       f"updating {y} in place.")  # fmt: skip


def dot(rng: random.Random) -> Description:
    draw = Namer(rng)
    _, plural = rng.choice(_TYPES)
    n, x, y, out = draw.length(), draw.array(), draw.array(), draw.array()
    return Description("dot product", f"Dot product of the vectors {x} and {y} of {n} {plural} each"
                       f"{_into(rng, f'{out}[0]')}.")  # fmt: skip


DESCRIPTIONS: tuple[tuple[Callable[[random.Random], Description], int], ...] = (
    (formula, 8), (reduction, 4), (row_or_column, 5), (softmax, 2), (normalisation, 3), (transpose, 2),
    (matrix_product, 2), (matrix_vector, 2), (scan, 2), (histogram, 2), (argument_of_extreme, 2), (counting, 2),
    (stencil, 4), (gather, 1), (sorting, 1), (convolution, 2), (sparse_product, 1), (distances, 1),
    (scaled_addition, 1), (dot, 1),
)  # fmt: skip


def draw_description(rng: random.Random) -> Description:
    return rng.choices([one for one, _ in DESCRIPTIONS], [weight for _, weight in DESCRIPTIONS])[0](rng)
