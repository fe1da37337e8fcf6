"""What is drawn at random about a kernel's text: names, index order, guards, indentation, braces."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from attrs import frozen

_ARRAYS = (
    "x", "y", "z", "a", "b", "c", "u", "v", "w", "in", "out", "src", "dst", "input", "output", "data", "values",
    "result", "field", "state", "left", "right", "first", "second", "table", "source", "target", "buffer", "signal",
    "weights", "samples", "cells", "grid_in", "grid_out", "image", "pixels", "points", "before", "after", "current",
    "next", "old_state", "new_state", "lhs", "rhs", "av", "bv", "q", "r", "density", "flux", "energy", "temperature",
    "pressure", "phi", "psi", "rho", "residual",
)  # fmt: skip
_LENGTHS = (
    "n", "N", "len", "length", "count", "size", "total", "num", "elements", "n_elements", "num_items",
)  # fmt: skip
_AREAS = (
    ("rows", "cols"), ("height", "width"), ("h", "w"), ("ny", "nx"), ("M", "N"), ("m", "n"), ("num_rows", "num_cols"),
    ("batch", "features"), ("lines", "columns"), ("B", "D"), ("n_rows", "n_cols"),
)  # fmt: skip
_INNER = ("K", "k_size", "depth", "inner", "common")
_SCALARS = (
    "alpha", "beta", "scale", "factor", "gain", "bias", "offset", "weight", "eps_shift", "step", "dt", "lambda0",
    "c0", "tau",
)  # fmt: skip
_LINE_INDEXES = (
    "i", "idx", "tid", "gid", "id", "index", "pos", "t_id", "e",
)  # fmt: skip
_AREA_INDEXES = (("row", "col"), ("y_pos", "x_pos"), ("r_id", "c_id"), ("ty", "tx"), ("iy", "ix"), ("gy", "gx"))
_LOOPS = (
    "k", "j", "l", "kk", "jj", "p", "s", "it",
)  # fmt: skip
_VERBS = (
    "apply", "compute", "run", "do_step", "update", "process", "evaluate", "transform", "map_kernel", "kernel",
    "fused", "launch_me", "work", "pass1", "stage", "forward", "step", "calc", "f", "g",
)  # fmt: skip
_SUMS = (
    "sum", "acc", "total_sum", "own", "s_acc", "tmp", "value", "accum", "r_sum",
)  # fmt: skip


@frozen
class Style:
    """``indent``: one level. ``own_line``: opening braces stand alone. ``returns``: guards leave early.
    ``thread_first``: `threadIdx.x + blockIdx.x * blockDim.x`. ``tight``: `for(` and `if(`."""

    indent: str
    own_line: bool
    returns: bool
    thread_first: bool
    constant: bool
    increment: str
    tight: bool


def draw_style(rng: random.Random) -> Style:
    return Style(
        indent=rng.choice(["  ", "    ", "    ", "\t"]),
        own_line=rng.random() < 0.25,
        returns=rng.random() < 0.4,
        thread_first=rng.random() < 0.35,
        constant=rng.random() < 0.4,
        increment=rng.choice(["++{0}", "{0}++", "{0} += 1"]),
        tight=rng.random() < 0.2,
    )


class Namer:
    """Draws names that a kernel has not used yet."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def _draw(self, pool: Sequence[str]) -> str:
        free = [name for name in pool if name not in self._used]
        name = self._rng.choice(free)
        self._used.add(name)
        return name

    def array(self) -> str:
        return self._draw(_ARRAYS)

    def length(self) -> str:
        return self._draw(_LENGTHS)

    def area(self) -> tuple[str, str]:
        free = [pair for pair in _AREAS if not self._used & set(pair)]
        pair = self._rng.choice(free)
        self._used.update(pair)
        return pair

    def inner(self) -> str:
        return self._draw(_INNER)

    def scalar(self) -> str:
        return self._draw(_SCALARS)

    def index(self) -> str:
        return self._draw(_LINE_INDEXES)

    def indexes(self) -> tuple[str, str]:
        free = [pair for pair in _AREA_INDEXES if not self._used & set(pair)]
        pair = self._rng.choice(free)
        self._used.update(pair)
        return pair

    def loop(self) -> str:
        return self._draw(_LOOPS)

    def sum(self) -> str:
        return self._draw(_SUMS)

    def kernel(self, *hints: str) -> str:
        """A name that may hint at what the kernel does, as real ones do."""
        hint = self._rng.choice(hints) if hints and self._rng.random() < 0.7 else self._draw(_VERBS)
        ending = self._rng.choice(["", "", "", "_kernel", "_gpu", "Kernel", "_v1", "_naive"])
        name = hint + ending
        self._used.add(name)
        return name


def coordinate(style: Style, name: str, axis: str = "x") -> str:
    """The declaration of a thread's place along one axis."""
    block, thread = f"blockIdx.{axis} * blockDim.{axis}", f"threadIdx.{axis}"
    value = f"{thread} + {block}" if style.thread_first else f"{block} + {thread}"
    return f"{'const ' if style.constant else ''}int {name} = {value};"


def guarded(style: Style, limits: Sequence[tuple[str, str]], body: Sequence[str]) -> list[str]:
    """``body`` for places below their limits only."""
    if style.returns:
        outside = " || ".join(f"{name} >= {limit}" for name, limit in limits)
        return [f"if ({outside}) return;", *body]
    inside = " && ".join(f"{name} < {limit}" for name, limit in limits)
    return [f"if ({inside}) {{", *body, "}"]


def loop(style: Style, name: str, limit: str, body: Sequence[str], start: str = "0") -> list[str]:
    step = style.increment.format(name)
    return [f"for (int {name} = {start}; {name} < {limit}; {step}) {{", *body, "}"]


def laid_out(style: Style, lines: Sequence[str]) -> str:
    """Lines of code with braces at their ends, indented and with the style's braces. Ends in a newline."""
    depth = 0
    found: list[str] = []
    for line in lines:
        text = line.strip()
        if style.tight:
            text = re.sub(r"\b(for|if|while) \(", r"\1(", text)
        if text.startswith("}"):
            depth -= 1
        opens = text.endswith("{")
        if opens and style.own_line and text != "{":
            found.append(style.indent * depth + text[:-1].rstrip())
            found.append(style.indent * depth + "{")
        else:
            found.append(style.indent * depth + text if text else "")
        depth += opens
    return "\n".join(found) + "\n"


def relaid(style: Style, text: str) -> str:
    """A text of one statement a line, as recipes write it, in another layout."""
    lines = text.splitlines()
    found = []
    for line in lines:
        bare = line.lstrip(" ")
        found.append(style.indent * ((len(line) - len(bare)) // 2) + bare)
    return "\n".join(found) + "\n"
