"""Recipes over all pairs: distances of points, and the discrete Fourier transform by its definition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    ctype_of,
    line_grid,
    literal,
    sizes_of,
)
from optiml_core.synthesis.reading import Reading, extents, type_named
from optiml_core.synthesis.records import Array, Draft, Specification

Names = Mapping[str, int | float]

DIMENSIONS = {"one": 1, "two": 2, "three": 3, "four": 4}


def pairwise(reading: Reading) -> Draft:
    """Distances between every point of one set and every point of another."""
    sets = reading.op("pairwise")
    both = reading.op("distances between")
    found, asked = (both, both) if both is not None else (sets, reading.op("distances"))
    if found is None or asked is None:
        raise Missing(
            "Distances between which points, and how many of them (`m points p and n points q in 3 dimensions`)?"
        )
    many = found.groups["many"].lower()
    count = DIMENSIONS.get(many) or int(many)
    squared = bool(asked.groups.get("squared"))
    if not squared and not asked.groups.get("euclidean"):
        raise Missing("Which distance: Euclidean, or squared Euclidean?")
    m, p, n, q = (found.groups[name] for name in ("m", "p", "n", "q"))
    named = asked.groups.get("name")
    if named and reading.output not in (None, named):
        raise Missing(f"Where do the distances go: `{named}` or `{reading.output}`?")
    target = reading.output or named or "out"
    points = reading.mark("doubles points")
    if points is not None:
        reading.number_type = type_named(points.groups.get("type") or points.groups["type2"])
    shape = reading.mark("shape")
    if shape is not None and extents(shape.groups["shape"]) != (m, n):
        raise Missing(f"The distances form a {m} x {n} matrix, not {shape.groups['shape']}; which is meant?")
    ctype = ctype_of(reading, p)
    root = "" if squared else "sqrtf" if ctype == "float" else "sqrt"
    body = f"""  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= {m} || j >= {n}) return;
  {ctype} sum = {literal(ctype, "0")};
  for (int axis = 0; axis < {count}; axis++) {{
    const {ctype} difference = {p}[i * {count} + axis] - {q}[j * {count} + axis];
    sum += difference * difference;
  }}
  {target}[i * {n} + j] = {root}(sum);
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        squares = ((arrays[p][:, None] - arrays[q][None]) ** 2).sum(-1)
        return {target: squares if squared else np.sqrt(squares)}

    parameters = (
        array(reading, p, (m, str(count)), "input", ctype), array(reading, q, (n, str(count)), "input", ctype),
        array(reading, target, (m, n), "output", ctype), *sizes_of([(m, n)]),
    )  # fmt: skip
    specification = Specification(
        "pairwise_distances", "pairwise interaction", parameters,
        f"{target}[i, j] = " + ("" if squared else "sqrt") + f"(sum(({p}[i] - {q}[j])**2))",
        ("coordinates of a point lie next to each other", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (f"ceil_div({n}, 32)", f"ceil_div({m}, 8)"), (32, 8), compute)


def discrete_fourier(reading: Reading) -> Draft:
    """The discrete Fourier transform of real numbers by its definition: n*n steps."""
    reading.op("dft")
    parts = reading.op("dft parts")
    if parts is None:
        raise Missing("Where should the parts go (`write the real parts to re and the imaginary parts to im`)?")
    real, imaginary = parts.groups["re"], parts.groups["im"]
    sources = [name for name in reading.inputs() if name not in (real, imaginary)]
    if len(sources) != 1:
        raise Missing("Which real array is transformed, and how long is it (`n real floats x`)?")
    source = sources[0]
    length, ctype = (reading.shape_of(source) or ("n",))[0], ctype_of(reading, source)
    end, zero = ("f" if ctype == "float" else ""), literal(ctype, "0")
    body = f"""  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= {length}) return;
  {ctype} real = {zero};
  {ctype} imaginary = {zero};
  for (int t = 0; t < {length}; t++) {{
    // The angle is reduced in integers, so that it stays exact for large k * t.
    const int turn = (long long)k * t % {length};
    {ctype} sine, cosine;
    sincospi{end}(({ctype})-2 * turn / {length}, &sine, &cosine);
    real += {source}[t] * cosine;
    imaginary += {source}[t] * sine;
  }}
  {real}[k] = real;
  {imaginary}[k] = imaginary;
"""
    if {source, real, imaginary, length} & {"k", "t", "turn", "sine", "cosine", "real", "imaginary"}:
        raise Missing("Please name the arrays other than k, t, turn, sine, cosine, real and imaginary; how?")

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        spectrum = np.fft.fft(arrays[source])
        return {real: spectrum.real.copy(), imaginary: spectrum.imag.copy()}

    parameters = (
        array(reading, source, (length,)), array(reading, real, (length,), "output", ctype),
        array(reading, imaginary, (length,), "output", ctype), *sizes_of([(length,)]),
    )  # fmt: skip
    specification = Specification(
        "discrete_fourier_transform", "DFT", parameters, f"{real}, {imaginary} = fft({source})",
        ("forward, not scaled", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, line_grid(length), (256,), compute)
