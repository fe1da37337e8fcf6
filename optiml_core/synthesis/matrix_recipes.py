"""Recipes for matrices and images: products, matrix-vector, transpose, convolution, pairwise distances."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optiml_core.synthesis.drafting import (
    INDEX_LIMIT,
    Missing,
    array,
    block_reduction,
    ctype_of,
    line_grid,
    literal,
    matrix_shape,
    output_of,
    sizes_of,
)
from optiml_core.synthesis.formulas import Name, find_formulas
from optiml_core.synthesis.reading import Reading, is_array_name
from optiml_core.synthesis.records import Array, Draft, Specification

Names = Mapping[str, int | float]


def _product_in_text(reading: Reading) -> tuple[str, str, str] | None:
    """``y = A x`` or ``C = A B``: names side by side."""
    for formula in find_formulas(reading.tokens):
        after = reading.tokens[formula.end] if formula.end < len(reading.tokens) else ""
        if isinstance(formula.value, Name) and is_array_name(after) and after.isidentifier():
            return formula.target, formula.value.name, after
    return None


def matrix_product(reading: Reading) -> Draft | None:
    """``C = A B``, both row-major, and matrix times vector; ``a batch of`` products is not read."""
    written = _product_in_text(reading)
    if written is None:
        if not reading.says(
            r"multiply .*matri(?:x|ces)", r"matrix product", r"matrix (?:- )?multipl\w+", "matmul", "gemm"
        ):
            return None
        matrices = [name for name in reading.inputs() if len(reading.shape_of(name) or ()) in (1, 2)]
        if len(matrices) != 2:
            raise Missing("Which two matrices, of which extents? Write `A (m x k) and B (k x n)`.")
        written = (reading.output or "C", matrices[0], matrices[1])
    target, left, right = written
    m, k = matrix_shape(reading, left)
    ctype = ctype_of(reading, left)
    shape = reading.shape_of(right)
    if shape is None or len(shape) == 1:
        return _matrix_vector(reading, target, left, right, ctype, m, k)
    if shape[0] != k:
        raise Missing(f"`{left}` has {k} columns but `{right}` has {shape[0]} rows; which is meant?")
    n = shape[1]
    zero = literal(ctype, "0")
    body = f"""  __shared__ {ctype} left_tile[16][16];
  __shared__ {ctype} right_tile[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int col = blockIdx.x * 16 + threadIdx.x;
  {ctype} sum = {zero};
  for (int start = 0; start < {k}; start += 16) {{
    const int across = start + threadIdx.x;
    const int down = start + threadIdx.y;
    left_tile[threadIdx.y][threadIdx.x] = row < {m} && across < {k} ? {left}[row * {k} + across] : {zero};
    right_tile[threadIdx.y][threadIdx.x] = down < {k} && col < {n} ? {right}[down * {n} + col] : {zero};
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += left_tile[threadIdx.y][i] * right_tile[i][threadIdx.x];
    __syncthreads();
  }}
  if (row < {m} && col < {n}) {target}[row * {n} + col] = sum;
"""

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: arrays[left] @ arrays[right]}

    shapes = [(m, k), (k, n)]
    parameters = (
        array(reading, left, shapes[0]), array(reading, right, shapes[1]),
        array(reading, target, (m, n), "output", ctype), *sizes_of([(m, n, k)]),
    )  # fmt: skip
    specification = Specification(
        "matrix_product", "matrix product", parameters, f"{target} = {left} @ {right}", ("row-major", INDEX_LIMIT)
    )
    return Draft(specification, body, (f"ceil_div({n}, 16)", f"ceil_div({m}, 16)"), (16, 16), compute)


def _matrix_vector(reading: Reading, target: str, left: str, right: str, ctype: str, rows: str, cols: str) -> Draft:
    body = f"""  const {ctype}* line = {left} + blockIdx.x * {cols};
  __shared__ {ctype} partial[128];
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {cols}; i += blockDim.x) sum += line[i] * {right}[i];
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


def dot_product(reading: Reading) -> Draft | None:
    """Sum of the products of two vectors."""
    if not reading.says(r"dot product", r"inner product", r"scalar product"):
        return None
    pair = reading.search(r"of (?:the )?(?:vectors )?(?P<x>\w+) and (?P<y>\w+)")
    names = [pair["x"], pair["y"]] if pair is not None else reading.inputs()
    if len(names) != 2 or not all(is_array_name(name) for name in names):
        raise Missing("The dot product of which two vectors?")
    length = next((s[0] for one in names if (s := reading.shape_of(one))), reading.length or "n")
    ctype, target = ctype_of(reading, names[0]), output_of(reading)
    x, y = names
    body = f"""  __shared__ {ctype} partial[256];
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {length}; i += blockDim.x) sum += {x}[i] * {y}[i];
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


def transpose(reading: Reading) -> Draft | None:
    """Transpose through a padded tile in shared memory."""
    if not reading.says("transposed?"):
        return None
    source = next((name for name in reading.inputs() if len(reading.shape_of(name) or ()) == 2), None)
    if source is None:
        raise Missing("Which matrix is transposed? Write `the float matrix x (rows x cols)`.")
    rows, cols = matrix_shape(reading, source)
    ctype, target = ctype_of(reading, source), output_of(reading)
    body = f"""  __shared__ {ctype} tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  const int y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {{
    if (x < {cols} && y + i < {rows}) tile[threadIdx.y + i][threadIdx.x] = {source}[(y + i) * {cols} + x];
  }}
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  const int down = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {{
    if (x < {rows} && down + i < {cols}) {target}[(down + i) * {rows} + x] = tile[threadIdx.x][threadIdx.y + i];
  }}
"""
    if source == "x" or target == "x":
        body = body.replace("int x =", "int across =").replace("  x =", "  across =").replace("(x <", "(across <")
        body = body.replace("+ x]", "+ across]")
    if "y" in (source, target):
        body = body.replace("const int y =", "const int first =").replace("y + i <", "first + i <")
        body = body.replace("(y + i)", "(first + i)")

    def compute(arrays: Mapping[str, Array], names: Names) -> dict[str, Array]:
        return {target: arrays[source].T}

    parameters = (
        array(reading, source, (rows, cols)), array(reading, target, (cols, rows), "output", ctype),
        *sizes_of([(rows, cols)]),
    )  # fmt: skip
    specification = Specification("transpose", "transpose", parameters, f"{target} = {source}.T", (INDEX_LIMIT,))
    return Draft(specification, body, (f"ceil_div({cols}, 32)", f"ceil_div({rows}, 32)"), (32, 8), compute)


def convolution(reading: Reading) -> Draft | None:
    """Convolution of an image or a line with a small odd filter, zero outside; without flip where that is said."""
    if not reading.says("convolve", "convolution", "correlate", "cross - correlation"):
        return None
    found = reading.search(r"(?P<a>\d+) x (?P<b>\d+) (?:float |double )?(?:filter |kernel |mask )?(?P<name>\w+)")
    if found is None or int(found["a"]) % 2 == 0 or int(found["b"]) % 2 == 0:
        raise Missing("Which odd extents has the filter (for example `the 3x3 float filter f`)?")
    if not reading.says(r"no flip", r"without flip(?:ping)?", "correlate", "cross - correlation"):
        raise Missing("Should the filter be flipped (a convolution of mathematics) or not (as in neural networks)?")
    if not reading.says(r"zero padding", r"zero - padded", r"zero outside", r"outside(?: \w+)* (?:zero|0)"):
        raise Missing("What counts outside the image: zero?")
    weights = found["name"] if is_array_name(found["name"]) else "filter"
    source = next((n for n in reading.inputs() if n != weights and len(reading.shape_of(n) or ()) == 2), None)
    if source is None:
        raise Missing("Which image is convolved? Write `a float image x of height x width pixels`.")
    height, width = matrix_shape(reading, source)
    down, across = int(found["a"]), int(found["b"])
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


DIMENSIONS = {"one": 1, "two": 2, "three": 3, "four": 4}


def pairwise(reading: Reading) -> Draft | None:
    """Distances between every point of one set and every point of another."""
    found = reading.search(
        r"(?P<m>\w+) points (?P<p>\w+) and (?P<n>\w+) points (?P<q>\w+) in (?P<many>\w+) dimensions?"
    )
    if found is None or not reading.says("distances?"):
        return None
    many = found["many"].lower()
    count = DIMENSIONS.get(many) or (int(many) if many.isdigit() else None)
    if count is None:
        raise Missing("In how many dimensions do the points lie?")
    squared = reading.says("squared")
    if not squared and not reading.says("euclidean"):
        raise Missing("Which distance: Euclidean, or squared Euclidean?")
    m, p, n, q = (found[name] for name in ("m", "p", "n", "q"))
    named = reading.search(r"distances? (?P<name>\w+) (?:of|between)")
    target = reading.output or (named["name"] if named and is_array_name(named["name"]) else "out")
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


def discrete_fourier(reading: Reading) -> Draft | None:
    """The discrete Fourier transform of real numbers by its definition: n*n steps."""
    if not reading.says(r"discrete fourier transform", "dft"):
        return None
    if reading.says("inverse"):
        raise Missing("I know the forward transform of real numbers; is it that?")
    parts = [reading.search(rf"{word} parts? (?:to|in|into) (?P<name>\w+)") for word in ("real", "imaginary")]
    if parts[0] is None or parts[1] is None:
        raise Missing("Where should the real and the imaginary parts go (`the real parts to re`)?")
    real, imaginary = parts[0]["name"], parts[1]["name"]
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
