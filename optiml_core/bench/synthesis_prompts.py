"""The prompts of `optiml bench synthesis`: thirty of our own, over the twelve problem types of ParEval.

Written before any recipe existed, and not to be changed to suit one. Each prompt names its arrays and sizes, so
that a generated kernel's parameters can be matched by name; ``reference`` computes the outputs with NumPy in
float64 (integers stay integers). Problem types: Nichols et al., "Can Large Language Models Write Parallel Code?"
(ParEval, 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

Arrays = Mapping[str, npt.NDArray[Any]]
Sizes = Mapping[str, int]
Make = Callable[[np.random.Generator, Sizes], dict[str, npt.NDArray[Any]]]
Reference = Callable[[Arrays, Sizes], dict[str, npt.NDArray[Any]]]


@frozen
class Prompt:
    """``make`` draws the input arrays, ``reference`` computes the outputs, ``sizes`` are the size sets to try.

    ``scalars`` are further by-value arguments. An array that is both drawn and computed is updated in place.
    """

    name: str
    problem_type: str
    text: str
    make: Make
    reference: Reference
    sizes: tuple[dict[str, int], ...]
    scalars: Mapping[str, float] = {}


def _normal(name: str, *extents: str, dtype: str = "float32") -> Make:
    def make(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
        return {name: rng.standard_normal([sizes[e] for e in extents]).astype(dtype)}

    return make


def _both(*makers: Make) -> Make:
    def make(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for maker in makers:
            arrays.update(maker(rng, sizes))
        return arrays

    return make


def _integers(name: str, low: int, high: int | str, *extents: str) -> Make:
    def make(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
        top = sizes[high] if isinstance(high, str) else high
        return {name: rng.integers(low, top, [sizes[e] for e in extents]).astype("int32")}

    return make


def _wide(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return value.astype("float64")


LINES = ({"n": 1}, {"n": 97}, {"n": 1000}, {"n": 4099})
GRIDS = ({"rows": 1, "cols": 1}, {"rows": 5, "cols": 67}, {"rows": 33, "cols": 31}, {"rows": 64, "cols": 100})
MATRICES = ({"m": 1, "n": 1, "k": 1}, {"m": 17, "n": 33, "k": 9}, {"m": 64, "n": 48, "k": 32})


def _csr(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    lengths = rng.integers(0, min(9, sizes["cols"] + 1), sizes["rows"])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
    columns = rng.integers(0, sizes["cols"], offsets[-1]).astype("int32")
    return {
        "row_offsets": offsets,
        "column_indices": columns,
        "values": rng.standard_normal(len(columns)).astype("float32"),
        "x": rng.standard_normal(sizes["cols"]).astype("float32"),
    }


def _spmv(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    products = _wide(a["values"]) * _wide(a["x"])[a["column_indices"]]
    rows = np.repeat(np.arange(s["rows"]), np.diff(a["row_offsets"]))
    return {"y": np.bincount(rows, products, s["rows"])}


def _coo(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    return {
        "row_index": rng.integers(0, sizes["rows"], sizes["nnz"]).astype("int32"),
        "values": rng.standard_normal(sizes["nnz"]).astype("float32"),
    }


def _stencil2d(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    u = _wide(a["u"])
    out = u.copy()
    out[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return {"out": out}


def _padded_convolution(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    image, kernel = _wide(a["image"]), _wide(a["filter"])
    padded = np.pad(image, 1)
    out = np.zeros_like(image)
    for dy in range(3):
        for dx in range(3):
            out += kernel[dy, dx] * padded[dy : dy + s["height"], dx : dx + s["width"]]
    return {"out": out}


def _dft(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    spectrum = np.fft.fft(_wide(a["x"]))
    return {"re": spectrum.real.copy(), "im": spectrum.imag.copy()}


def _softmax(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    x = _wide(a["x"])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}


def _distances(a: Arrays, s: Sizes) -> dict[str, npt.NDArray[Any]]:
    p, q = _wide(a["p"]), _wide(a["q"])
    return {"d": np.sqrt(((p[:, None, :] - q[None, :, :]) ** 2).sum(-1))}


def _points(name: str, extent: str, dimensions: int) -> Make:
    def make(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
        return {name: rng.standard_normal((sizes[extent], dimensions)).astype("float32")}

    return make


def _filter3(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    return {"filter": rng.standard_normal((3, 3)).astype("float32")}


def _sorted_table(rng: np.random.Generator, sizes: Sizes) -> dict[str, npt.NDArray[Any]]:
    return {"table": np.sort(rng.standard_normal(sizes["n"])).astype("float32")}


def _one(value: Any, dtype: str = "float64") -> npt.NDArray[Any]:
    return np.asarray([value], dtype)


PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "gemm", "dense_la",
        "Multiply the row-major float matrices A (m x k) and B (k x n) and store the product in C (m x n).",
        _both(_normal("A", "m", "k"), _normal("B", "k", "n")),
        lambda a, s: {"C": _wide(a["A"]) @ _wide(a["B"])}, MATRICES,
    ),
    Prompt(
        "gemv", "dense_la",
        "y = A x, where A is a float matrix with rows rows and cols columns stored row by row.",
        _both(_normal("A", "rows", "cols"), _normal("x", "cols")),
        lambda a, s: {"y": _wide(a["A"]) @ _wide(a["x"])}, GRIDS,
    ),
    Prompt(
        "axpy", "dense_la",
        "Scale the vector x by the double alpha and add it to y, both of n doubles, updating y in place.",
        _both(_normal("x", "n", dtype="float64"), _normal("y", "n", dtype="float64")),
        lambda a, s: {"y": 1.5 * a["x"] + a["y"]}, LINES, {"alpha": 1.5},
    ),
    Prompt(
        "dft", "fft",
        "Compute the discrete Fourier transform of the n real floats x; write the real parts to re and the "
        "imaginary parts to im.",
        _normal("x", "n"), _dft, ({"n": 1}, {"n": 16}, {"n": 97}),
    ),
    Prompt(
        "power spectrum", "fft",
        "Given the real parts re and the imaginary parts im of a spectrum of n floats each, compute the power "
        "p[i] = re[i]^2 + im[i]^2.",
        _both(_normal("re", "n"), _normal("im", "n")),
        lambda a, s: {"p": _wide(a["re"]) ** 2 + _wide(a["im"]) ** 2}, LINES,
    ),
    Prompt(
        "pairwise distances", "geometry",
        "For m points p and n points q in three dimensions (floats, coordinates of a point next to each other), "
        "compute the Euclidean distance d of every pair, an m x n matrix.",
        _both(_points("p", "m", 3), _points("q", "n", 3)), _distances,
        ({"m": 1, "n": 1}, {"m": 33, "n": 17}, {"m": 64, "n": 70}),
    ),
    Prompt(
        "centroid coordinate", "geometry",
        "Find the mean of the x coordinates of n points; px holds them as floats. Store the mean in center[0].",
        _normal("px", "n"), lambda a, s: {"center": _one(_wide(a["px"]).mean())}, LINES,
    ),
    Prompt(
        "degrees", "graph",
        "A graph has n nodes and m edges; edge e leaves node source[e]. Count the out-degree of every node in the int "
        "array degree.",
        _integers("source", 0, "n", "m"),
        lambda a, s: {"degree": np.bincount(a["source"], minlength=s["n"]).astype("int32")},
        ({"n": 1, "m": 1}, {"n": 31, "m": 500}, {"n": 1000, "m": 4099}),
    ),
    Prompt(
        "edge differences", "graph",
        "For every edge e of m edges, compute diff[e] = value[target[e]] - value[source[e]], where value holds one "
        "float for each of the n nodes.",
        _both(_integers("source", 0, "n", "m"), _integers("target", 0, "n", "m"), _normal("value", "n")),
        lambda a, s: {"diff": _wide(a["value"])[a["target"]] - _wide(a["value"])[a["source"]]},
        ({"n": 1, "m": 1}, {"n": 31, "m": 500}, {"n": 1000, "m": 4099}),
    ),
    Prompt(
        "byte histogram", "histogram",
        "Build a histogram with 256 bins of the n unsigned bytes in data; counts is an array of ints.",
        lambda rng, s: {"data": rng.integers(0, 256, s["n"]).astype("uint8")},
        lambda a, s: {"counts": np.bincount(a["data"], minlength=256).astype("int32")}, LINES,
    ),
    Prompt(
        "key histogram", "histogram",
        "Count how often each key from 0 to bins - 1 occurs in the int array keys of length n, into the int array "
        "hist.",
        _integers("keys", 0, "bins", "n"),
        lambda a, s: {"hist": np.bincount(a["keys"], minlength=s["bins"]).astype("int32")},
        ({"n": 1, "bins": 1}, {"n": 1000, "bins": 10}, {"n": 4099, "bins": 37}),
    ),
    Prompt(
        "uniform bins", "histogram",
        "x holds n floats in [0, 1). Count how many fall into each of bins equal intervals and store the counts in the "
        "int array hist.",
        lambda rng, s: {"x": rng.random(s["n"], dtype="float32")},
        lambda a, s: {
            "hist": np.bincount(
                np.minimum((a["x"] * np.float32(s["bins"])).astype(int), s["bins"] - 1), minlength=s["bins"]
            ).astype("int32")
        },
        ({"n": 1, "bins": 1}, {"n": 1000, "bins": 10}, {"n": 4099, "bins": 37}),
    ),
    Prompt(
        "sum", "reduce",
        "Sum the n floats of x into result[0].",
        _normal("x", "n"), lambda a, s: {"result": _one(_wide(a["x"]).sum())}, LINES,
    ),
    Prompt(
        "row maximum", "reduce",
        "For each row of the row-major float matrix x (rows x cols) find the largest element and store it in top.",
        _normal("x", "rows", "cols"), lambda a, s: {"top": _wide(a["x"]).max(axis=1)}, GRIDS,
    ),
    Prompt(
        "euclidean norm", "reduce",
        "Compute the Euclidean norm of the vector v of n doubles; store it in norm[0].",
        _normal("v", "n", dtype="float64"), lambda a, s: {"norm": _one(np.sqrt((a["v"] ** 2).sum()))}, LINES,
    ),
    Prompt(
        "inclusive scan", "scan",
        "Inclusive prefix sum of the n ints in x, into y.",
        _integers("x", -50, 50, "n"), lambda a, s: {"y": np.cumsum(a["x"]).astype("int32")}, LINES,
    ),
    Prompt(
        "exclusive scan", "scan",
        "Write the exclusive prefix sum of the float array x of length n to out.",
        _normal("x", "n"),
        lambda a, s: {"out": np.concatenate([[0.0], np.cumsum(_wide(a["x"]))[:-1]])}, LINES,
    ),
    Prompt(
        "row scan", "scan",
        "For every row of a float matrix x with rows rows and cols columns compute the running sum along the row, "
        "in y.",
        _normal("x", "rows", "cols"), lambda a, s: {"y": np.cumsum(_wide(a["x"]), axis=1)}, GRIDS,
    ),
    Prompt(
        "argmax", "search",
        "Find the position of the largest of the n floats in x; if there are several, the first. Store it in the int "
        "index[0].",
        _normal("x", "n"), lambda a, s: {"index": _one(int(a["x"].argmax()), "int32")}, LINES,
    ),
    Prompt(
        "count above", "search",
        "Count how many of the n floats in x are greater than threshold, into the int count[0].",
        _normal("x", "n"), lambda a, s: {"count": _one(int((a["x"] > 0.5).sum()), "int32")}, LINES,
        {"threshold": 0.5},
    ),
    Prompt(
        "lower bound", "search",
        "table is a sorted array of n floats. For each of the m floats in queries find the number of elements of table "
        "that are smaller, and store it in the int array position.",
        _both(_sorted_table, _normal("queries", "m")),
        lambda a, s: {"position": np.searchsorted(a["table"], a["queries"], "left").astype("int32")},
        ({"n": 1, "m": 1}, {"n": 97, "m": 1000}, {"n": 1000, "m": 333}),
    ),
    Prompt(
        "sort", "sort",
        "Sort the n floats in x in ascending order and write the result to y.",
        _normal("x", "n"), lambda a, s: {"y": np.sort(_wide(a["x"]))}, ({"n": 1}, {"n": 97}, {"n": 1000}),
    ),
    Prompt(
        "permute", "sort",
        "order is a permutation of 0 to n - 1. Write the n floats of x in that order: y[i] = x[order[i]].",
        _both(_normal("x", "n"), lambda rng, s: {"order": rng.permutation(s["n"]).astype("int32")}),
        lambda a, s: {"y": _wide(a["x"])[a["order"]]}, LINES,
    ),
    Prompt(
        "spmv csr", "sparse_la",
        "Multiply a sparse matrix in CSR form (rows rows; int row_offsets, int column_indices, float values) by the "
        "dense float vector x of length cols, giving y.",
        _csr, _spmv, ({"rows": 1, "cols": 1}, {"rows": 97, "cols": 31}, {"rows": 1000, "cols": 333}),
    ),
    Prompt(
        "coo row sums", "sparse_la",
        "A sparse matrix is stored as nnz entries, entry e being the float values[e] in row row_index[e]. Add up the "
        "entries of each of the rows rows into y.",
        _coo,
        lambda a, s: {"y": np.bincount(a["row_index"], _wide(a["values"]), s["rows"])},
        ({"rows": 1, "nnz": 1}, {"rows": 31, "nnz": 500}, {"rows": 1000, "nnz": 4099}),
    ),
    Prompt(
        "three point stencil", "stencil",
        "Smooth the n floats in u: out[i] = 0.25*u[i-1] + 0.5*u[i] + 0.25*u[i+1]; elements outside count as zero.",
        _normal("u", "n"),
        lambda a, s: {"out": np.convolve(_wide(a["u"]), [0.25, 0.5, 0.25], "same") if s["n"] > 2
                      else np.convolve(_wide(a["u"]), [0.25, 0.5, 0.25])[1:-1]},
        LINES,
    ),
    Prompt(
        "jacobi", "stencil",
        "One Jacobi step on a rows x cols float grid u: every interior point of out becomes the average of its four "
        "neighbours in u, boundary points are copied.",
        _normal("u", "rows", "cols"), _stencil2d,
        ({"rows": 3, "cols": 3}, {"rows": 5, "cols": 67}, {"rows": 64, "cols": 100}),
    ),
    Prompt(
        "convolution", "stencil",
        "Convolve a float image of height x width pixels with the 3x3 float filter (no flip, zero padding) into out.",
        _both(_normal("image", "height", "width"), _filter3), _padded_convolution,
        ({"height": 1, "width": 1}, {"height": 5, "width": 67}, {"height": 64, "width": 50}),
    ),
    Prompt(
        "squash", "transform",
        "Apply y = x / (1 + |x|) to each of the n floats of x.",
        _normal("x", "n"), lambda a, s: {"y": _wide(a["x"]) / (1 + np.abs(_wide(a["x"])))}, LINES,
    ),
    Prompt(
        "softmax", "transform",
        "Softmax over the rows of a float matrix x (rows x cols), result in y.",
        _normal("x", "rows", "cols"), _softmax, GRIDS,
    ),
)  # fmt: skip
