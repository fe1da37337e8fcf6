"""Recipes that keep a row together: scans, softmax, layer and RMS norm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
from optiml_core.synthesis.reading import Reading
from optiml_core.synthesis.records import Array, Draft, Specification, SpecificationParameter
from optiml_core.synthesis.reduction_recipes import direction

Computed = dict[str, Array]


def _along_rows(reading: Reading, source: str, shape: tuple[str, ...]) -> bool:
    """Whether a matrix is taken row by row; a line has no rows."""
    if len(shape) == 1:
        return False
    if len(shape) != 2 or direction(reading, source, shape) != "rows":
        raise Missing(f"I know this for every row of a matrix; is that meant for `{source}`?")
    return True


def scan(reading: Reading) -> Draft:
    """Prefix sums of a line or of every row: one block goes along a line in tiles."""
    found = reading.op("scan")
    assert found is not None
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    ctype = ctype_of(reading, source)
    if ctype == "unsigned char":
        raise Missing("The elements are bytes; of which type are the sums?")
    which = found.groups.get("which", "").lower()
    said = {which} - {""} | {name for name in ("inclusive", "exclusive") if reading.mark(name) is not None}
    if found.groups.get("running"):
        said = said or {"inclusive"}
    if len(said) != 1:
        raise Missing("Should each sum include its own element (inclusive) or not (exclusive)?")
    exclusive = said == {"exclusive"}
    in_rows = _along_rows(reading, source, shape)
    target = output_of(reading)
    zero, rows = literal(ctype, "0"), in_rows
    offset = " + blockIdx.x * length" if rows else ""
    body = f"""  const int length = {shape[-1]};
  const {ctype}* line = {source}{offset};
  {ctype}* sums = {target}{offset};
  __shared__ {ctype} tile[256];
  {ctype} before = {zero};  // the sum of all earlier tiles
  for (int start = 0; start < length; start += 256) {{
    const int i = start + threadIdx.x;
    const {ctype} value = i < length ? line[i] : {zero};
    tile[threadIdx.x] = value;
    __syncthreads();
    for (int distance = 1; distance < blockDim.x; distance *= 2) {{
      const {ctype} left = threadIdx.x >= distance ? tile[threadIdx.x - distance] : {zero};
      __syncthreads();
      tile[threadIdx.x] += left;
      __syncthreads();
    }}
"""
    own = "(threadIdx.x > 0 ? tile[threadIdx.x - 1] : " + zero + ")" if exclusive else "tile[threadIdx.x]"
    body += f"    if (i < length) sums[i] = before + {own};\n    before += tile[blockDim.x - 1];\n"
    body += "    __syncthreads();\n  }\n"

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source]
        sums = np.cumsum(values, -1)
        if exclusive:
            sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
        return {target: sums}

    kind = "exclusive" if exclusive else "inclusive"
    parameters = [array(reading, source, shape), array(reading, target, shape, "output", ctype)]
    specification = Specification(
        f"{kind}_scan", f"{kind} scan", (*parameters, *sizes_of([shape])),
        f"{target} = cumsum({source}, axis=-1)" + (" shifted right by one, starting at 0" if exclusive else ""),
        (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (shape[0],) if rows else ("1",), (256,), compute)


def softmax(reading: Reading) -> Draft:
    """Softmax of every row, or of a line, with the largest element taken off first; or its logarithm."""
    found = reading.op("softmax")
    assert found is not None
    logarithm = bool(found.groups.get("log") or found.groups.get("log2"))
    source = only_input(reading)
    shape = reading.shape_of(source) or ()
    rows, cols = (shape[0], shape[1]) if _along_rows(reading, source, shape) else ("1", shape[0])
    ctype, target = ctype_of(reading, source), output_of(reading)
    if ctype not in ("float", "double"):
        raise Missing("The elements are integers; should the result be float or double?")
    end = "f" if ctype == "float" else ""
    result = f"line[i] - largest - log{end}(sum)" if logarithm else f"exp{end}(line[i] - largest) / sum"
    body = f"""  const {ctype}* line = {source} + blockIdx.x * {cols};
  __shared__ {ctype} partial[256];
  {ctype} largest = -INFINITY;
  for (int i = threadIdx.x; i < {cols}; i += 256) largest = fmax{end}(largest, line[i]);
  partial[threadIdx.x] = largest;
{block_reduction(ctype, f"fmax{end}(mine, other)")}  largest = partial[0];
  __syncthreads();
  {ctype} sum = {literal(ctype, "0")};
  for (int i = threadIdx.x; i < {cols}; i += 256) sum += exp{end}(line[i] - largest);
  partial[threadIdx.x] = sum;
{block_reduction(ctype, "mine + other")}  sum = partial[0];
  for (int i = threadIdx.x; i < {cols}; i += 256) {{
    {target}[blockIdx.x * {cols} + i] = {result};
  }}
"""

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        shifted = arrays[source] - arrays[source].max(-1, keepdims=True)
        total = np.exp(shifted).sum(-1, keepdims=True)
        return {target: shifted - np.log(total) if logarithm else np.exp(shifted) / total}

    parameters = [array(reading, source, shape), array(reading, target, shape, "output", ctype)]
    specification = Specification(
        "log_softmax_rows" if logarithm else "softmax_rows", "log-softmax" if logarithm else "softmax",
        (*parameters, *sizes_of([shape])),
        f"{target} = {'log ' if logarithm else ''}exp({source} - max) / sum(exp({source} - max))"
        + (", by rows" if len(shape) == 2 else ""), (INDEX_LIMIT,),
    )  # fmt: skip
    return Draft(specification, body, (rows,), (256,), compute)


def normalisation(reading: Reading) -> Draft:
    """Layer norm and RMS norm of every row, with weights and biases where they are named; epsilon is an argument."""
    if "layer norm" in reading.operations and "rms norm" in reading.operations:
        raise Missing("Layer norm or RMS norm?")
    root_mean = reading.op("rms norm") is not None
    reading.op("layer norm")
    weights = [_vector(reading, "weights", "scale"), _vector(reading, "bias", "shift")]
    sources = [name for name in reading.inputs() if name not in weights]
    if len(sources) != 1:
        raise Missing("Which matrix is normalised? Write `the float matrix x (rows x cols)`.")
    source = sources[0]
    shape = matrix_shape(reading, source)
    if reading.marks.keys() & {"rows", "columns", "all"}:
        _along_rows(reading, source, shape)
    ctype, target = ctype_of(reading, source), output_of(reading)
    if ctype not in ("float", "double"):
        raise Missing("The elements are integers; should the result be float or double?")
    epsilon = reading.mark("eps")
    value = epsilon.groups.get("value") if epsilon is not None else None
    gain, shift = weights
    result = "(line[i] - mean) * scale" + (f" * {gain}[i]" if gain else "") + (f" + {shift}[i]" if shift else "")
    end, zero = ("f" if ctype == "float" else ""), literal(ctype, "0")
    body = f"  const {ctype}* line = {source} + blockIdx.x * {shape[1]};\n  __shared__ {ctype} partial[256];\n"
    if root_mean:
        body += f"  const {ctype} mean = {zero};\n"
    else:
        body += (
            f"  {ctype} sum = {zero};\n  for (int i = threadIdx.x; i < {shape[1]}; i += 256) sum += line[i];\n"
            "  partial[threadIdx.x] = sum;\n" + block_reduction(ctype, "mine + other")
            + f"  const {ctype} mean = partial[0] / {shape[1]};\n  __syncthreads();\n"
        )  # fmt: skip
    body += f"""  {ctype} squares = {zero};
  for (int i = threadIdx.x; i < {shape[1]}; i += 256) squares += (line[i] - mean) * (line[i] - mean);
  partial[threadIdx.x] = squares;
{block_reduction(ctype, "mine + other")}  const {ctype} variance = partial[0] / {shape[1]};
  const {ctype} scale = {literal(ctype, "1")} / sqrt{end}(variance + eps);
  for (int i = threadIdx.x; i < {shape[1]}; i += 256) {{
    {target}[blockIdx.x * {shape[1]} + i] = {result};
  }}
"""

    def compute(arrays: Mapping[str, Array], names: Mapping[str, int | float]) -> Computed:
        values = arrays[source]
        centred = values if root_mean else values - values.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + names["eps"])
        scaled = scaled * arrays[gain] if gain else scaled
        return {target: scaled + arrays[shift] if shift else scaled}

    parameters = [
        array(reading, source, shape), *(array(reading, one, (shape[1],), "input", ctype) for one in weights if one),
        array(reading, target, shape, "output", ctype),
        SpecificationParameter("eps", ctype, "scalar", (), "", value or "1e-5"),
    ]  # fmt: skip
    kind = "rms_norm" if root_mean else "layer_norm"
    formula = f"({source}{'' if root_mean else ' - mean'}) / sqrt(mean of squares + eps)"
    formula += (f" * {gain}" if gain else "") + (f" + {shift}" if shift else "")
    rules = (
        "eps is under the root and an argument of the kernel" + (f", {value} in the workload" if value else ""),
        "the mean of squares is divided by the length of the row", INDEX_LIMIT,
    )  # fmt: skip
    specification = Specification(
        kind, kind.replace("_", " "), (*parameters, *sizes_of([shape])),
        f"{target} = {formula}, by rows", rules,
    )  # fmt: skip
    return Draft(specification, body, (shape[0],), (256,), compute)


def _vector(reading: Reading, *marks: str) -> str | None:
    """The weights or biases that a mark names."""
    found = reading.mark(marks[0])
    if found is None:
        return None
    name = found.groups.get("name") or found.groups.get(marks[1])
    assert name is not None
    return name
