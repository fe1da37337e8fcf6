"""Element types of what a launch passes, as NumPy dtypes; template parameters replaced by their arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from optiml_core.records import ElementType
from optiml_core.source import element_type_of


def scalar_dtype(name: str) -> np.dtype[np.generic]:
    """NumPy's dtype of an ``ElementType.dtype``; bfloat16 and fp8 come from ml_dtypes."""
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        named: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
        return named
    return np.dtype(name)


def element_dtype(element: ElementType, widened: bool = False) -> npt.DTypeLike:
    """The dtype of one lane, or the structured dtype of a struct with its own offsets.

    ``widened``: float32 becomes float64, float64 long double, the 16- and 8-bit floats float64; a widened
    struct is laid out anew by the rules of C++.
    """
    if not element.fields:
        return widened_dtype(element.dtype) if widened else scalar_dtype(element.dtype)
    names = [one.name for one in element.fields]
    formats = []
    for one in element.fields:
        inner = element_dtype(one.element, widened)
        shape = tuple(extent for extent in (one.length, one.element.lanes) if extent > 1)
        formats.append((inner, shape) if shape else inner)
    if widened:
        return np.dtype({"names": names, "formats": formats}, align=True)
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": [one.offset for one in element.fields],
            "itemsize": element.size,
        }
    )


def widened_dtype(name: str) -> np.dtype[np.generic]:
    if name == "float64":
        return np.dtype(np.longdouble)
    return np.dtype(np.float64) if is_float(name) else scalar_dtype(name)


def is_float(name: str) -> bool:
    return name.startswith(("float", "bfloat"))


def float_facts(name: str) -> Any:
    """What ``np.finfo`` says of a float type, also of bfloat16 and fp8."""
    import ml_dtypes

    # ml_dtypes' finfo answers for NumPy's own types too.
    return ml_dtypes.finfo(scalar_dtype(name))  # type: ignore[no-untyped-call]


def pointee_spelling(type_text: str) -> str:
    """`const float* __restrict__` -> `float`."""
    text = re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b", " ", type_text)
    text = re.sub(r"\[[^\]]*\]", " ", text.replace("&", " "))
    return " ".join(text.replace("*", " ").split())


def element_of_type(type_text: str, type_arguments: Mapping[str, str]) -> ElementType | None:
    """The element of a parameter's type once template parameters, or typedefs, are replaced by what they stand for."""
    spelling = pointee_spelling(type_text)
    for _ in range(8):
        if spelling not in type_arguments:
            break
        spelling = pointee_spelling(type_arguments[spelling])
    return element_type_of(spelling)
