"""Recipes for matrices: products, also in batches, matrix-vector, dot product, transpose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optiml_core.synthesis import formula_recipes
from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    block_reduction,
    ctype_of,
    literal,
    matrix_shape,
    only_input,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.formula_recipes import draft_of
from optiml_core.synthesis.formulas import Formula, Name, Operation, parts_of
from optiml_core.synthesis.grammar import Found
from optiml_core.synthesis.reading import Reading, noun
from optiml_core.synthesis.records import Array, Draft, Specification

OPERATIONS = ("multiply", "multiply two", "matrix product", "matrix vector", "product in text", "batch")
Names = Mapping[str, int | float]


def product(reading: Reading) -> Draft:
    """``C = A B``, ``multiply A and B``, a batch of products, matrix times vector; all row-major."""
    written = reading.op("product in text")
    multiply = reading.op("multiply") or reading.op("multiply two")
    batch = reading.op("batch")
    named = reading.op("matrix product")
    by_vector = reading.op("matrix vector")
    if written is not None and multiply is not None:
        raise Missing(f"Is `{multiply.text}` the same as `{written.text}`? Please say one.")
    if written is not None:
        target, left, right = (written.groups[key] for key in ("target", "left", "right"))
        if reading.output not in (None, target):
            raise Missing(f"Where does the product go: `{target}` or `{reading.output}`?")
        if target not in reading.outputs:
            reading.outputs.append(target)
    else:
        names = reading.inputs()
        if multiply is not None:
            suffixes = ("3",) if multiply.groups.get("items3") else ("1", "2")
            names = [name for suffix in suffixes for name in noun(reading, multiply, suffix)]
        if len(names) != 2:
            raise Missing("Which two matrices, of which extents? Write `A (m x k) and B (k x n)`.")
        target, (left, right) = output_of(reading, "C"), names
    shapes = reading.shape_of(left), reading.shape_of(right)
    elementwise = reading.mark("elementwise") is not None
    if multiply is not None and (elementwise or (shapes[0] is not None and len(shapes[0]) == 1)):
        if not elementwise and shapes[1] is not None and len(shapes[1]) == 1:
            raise Missing(f"Are `{left}` and `{right}` multiplied element by element, or is it the dot product?")
        if not elementwise:
            raise Missing(f"`{left}` is a vector; which matrix does it multiply?")
        value = Operation("*", (Name(left), Name(right)))
        return draft_of(reading, Formula(target, (), value, 0, 0), "map")
    if elementwise:
        raise Missing("Element by element, or a matrix product?")
    if target in (left, right):
        raise Missing(f"`{target}` is read while it is written; where should the product go?")
    if shapes[0] is None or len(shapes[0]) not in (2, 3):
        raise Missing(f"How many rows and columns has `{left}`? Write `{left} (rows x cols)`.")
    if multiply is not None and shapes[0] == shapes[1] and "matri" not in multiply.text.lower():
        raise Missing(f"Are `{left}` and `{right}` multiplied element by element, or is it the matrix product?")
    if by_vector is not None and shapes[1] is not None and len(shapes[1]) != 1:
        raise Missing(f"Is `{right}` a vector? It has {len(shapes[1])} extents.")
    if named is not None and (shapes[1] is None or len(shapes[1]) == 1):
        raise Missing(f"How many rows and columns has `{right}`?")
    if (batch is not None or (named is not None and named.groups.get("batched"))) and len(shapes[0]) != 3:
        raise Missing(f"How many matrices are in the batch? Write `{left} (batch x m x k)`.")
    return _product_of(reading, target, left, right)


def is_the_product(reading: Reading) -> bool:
    """Whether the one formula, ``C = A * B``, only spells out the matrix product that is named beside it."""
    named = [name for name in ("matrix product", "matrix vector", "batch") if name in reading.operations]
    if not named or len(reading.formulas) != 1 or "product in text" in reading.operations:
        return False
    (given,) = reading.formulas
    parts = parts_of(given.value)
    names = [one.name for one in parts if isinstance(one, Name)]
    if not isinstance(given.value, Operation) or given.value.operator != "*" or len(names) != 2 or given.adds:
        return False
    if given.indices:
        return False
    groups = {"target": given.target, "left": names[0], "right": names[1]}
    text = " ".join(reading.tokens[given.start : given.end])
    reading.operations["product in text"] = Found("op:product in text", given.start, given.end, groups, text)
    return True


def formula(reading: Reading) -> Draft:
    """A formula; ``C = A * B`` of matrices that only fit as a matrix product is one."""
    given = reading.formulas[0]
    names = [one.name for one in parts_of(given.value) if isinstance(one, Name)]
    shapes = [reading.shape_of(name) or () for name in names]
    is_product = isinstance(given.value, Operation) and given.value.operator == "*" and len(names) == 2
    if len(reading.formulas) == 1 and is_product and not given.adds and not given.indices:
        dimensions = [len(shape) for shape in shapes]
        if dimensions == [2, 2] and shapes[0] == shapes[1] and "elementwise" not in reading.marks:
            raise Missing(
                f"Are `{names[0]}` and `{names[1]}` multiplied element by element, or is it the matrix product?"
            )
        if dimensions == [2, 0] and names[1] not in reading.scalars and names[1] not in formula_recipes.SCALARS:
            dimensions = [2, 1]
        if dimensions in ([2, 1], [3, 3], [2, 2]) and shapes[0] != shapes[1]:
            if given.target in names:
                raise Missing(f"`{given.target}` is read while it is written; where should the product go?")
            return _product_of(reading, given.target, names[0], names[1])
    return formula_recipes.formula(reading)


def _product_of(reading: Reading, target: str, left: str, right: str) -> Draft:
    shapes = reading.shape_of(left), reading.shape_of(right)
    assert shapes[0] is not None
    ctype = ctype_of(reading, left)
    if ctype == "unsigned char" or ctype_of(reading, right) != ctype:
        raise Missing(f"In which type are `{left}` and `{right}` multiplied?")
    is_vector = shapes[1] is None or len(shapes[1]) == 1
    if is_vector:
        if len(shapes[0]) != 2:
            raise Missing(f"How many rows and columns has `{left}`?")
        if shapes[1] is not None and shapes[1][0] != shapes[0][1]:
            raise Missing(
                f"`{left}` has {shapes[0][1]} columns but `{right}` has {shapes[1][0]} elements; which is meant?"
            )
        return _matrix_vector(reading, target, left, right, ctype, shapes[0][0], shapes[0][1])
    assert shapes[1] is not None
    return _tiled(reading, (target, left, right), ctype, shapes[0], shapes[1])


def _tiled(
    reading: Reading, names: tuple[str, str, str], ctype: str, first: tuple[str, ...], second: tuple[str, ...]
) -> Draft:
    """Tiles of 16 x 16 in shared memory; ``blockIdx.z`` is the product of a batch."""
    target, left, right = names
    batch = first[:-2]
    (m, k), (down, n) = first[-2:], second[-2:]
    if down != k:
        raise Missing(f"`{left}` has {k} columns but `{right}` has {down} rows; which is meant?")
    shared = len(second) == 2 and bool(batch)
    if not shared and second[:-2] != batch:
        raise Missing(f"Has `{right}` as many matrices as `{left}`?")
    of_left = f"blockIdx.z * {m} * {k} + " if batch else ""
    of_right = f"blockIdx.z * {k} * {n} + " if batch and not shared else ""
    of_target = f"blockIdx.z * {m} * {n} + " if batch else ""
    zero = literal(ctype, "0")
    body = f"""  __shared__ {ctype} left_tile[16][16];
  __shared__ {ctype} right_tile[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int col = blockIdx.x * 16 + threadIdx.x;
  {ctype} sum = {zero};
  for (int start = 0; start < {k}; start += 16) {{
    const int across = start + threadIdx.x;
    const int down = start + threadIdx.y;
    left_tile[threadIdx.y][threadIdx.x] = row < {m} && across < {k} ? {left}[{of_left}row * {k} + across] : {zero};
    right_tile[threadIdx.y][threadIdx.x] = down < {k} && col < {n} ? {right}[{of_right}down * {n} + col] : {zero};
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += left_tile[threadIdx.y][i] * right_tile[i][threadIdx.x];
    __syncthreads();
  }}
  if (row < {m} && col < {n}) {target}[{of_target}row * {n} + col] = sum;
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: arrays[left] @ arrays[right]}

    parameters = (
        array(reading, left, first), array(reading, right, second),
        array(reading, target, (*batch, m, n), "output", ctype), *sizes_of([(*batch, m, n, k)]),
    )  # fmt: skip
    kind = "batched matrix product" if batch else "matrix product"
    rules = ("row-major", INDEX_LIMIT, *(["a batch of at most 65535"] if batch else []))
    specification = Specification(kind.replace(" ", "_"), kind, parameters, f"{target} = {left} @ {right}", rules)
    return Draft(specification, body, (f"ceil_div({n}, 16)", f"ceil_div({m}, 16)", *batch), (16, 16), compute)


def _matrix_vector(reading: Reading, target: str, left: str, right: str, ctype: str, rows: str, cols: str) -> Draft:
    body = f"""  const {ctype}* line = {left} + blockIdx.x * {cols};
  __shared__ {ctype} partial[128];
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {cols}; i += 128) sum += line[i] * {right}[i];
  partial[threadIdx.x] = sum;
{block_reduction(ctype, "mine + other", 128)}  if (threadIdx.x == 0) {target}[blockIdx.x] = partial[0];
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: arrays[left] @ arrays[right]}

    parameters = (
        array(reading, left, (rows, cols)), array(reading, right, (cols,), "input", ctype),
        array(reading, target, (rows,), "output", ctype), *sizes_of([(rows, cols)]),
    )  # fmt: skip
    specification = Specification(
        "matrix_vector", "matrix-vector product", parameters, f"{target} = {left} @ {right}",
        ("row-major", INDEX_LIMIT),
    )  # fmt: skip
    return Draft(specification, body, (rows,), (128,), compute)


def dot_product(reading: Reading) -> Draft:
    """Sum of the products of two vectors."""
    reading.op("dot")
    names = [
        one.name for one in reading.declared.values() if one.name not in reading.outputs and (one.is_array or one.bare)
    ]
    if len(names) != 2:
        raise Missing("The dot product of which two vectors?")
    names.sort(key=reading.place)
    shapes = {shape for one in names if (shape := reading.shape_of(one)) is not None}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise Missing(f"How long are `{names[0]}` and `{names[1]}`?")
    if ctype_of(reading, names[0]) != ctype_of(reading, names[1]) or ctype_of(reading, names[0]) == "unsigned char":
        raise Missing(f"In which type are `{names[0]}` and `{names[1]}` multiplied?")
    length = next(iter(shapes))[0]
    ctype, target = ctype_of(reading, names[0]), output_of(reading)
    x, y = names
    body = f"""  __shared__ {ctype} partial[256];
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {length}; i += 256) sum += {x}[i] * {y}[i];
  partial[threadIdx.x] = sum;
{block_reduction(ctype, "mine + other")}  if (threadIdx.x == 0) {target}[0] = partial[0];
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: np.atleast_1d(arrays[x] @ arrays[y])}

    parameters = (
        array(reading, x, (length,)), array(reading, y, (length,)), array(reading, target, ("1",), "output", ctype),
        *sizes_of([(length,)]),
    )  # fmt: skip
    specification = Specification(
        "dot_product", "dot product", parameters, f"{target} = sum({x} * {y})", (INDEX_LIMIT,)
    )
    return Draft(specification, body, ("1",), (256,), compute)


def transpose(reading: Reading) -> Draft:
    """Transpose through a padded tile in shared memory, into another array."""
    reading.op("transpose")
    source = only_input(reading)
    if reading.mark("in place") is not None:
        raise Missing(f"I transpose into another array; into which one, instead of in place of `{source}`?")
    rows, cols = matrix_shape(reading, source)
    ctype, target = ctype_of(reading, source), output_of(reading)
    body = f"""  __shared__ {ctype} tile[32][33];
  const int across = blockIdx.x * 32 + threadIdx.x;
  const int first = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {{
    if (across < {cols} && first + i < {rows}) {{
      tile[threadIdx.y + i][threadIdx.x] = {source}[(first + i) * {cols} + across];
    }}
  }}
  __syncthreads();
  const int out_col = blockIdx.y * 32 + threadIdx.x;
  const int out_row = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {{
    if (out_col < {rows} && out_row + i < {cols}) {{
      {target}[(out_row + i) * {rows} + out_col] = tile[threadIdx.x][threadIdx.y + i];
    }}
  }}
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: arrays[source].T}

    parameters = (
        array(reading, source, (rows, cols)), array(reading, target, (cols, rows), "output", ctype),
        *sizes_of([(rows, cols)]),
    )  # fmt: skip
    specification = Specification("transpose", "transpose", parameters, f"{target} = {source}.T", (INDEX_LIMIT,))
    return Draft(specification, body, (f"ceil_div({cols}, 32)", f"ceil_div({rows}, 32)"), (32, 8), compute)
