"""Value families: the same buffers with values on which wrong kernels show themselves.

Only what a content draws moves (normal, uniform, ramp, sorted); zeros and constants are part of what the kernel
asks for and stay. Integers stay between the least and the largest value that the declaration draws, so that
an integer used as an index stays valid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.records import BufferContent
from optiml_core.workload.elements import float_facts, is_float, scalar_dtype

Array = npt.NDArray[np.generic]

VALUE_FAMILIES: tuple[str, ...] = (
    "declared",
    "special values",  # 0, -0, the least denormal and normal numbers, 1, -1 among ordinary ones
    "infinities and NaN",  # few and far apart, so that ordinary values remain to be compared
    "many NaN",  # every other value: a maximum that forgets what came before a NaN shows itself
    "large range",  # magnitudes over as many powers of two as sums and products in the type bear
    "cancellation",  # neighbours that almost cancel
    "large mean",  # a mean much larger than the spread: one-pass variances lose their digits
    "large negative",  # all of them far below zero: a maximum or a shift that starts at zero shows itself
    "huge negative",  # near the end of the range: a maximum that starts at -1e30 shows itself
    "negative infinities",  # nothing else: a maximum that starts at any finite number shows itself
    "duplicates",  # three distinct values: ties
)

# Their values may lie outside a range only where the declaration promises none; NaN may stand in any.
NAN_FAMILIES: tuple[str, ...] = ("infinities and NaN", "many NaN")


def of_family(values: Array, content: BufferContent, dtype: str, family: str, stream: np.random.Generator) -> Array:
    """``values`` as drawn for ``content``, moved into ``family`` (not "declared"); same length and dtype."""
    if content.kind in ("zeros", "constant", "poison") or values.size == 0:
        return values
    moved = _floats(values, content, dtype, family, stream) if is_float(dtype) else _integers(values, family, stream)
    if content.kind == "sorted":
        # A kernel that searches relies on the order, which NaN would break.
        moved = np.sort(moved[~np.isnan(moved.astype(np.float64))]) if is_float(dtype) else np.sort(moved)
        moved = np.resize(moved, values.size) if moved.size == values.size else _refilled(moved, values)
    rounded: Array = np.asarray(moved, scalar_dtype(dtype))
    return rounded


def _refilled(sorted_values: Array, values: Array) -> Array:
    missing = values.size - sorted_values.size
    if sorted_values.size == 0:
        return values
    return np.concatenate([np.full(missing, sorted_values[0]), sorted_values])


def _integers(values: Array, family: str, stream: np.random.Generator) -> Array:
    low, high = values.min(), values.max()
    count = values.size
    if family == "special values":
        wanted = [low, high] + ([values.dtype.type(0)] if low <= 0 <= high else [])
        chosen = stream.choice(np.array(wanted, values.dtype), count)
        return np.where(stream.random(count) < 0.5, chosen, values)
    if family == "duplicates":
        return np.asarray(stream.choice(stream.choice(values, 3), count))
    if family == "large range":
        span = float(high) - float(low)
        drawn = float(low) + np.expm1(stream.random(count) * np.log1p(span))
        return np.asarray(np.clip(drawn, float(low), float(high)), values.dtype)
    # Nothing of an integer cancels inexactly and none is infinite: another draw of the same values.
    shuffled: Array = stream.permutation(values)
    return shuffled


def _floats(values: Array, content: BufferContent, dtype: str, family: str, stream: np.random.Generator) -> Array:
    count = values.size
    wide = values.astype(np.float64)
    limits = _limits(dtype)
    if family == "special values":
        special = np.array([0.0, -0.0, limits.denormal, -limits.denormal, limits.normal, 1.0, -1.0])
        chosen = stream.choice(_within(special, content), count)
        return np.where(stream.random(count) < 0.5, chosen, wide)
    if family == "infinities and NaN":
        # About one in a thousand, and at least three: more would drown every row of a reduction. A quarter are zeros,
        # because infinity times zero is NaN too, unless a kernel skips zeros.
        places = stream.choice(count, min(count, max(3, count // 1009)), replace=False)
        promised = _bounds(content)
        with_zeros = promised is None or promised[0] <= 0 <= promised[1]
        moved = np.where(with_zeros & (stream.random(count) < 0.25), 0.0, wide)
        # In turn, NaN first: a buffer of three elements or more holds each of them.
        moved[places] = np.resize(np.array([np.nan, np.inf, -np.inf]), places.size)
        return moved
    if family == "many NaN":
        return np.where(stream.random(count) < 0.5, np.nan, wide)
    if family == "duplicates":
        return stream.choice(stream.choice(wide, 3), count)
    bounds = _bounds(content)
    if family == "large range":
        if bounds is not None:
            low, high = bounds
            return low + (high - low) * np.exp2(-stream.random(count) * 2 * limits.powers)
        signs = np.where(stream.random(count) < 0.5, -1.0, 1.0)
        return signs * np.exp2((stream.random(count) * 2 - 1) * limits.powers)
    scale = float(np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0)) or 1.0
    if family == "cancellation" and (bounds is None or bounds[0] < 0 < bounds[1]):
        pairs = wide.copy()
        half = count // 2
        # The second of each pair is minus the first, up to a few units in the last place.
        pairs[1 : 2 * half : 2] = -pairs[0 : 2 * half : 2] * (1 + stream.integers(-4, 5, half) * limits.unit)
        return pairs
    # "large mean", and cancellation where the declared range has one sign: differences of near values.
    if bounds is not None:
        low, high = bounds
        middle = low + 0.75 * (high - low)
        return np.clip(middle + (wide - low) * (64 * limits.unit), low, high)
    if family == "large negative":
        # Far enough for an exponential of the values themselves to vanish in single precision.
        return -128 * max(scale, 1.0) + wide
    if family == "huge negative":
        # Sums of a few thousand such numbers (a few dozen in half precision) stay finite, whatever their order.
        return -limits.huge * (1 + stream.random(count)) / 2
    if family == "negative infinities":
        return np.full(count, -np.inf)
    return 16 * scale + wide


@frozen
class _Limits:
    denormal: float
    normal: float
    unit: float
    powers: float
    huge: float


def _limits(dtype: str) -> _Limits:
    """The least positive numbers, the unit in the last place of 1, and how many powers of two up and down the
    large range spans: a sixth of the type's exponents, so that products of two and long sums stay finite; and a number
    near the end of the range."""
    facts = float_facts(dtype)
    powers = float(np.log2(float(facts.max))) / 6
    huge = float(facts.max) / (4096 if float(facts.max) > 1e30 else 64)
    return _Limits(float(facts.smallest_subnormal), float(facts.smallest_normal), float(facts.eps), powers, huge)


def _bounds(content: BufferContent) -> tuple[float, float] | None:
    """The range that a declaration promises, where it promises one."""
    if content.kind == "uniform":
        low, high = content.parameters or (0.0, 1.0)
        return low, high
    return None


def _within(special: npt.NDArray[np.float64], content: BufferContent) -> npt.NDArray[np.float64]:
    bounds = _bounds(content)
    if bounds is None:
        return special
    kept = special[(special >= bounds[0]) & (special <= bounds[1])]
    return kept if kept.size else np.array(bounds)
