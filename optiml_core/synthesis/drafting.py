"""What every recipe needs: parameters from a reading, and pieces of CUDA text."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.synthesis.reading import Missing, Reading
from optiml_core.synthesis.records import SpecificationParameter

THREADS = 256
SMALL_SIZES = {"rows": 512, "cols": 1024, "m": 512, "n": 512, "k": 512, "height": 1024, "width": 1024}
INDEX_LIMIT = "every array has fewer than 2^31 elements"


def ctype_of(reading: Reading, name: str) -> str:
    found = reading.type_of(name)
    if found is None:
        raise Missing(f"Of which type are the elements of `{name}` (float, double, int)?")
    return found


def array(
    reading: Reading, name: str, shape: Iterable[str], role: str = "input", ctype: str | None = None, content: str = ""
) -> SpecificationParameter:
    chosen = ctype or ctype_of(reading, name)
    drawn = content or ("normal" if chosen in ("float", "double") else "uniform(-100, 100)")
    drawn = drawn if content or chosen != "unsigned char" else "uniform(0, 256)"
    return SpecificationParameter(name, chosen, role, tuple(shape), drawn)  # type: ignore[arg-type]


def size(name: str, value: int | None = None, among: int = 1) -> SpecificationParameter:
    default = 1 << 20 if among == 1 else SMALL_SIZES.get(name, 1024)
    return SpecificationParameter(name, "int", "size", (), "", str(value or default))


def sizes_of(shapes: Iterable[Iterable[str]]) -> list[SpecificationParameter]:
    """One size parameter for every named extent, in order of appearance."""
    names = list(dict.fromkeys(extent for shape in shapes for extent in shape if not extent.isdigit()))
    return [size(name, among=len(names)) for name in names]


def vector_shape(reading: Reading, name: str) -> tuple[str, ...]:
    return reading.shape_of(name) or (reading.length or "n",)


def matrix_shape(reading: Reading, name: str) -> tuple[str, str]:
    found = reading.shape_of(name)
    if found is None or len(found) != 2:
        raise Missing(f"How many rows and columns has `{name}`? Write `{name} (rows x cols)`.")
    return found[0], found[1]


def only_input(reading: Reading) -> str:
    """The one array that is read, by its declaration."""
    names = reading.inputs()
    if len(names) != 1:
        listed = ", ".join(f"`{name}`" for name in names)
        raise Missing(
            f"Which array is read: {listed}?" if names else "Which array is read, and how long is it (`n floats in x`)?"
        )
    return names[0]


def output_of(reading: Reading, default: str = "out") -> str:
    return reading.output or default


def block_reduction(ctype: str, combine: str, threads: int = THREADS) -> str:
    """Tree over the block's ``partial``; ``combine`` speaks of ``mine`` and ``other``."""
    return f"""  __syncthreads();
  for (int width = {threads // 2}; width > 0; width /= 2) {{
    if (threadIdx.x < width) {{
      const {ctype} mine = partial[threadIdx.x];
      const {ctype} other = partial[threadIdx.x + width];
      partial[threadIdx.x] = {combine};
    }}
    __syncthreads();
  }}
"""


def guarded_index(limit: str, index: str = "i") -> str:
    return f"  const int {index} = blockIdx.x * blockDim.x + threadIdx.x;\n  if ({index} >= {limit}) return;\n"


def line_grid(limit: str) -> tuple[str, ...]:
    return (f"ceil_div({limit}, {THREADS})",)


def literal(ctype: str, value: str) -> str:
    return value + {"float": ".0f", "double": ".0"}.get(ctype, "")


def lowest(ctype: str) -> str:
    return {"float": "-INFINITY", "double": "-INFINITY", "int": "-2147483647 - 1"}.get(ctype, "0")


def highest(ctype: str) -> str:
    return {"int": "2147483647", "unsigned char": "255"}.get(ctype, "INFINITY")


__all__ = ["Missing"]
