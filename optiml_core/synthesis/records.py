"""What a description became: the frozen specification, the drafted kernel, and the question where one is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.records import Check

Array = npt.NDArray[Any]
# Arrays by name in the shapes of the specification, widened to float64 or int64, and sizes and scalars by name.
Reference = Callable[[Mapping[str, Array], Mapping[str, int | float]], dict[str, Array]]

Role = Literal["input", "output", "in-out", "zeroed output", "size", "scalar"]
# C++ type -> NumPy dtype
TYPES = {"float": "float32", "double": "float64", "int": "int32", "unsigned char": "uint8"}


@frozen
class SpecificationParameter:
    """One kernel parameter: ``type`` is the C++ element type, ``shape`` its extents (sizes or numbers, () by value).

    ``content`` is the workload language's content of an input; ``value`` what a size or scalar is declared as.
    A "zeroed output" is set to zero by the launcher before the kernel adds to it.
    """

    name: str
    type: str
    role: Role
    shape: tuple[str, ...] = ()
    content: str = "normal"
    value: str = ""

    @property
    def is_array(self) -> bool:
        return bool(self.shape)


@frozen
class Specification:
    """What will be built. ``reference`` is NumPy text for people; what is run is the recipe's own function."""

    name: str
    pattern: str
    parameters: tuple[SpecificationParameter, ...]
    reference: str
    edge_rules: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()


@frozen
class Draft:
    """A specification with the code a recipe made for it and the function it is checked against.

    ``body`` is the kernel's body; ``grid`` and ``block`` are expressions of the workload language, which the
    launcher uses too. ``helpers``: further sizes of the declaration that are no parameters (``nnz = 4096``).
    ``author``: the model that wrote the body, "rewrites" for a recipe.
    """

    specification: Specification
    body: str
    grid: tuple[str, ...]
    block: tuple[int, ...]
    compute: Reference
    helpers: tuple[tuple[str, int], ...] = ()
    author: str = "rewrites"


@frozen
class Question:
    """What is missing, asked instead of guessed. ``is_foreign``: the text is outside the grammar, not merely open;
    then a model may read it."""

    text: str
    not_understood: tuple[str, ...] = ()
    is_foreign: bool = False


@frozen
class Synthesized:
    """The answer to a description. ``source`` is empty unless every check passed.

    ``origin``: "recipe", or the model that wrote the kernel. ``reader``: whose reading the specification is, "grammar"
    or a model. ``notes``: what became of the models' candidates, one line each.
    """

    specification: Specification | None
    question: str
    source: str = ""
    workload: str = ""
    checks: tuple[Check, ...] = ()
    not_understood: tuple[str, ...] = ()
    origin: str = "recipe"
    reader: str = "grammar"
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.source) and bool(self.checks) and all(check.result == "passed" for check in self.checks)


def dtype_of(ctype: str) -> np.dtype[Any]:
    return np.dtype(TYPES[ctype])
