"""Recipes over windows: convolutions in one and two dimensions, and the average of the neighbours."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    ctype_of,
    literal,
    matrix_shape,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.formula_recipes import draft_of
from optiml_core.synthesis.formulas import Expression, Formula, Load, Name, Number, Operation
from optiml_core.synthesis.reading import Reading, noun
from optiml_core.synthesis.records import Array, Draft, Specification

Names = Mapping[str, int | float]


def convolution(reading: Reading) -> Draft:
    """Correlation of an image or a line with a small odd filter, or convolution where the filter has one size."""
    found = reading.op("convolution")
    assert found is not None
    groups = found.groups
    down, across = _first(groups, "down"), _first(groups, "across")
    taps, weights = _first(groups, "taps"), _first(groups, "filter")
    is_correlation = "correlat" in found.text.lower() or reading.mark("no flip") is not None
    sources = (
        noun(reading, found, "2" if groups.get("items2") else "1") if "items1" in groups or "items2" in groups else []
    )
    if len(sources) != 1:
        raise Missing("Which array is convolved?")
    (source,) = sources
    if not is_correlation:
        raise Missing("Should the filter be flipped (a convolution of mathematics) or not (as in neural networks)?")
    outside = [
        reading.mark("zero outside"),
        "zero" in reading.marks["no flip"].text if "no flip" in reading.marks else None,
    ]
    if not any(outside):
        raise Missing("What counts outside the image: zero?")
    shape = reading.shape_of(source)
    if shape is None or len(shape) not in (1, 2):
        raise Missing(f"How large is `{source}`? Write `a float image of h x w pixels`, or `n floats in x`.")
    filter_shape = reading.shape_of(weights)
    if down and across:
        said: tuple[str, ...] | None = (down, across)
    else:
        said = (taps,) if taps else filter_shape
    if said is None or len(said) != len(shape):
        raise Missing(f"Which extents has the filter `{weights}` (for example `the 3x3 float filter f`)?")
    if any(one.isdigit() and int(one) % 2 == 0 for one in said):
        raise Missing("The filter has an even extent; which of its elements lies on the middle?")
    if len(shape) == 1:
        return _line(reading, source, weights, shape[0], said[0])
    if not all(one.isdigit() for one in said):
        raise Missing(f"Which odd extents has the filter `{weights}`, as numbers?")
    return _image(reading, source, weights, int(said[0]), int(said[1]))


def _first(groups: Mapping[str, str], name: str) -> str:
    return next((groups[f"{name}{end}"] for end in ("", "2", "3", "4") if groups.get(f"{name}{end}")), "")


def _line(reading: Reading, source: str, weights: str, length: str, taps: str) -> Draft:
    ctype, target = ctype_of(reading, source), output_of(reading)
    body = f"""  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= {length}) return;
  {ctype} sum = {literal(ctype, "0")};
  for (int tap = 0; tap < {taps}; tap++) {{
    const int from = i + tap - {taps} / 2;
    if (from >= 0 && from < {length}) sum += {weights}[tap] * {source}[from];
  }}
  {target}[i] = sum;
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        line, factors = arrays[source], arrays[weights]
        half = len(factors) // 2
        padded = np.pad(line, (half, len(factors) - 1 - half))
        return {target: np.correlate(padded, factors, "valid")}

    parameters = (
        array(reading, source, (length,)), array(reading, weights, (taps,), "input", ctype),
        array(reading, target, (length,), "output", ctype), *sizes_of([(length, taps)]),
    )  # fmt: skip
    middle = () if taps.isdigit() else (f"the middle element is {weights}[{taps} / 2]",)
    specification = Specification(
        "convolution_1d", "convolution 1-D", parameters, f"{target} = correlate({source}, {weights}, zero padding)",
        ("the filter is not flipped", "elements outside count as zero", *middle, INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (f"ceil_div({length}, 256)",), (256,), compute)


def _image(reading: Reading, source: str, weights: str, down: int, across: int) -> Draft:
    height, width = matrix_shape(reading, source)
    ctype, target = ctype_of(reading, source), output_of(reading)
    body = f"""  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= {height} || col >= {width}) return;
  {ctype} sum = {literal(ctype, "0")};
  for (int i = 0; i < {down}; i++) {{
    for (int j = 0; j < {across}; j++) {{
      const int r = row + i - {down // 2};
      const int c = col + j - {across // 2};
      if (r >= 0 && r < {height} && c >= 0 && c < {width}) {{
        sum += {weights}[i * {across} + j] * {source}[r * {width} + c];
      }}
    }}
  }}
  {target}[row * {width} + col] = sum;
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        image, factors = arrays[source], arrays[weights]
        padded = np.pad(image, ((down // 2,) * 2, (across // 2,) * 2))
        out = np.zeros_like(image)
        for i in range(down):
            for j in range(across):
                out += factors[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
        return {target: out}

    shape = (height, width)
    parameters = (
        array(reading, source, shape), array(reading, weights, (str(down), str(across)), "input", ctype),
        array(reading, target, shape, "output", ctype), *sizes_of([shape]),
    )  # fmt: skip
    specification = Specification(
        "convolution", "convolution 2-D", parameters, f"{target} = correlate({source}, {weights}, zero padding)",
        ("the filter is not flipped", "pixels outside count as zero", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (f"ceil_div({width}, 32)", f"ceil_div({height}, 8)"), (32, 8), compute)


def average_of_neighbours(reading: Reading) -> Draft:
    """A Jacobi step said in English: every point becomes the average of its four (or two) neighbours."""
    found = reading.op("neighbours")
    assert found is not None
    reading.mark("jacobi")
    reading.mark("title")
    groups = found.groups
    many = (groups.get("many") or groups.get("many2") or "").lower()
    source = groups.get("source") or noun(reading, found, "1")[0]
    target = groups.get("target") or output_of(reading)
    if groups.get("interior") and "copy" not in reading.marks:
        raise Missing("What becomes of the points that are not interior: are they copied?")
    shape = reading.shape_of(source) or ()
    four = many in ("four", "4")
    if len(shape) != (2 if four else 1):
        raise Missing(f"How many rows and columns has `{source}`?")
    reading.add(target, None, shape)
    r, c, i = Name("row"), Name("col"), Name("i")

    def at(*places: Expression) -> Expression:
        return Load(source, places)

    def moved(index: Expression, operator: str) -> Expression:
        return Operation(operator, (index, Number("1")))

    if four:
        near = [at(moved(r, "-"), c), at(moved(r, "+"), c), at(r, moved(c, "-")), at(r, moved(c, "+"))]
        indices: tuple[Expression, ...] = (r, c)
    else:
        near, indices = [at(moved(i, "-")), at(moved(i, "+"))], (i,)
    total = near[0]
    for one in near[1:]:
        total = Operation("+", (total, one))
    value = Operation("*", (Number("0.25" if four else "0.5"), total))
    return draft_of(reading, Formula(target, indices, value, 0, 0), "stencil")
