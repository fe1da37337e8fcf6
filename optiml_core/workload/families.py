"""Value families: the same buffers with values on which wrong kernels show themselves.

Only what a content draws moves (normal, uniform, ramp, sorted); zeros and constants are part of what the kernel
asks for and stay. But in ``OUTSIDE_FAMILIES``, integers stay between the least and the largest value that the
declaration draws, so that an integer used as an index stays valid.
"""

from __future__ import annotations

import math

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
    "duplicates",  # three distinct values, one of them most of the time: ties, and crowded bins
    "thresholds",  # the numbers that the code and the scalars mention, their multiples and neighbours; powers of two
    "below the range",  # half of the values below what is declared: an original that copes is to be followed there too
    "above the range",
    "far outside the range",  # the ends of the type
)

# Their values may lie outside a range only where the declaration promises none; NaN may stand in any.
NAN_FAMILIES: tuple[str, ...] = ("infinities and NaN", "many NaN")

# Values outside of what a declaration draws. They show what an original does that guards itself against them; one
# that relies on the range misbehaves there, and the family is dropped.
OUTSIDE_FAMILIES: tuple[str, ...] = ("below the range", "above the range", "far outside the range")


def has_range(content: BufferContent, dtype: str) -> bool:
    """Whether the values of a content lie in a range that ``OUTSIDE_FAMILIES`` leave."""
    return content.kind in ("uniform", "index") or (content.kind in ("normal", "ramp") and not is_float(dtype))


def of_family(
    values: Array,
    content: BufferContent,
    dtype: str,
    family: str,
    stream: np.random.Generator,
    constants: tuple[float, ...] = (),
) -> Array:
    """``values`` as drawn for ``content``, moved into ``family`` (not "declared"); same length and dtype.

    ``constants``: the numbers that "thresholds" goes around.
    """
    if content.kind in ("zeros", "constant", "poison") or values.size == 0:
        return values
    if family in OUTSIDE_FAMILIES:
        return _outside(values, content, dtype, family, stream) if has_range(content, dtype) else values
    if family == "thresholds":
        moved = _thresholds(values, content, dtype, stream, constants)
    elif is_float(dtype):
        moved = _floats(values, content, dtype, family, stream)
    else:
        moved = _integers(values, content, family, stream)
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


def _range(values: Array, content: BufferContent, dtype: str) -> tuple[float, float]:
    """The least and the largest value of what is declared, where that is a range; else of what was drawn."""
    if content.kind == "index":
        return 0, content.parameters[0] - 1
    bounds = _bounds(content)
    if bounds is None:
        least, largest = values.min(), values.max()
        return (float(least), float(largest)) if is_float(dtype) else (int(least), int(largest))
    if is_float(dtype):
        return bounds
    if not content.parameters:
        bounds = (0, 100)
    limits = np.iinfo(dtype) if dtype != "bool" else None
    low, high = bounds[0], bounds[1] - 1
    return (low, high) if limits is None else (max(low, int(limits.min)), min(high, int(limits.max)))


def _outside(values: Array, content: BufferContent, dtype: str, family: str, stream: np.random.Generator) -> Array:
    """Half of the values (all within reach of the type) outside of the declared range."""
    low, high = _range(values, content, dtype)
    count = values.size
    moves = stream.random(count) < 0.5
    span = max(high - low, 1e-6 if is_float(dtype) else 1)
    if is_float(dtype):
        step = span * (stream.random(count) + 1e-3)
        far = np.where(stream.random(count) < 0.5, low - 64 * step, high + 64 * step)
        moved = {"below the range": low - step, "above the range": high + step}.get(family, far)
        return np.asarray(np.where(moves, moved, values.astype(np.float64)), scalar_dtype(dtype))
    if dtype == "bool":
        return values
    limits = np.iinfo(dtype)
    # As many just outside as anywhere within one more range.
    steps = np.where(stream.random(count) < 0.5, stream.integers(1, 4, count), 1 + stream.random(count) * span)
    if family == "below the range":
        wanted = low - np.trunc(steps)
    elif family == "above the range":
        wanted = high + np.trunc(steps)
    else:
        ends = [int(limits.min), int(limits.min) + 1, int(limits.max), int(limits.max) - 1, int(limits.max) // 2]
        drawn = stream.integers(limits.min, limits.max, count, dtype=values.dtype, endpoint=True)
        picked = np.array(ends, values.dtype)[stream.integers(0, len(ends), count)]
        return np.where(moves, np.where(stream.random(count) < 0.5, picked, drawn), values)
    inside = (wanted >= float(limits.min)) & (wanted <= float(limits.max))
    # 2 to the power of 64 is the float next to the largest 64-bit number, and no such number itself.
    safe = np.where(inside & (np.abs(wanted) < 2.0**62), wanted, 0).astype(values.dtype)
    return np.where(moves & inside & (np.abs(wanted) < 2.0**62), safe, values)


def _thresholds(
    values: Array, content: BufferContent, dtype: str, stream: np.random.Generator, constants: tuple[float, ...]
) -> Array:
    """Half of the values at constants, between them and next to them: where comparisons, rounding and special cases
    decide. Multiples by half numbers are ties of a rounding to the nearest."""
    count = values.size
    finite = [one for one in constants if math.isfinite(one) and abs(one) < 1e30]
    if is_float(dtype):
        # Numbers far beyond the values are extents, not thresholds of values; a few of them would drown all others.
        scale = float(np.max(np.abs(values.astype(np.float64)), initial=0.0))
        base = stream.choice(np.array([1.0, 1.0, *(one for one in finite if abs(one) <= 4 * scale)]), count)
        factor = stream.choice(np.array([1.0, 1.0, *(np.arange(-9, 10) / 2)]), count)
        chosen = np.asarray(base * factor, scalar_dtype(dtype)).astype(np.float64)
        nudge = stream.choice(np.array([0.0, 0.0, 1.0, -1.0]), count) * _limits(dtype).unit
        chosen = chosen * (1 + nudge)
        limit = float(float_facts(dtype).max)
        fits = np.abs(chosen) <= limit
        bounds = _bounds(content)
        if bounds is not None:
            fits &= (chosen >= bounds[0]) & (chosen <= bounds[1])
        return np.where(fits & (stream.random(count) < 0.5), chosen, values.astype(np.float64))
    low, high = _range(values, content, dtype)
    numbers = {int(one) for one in finite} | {1 << power for power in range(64)}
    near = {number + step for number in numbers for step in (-1, 0, 1)}
    allowed = sorted(one for one in near | {-one for one in near} | {int(low), int(high)} if low <= one <= high)
    limits = np.iinfo(dtype) if dtype != "bool" else None
    if limits is not None:
        allowed = [one for one in allowed if int(limits.min) <= one <= int(limits.max)]
    if not allowed:
        return values
    picked = np.array(allowed, values.dtype)[stream.integers(0, len(allowed), count)]
    return np.where(stream.random(count) < 0.5, picked, values)


def _crowded(values: Array, stream: np.random.Generator, count: int) -> Array:
    """``count`` of three of the values, most of them the first."""
    chosen: Array = stream.choice(values, 3)
    return chosen[stream.choice(3, count, p=(0.7, 0.2, 0.1))]


def _integers(values: Array, content: BufferContent, family: str, stream: np.random.Generator) -> Array:
    low, high = (int(one) for one in _range(values, content, values.dtype.name))
    count = values.size
    if family == "special values":
        wanted = [low, high] + ([values.dtype.type(0)] if low <= 0 <= high else [])
        chosen = stream.choice(np.array(wanted, values.dtype), count)
        return np.where(stream.random(count) < 0.5, chosen, values)
    if family == "duplicates":
        return _crowded(values, stream, count)
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
        return _crowded(wide, stream, count)
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
