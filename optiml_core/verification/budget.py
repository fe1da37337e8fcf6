"""The error budget: how far a candidate's floating-point outputs may lie from the original's.

The measure is relative to the *shadow*, the original run in a wider type. With v a value, s its shadow and u the
unit roundoff of the output's type:

    e = |v - s| / max(|s|, 1e-3 * median |s| of the buffer, smallest normal number)
    pass: max e <= max(4 * the original's, 8 u, 2 * its conditioning)
          rms e <= max(2 * the original's, 2 u, its conditioning)

The conditioning is the original's own spread, in the same measure, when its inputs move by one unit in the last
place: a legal change of summation order on cancelling data stays within it, a narrower accumulator does not (Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd ed., sections 1.6 and 4.2). Errors are pooled per buffer and
value family. The median is taken over non-zero elements, since many buffers are mostly padding.

Both rules compare samples. A maximum or a root mean square that rests on k elements alike is itself uncertain by about
1 / sqrt(k), and on cancelling data one element often outweighs all others: two equally good summation orders then
differ by more than the factors above in one case of seven. So what is taken from the original and its conditioning
counts 1 + 6 / sqrt(k) times, k being the participation ratio of the squared errors.

Elements at which the original has no stable digits (a rounding step flips a comparison, or all digits cancel) would
loosen the pool for all others. They form a pool of their own, with the same rule on the maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.device.protocol import Array
from optiml_core.verification.buffers import (
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    BoolMask,
    as_real,
    bit_patterns,
    bits_differ,
    is_inexact,
)

Reals = npt.NDArray[Any]  # float64, or long double for double kernels

# The constants of the budget. Ours: tuned on the mutants in tests/verification/kernels, never on one kernel.
MAXIMUM_FACTOR = 4.0
MAXIMUM_UNITS = 8.0
MAXIMUM_CONDITIONING = 2.0
RMS_FACTOR = 2.0
RMS_UNITS = 2.0
RMS_CONDITIONING = 1.0
SMALL_SHADOW = 1e-3
SMALL_POOL = 6.0
# From this relative error on, an element of the original has no digits that a comparison could rest on.
UNSTABLE_ERROR = 2.0**-6
UNSTABLE_UNITS = 64.0


@frozen
class Pool:
    """Errors of many elements: the largest, the sums of squares and of fourth powers, how many."""

    maximum: float = 0.0
    sum_of_squares: float = 0.0
    count: int = 0
    sum_of_fourths: float = 0.0

    @property
    def rms(self) -> float:
        return float(np.sqrt(self.sum_of_squares / self.count)) if self.count else 0.0

    @property
    def effective_count(self) -> float:
        """How many elements the root mean square rests on: all of them if they are alike, 1 if one outweighs the rest
        (the participation ratio of the squared errors)."""
        return self.sum_of_squares**2 / self.sum_of_fourths if self.sum_of_fourths else float(self.count)

    def merged(self, other: Pool) -> Pool:
        return Pool(
            max(self.maximum, other.maximum),
            self.sum_of_squares + other.sum_of_squares,
            self.count + other.count,
            self.sum_of_fourths + other.sum_of_fourths,
        )


def pool_of(errors: Reals) -> Pool:
    """The pool of an array of errors."""
    if errors.size == 0:
        return Pool()
    largest = float(errors.max())
    if largest == 0:
        return Pool(count=int(errors.size))
    # Scaled by the largest, because fourth powers of small errors would vanish.
    squares = np.square((errors / largest).astype(np.float64))
    fourths = float(np.square(squares).sum())
    return Pool(largest, float(squares.sum()) * largest**2, int(errors.size), fourths * largest**4)


@frozen
class Budget:
    """What a candidate's pooled errors may reach."""

    maximum: float
    rms: float


def budget_for(original: Pool, conditioning: Pool, roundoff: float) -> Budget:
    """The rule of this module's head for the original's errors, its conditioning and u = ``roundoff``."""
    known = [pool.effective_count for pool in (original, conditioning) if pool.count and pool.maximum > 0]
    uncertainty = 1 + SMALL_POOL / max(min(known, default=1.0), 1.0) ** 0.5
    maximum = max(MAXIMUM_FACTOR * original.maximum, MAXIMUM_CONDITIONING * conditioning.maximum) * uncertainty
    maximum = max(maximum, MAXIMUM_UNITS * roundoff)
    rms = max(RMS_FACTOR * original.rms, RMS_UNITS * roundoff, RMS_CONDITIONING * conditioning.rms) * uncertainty
    return Budget(maximum, min(maximum, rms))


@frozen
class MemberReference:
    """What is expected of one scalar member of one buffer, from the original's own runs.

    All arrays are flat and of one length. ``kept`` marks elements that the original never wrote. ``scale`` is the
    denominator of e, ``shadow`` its reference (the original itself where no shadow exists); both are None for exact
    types. ``pooled`` marks elements that count for the budget, ``unstable`` those with a pool of their own.
    """

    name: str
    dtype: str
    initial: Array
    expected: Array
    kept: BoolMask
    shadow: Reals | None = None
    scale: Reals | None = None
    pooled: BoolMask | None = None
    unstable: BoolMask | None = None
    original_errors: Pool = Pool()
    conditioning: Pool = Pool()
    unstable_errors: Pool = Pool()
    unstable_conditioning: Pool = Pool()

    @property
    def roundoff(self) -> float:
        return UNIT_ROUNDOFF.get(self.dtype, 0.0)


def member_reference(
    name: str,
    initial: Array,
    runs: Sequence[Array],
    shadow: Array | None,
    perturbed_runs: Sequence[Array],
    kept: BoolMask,
) -> MemberReference:
    """Joins the original's runs of one member into its reference.

    ``runs``: outputs of the original on the same contents (other schedules), the first one being the expected one.
    ``perturbed_runs``: outputs after the inputs moved by one unit in the last place. All flat, one dtype; ``shadow``
    flat in the wider type, or None: then twice the spread over moved inputs stands for the original's errors.
    """
    expected = runs[0]
    if not is_inexact(expected.dtype):
        return MemberReference(name, expected.dtype.name, initial, expected, kept)
    wide = np.longdouble if expected.dtype.name == "float64" else np.float64
    values = [as_real(run, wide) for run in runs]
    moved = [as_real(run, wide) for run in perturbed_runs]
    reference = values[0] if shadow is None else shadow.astype(wide)
    with np.errstate(all="ignore"):
        # Where only the original or only the shadow overflows, the original is the reference.
        reference = np.where(np.isfinite(reference), reference, values[0])
        comparable = np.isfinite(values[0]) & ~kept
        scale = _scale(reference, comparable, expected.dtype.name)
        spread: Reals = np.zeros(expected.size, wide)
        errors: Reals = np.zeros(expected.size, wide)
        for run in values:
            errors = np.fmax(errors, _finite(np.abs(run - reference) / scale))
        for run in moved:
            spread = np.fmax(spread, _finite(np.abs(run - values[0]) / scale))
        if shadow is None:
            # The original is its own reference. Two results that are equally good lie up to the sum of their errors
            # apart, and its spread is all that is known of either.
            errors = np.fmax(errors, 2 * spread)
        limit = max(UNSTABLE_ERROR, UNSTABLE_UNITS * UNIT_ROUNDOFF[expected.dtype.name])
        unstable = comparable & ((errors > limit) | (spread > limit))
        pooled = comparable & ~unstable
        conditioning, unstable_conditioning = Pool(), Pool()
        for run in moved:
            distance = _finite(np.abs(run - values[0]) / scale)
            conditioning = conditioning.merged(pool_of(distance[pooled]))
            unstable_conditioning = unstable_conditioning.merged(pool_of(distance[unstable]))
    return MemberReference(
        name=name,
        dtype=expected.dtype.name,
        initial=initial,
        expected=expected,
        kept=kept,
        shadow=reference,
        scale=scale,
        pooled=pooled,
        unstable=unstable,
        original_errors=pool_of(errors[pooled]),
        conditioning=conditioning,
        unstable_errors=pool_of(errors[unstable]),
        unstable_conditioning=unstable_conditioning,
    )


def _scale(reference: Reals, comparable: BoolMask, dtype: str) -> Reals:
    """The denominator of e for every element."""
    magnitudes: Reals = np.abs(reference)
    typical = magnitudes[comparable & (magnitudes > 0)]
    floor = SMALL_SHADOW * np.median(typical) if typical.size else 0.0
    scale: Reals = np.maximum(magnitudes, max(float(floor), SMALLEST_NORMAL[dtype]))
    return scale


def _finite(errors: Reals) -> Reals:
    """Errors with NaN (a non-finite value on either side, judged elsewhere) counted as 0."""
    return np.where(np.isfinite(errors), errors, 0)


@frozen
class MemberComparison:
    """A candidate's values of one member against its reference: how many elements break which rule, the first of
    each with its values, and the errors that go into the pool."""

    name: str
    kept_changed: int = 0
    non_finite: int = 0
    exact: int = 0
    first: Mapping[str, str] = {}
    errors: Pool = Pool()
    unstable_errors: Pool = Pool()
    worst: str = ""
    worst_unstable: str = ""
    worst_units: float = 0.0  # the largest distance from the original in units in the last place


def compare_member(reference: MemberReference, values: Array, ignore_nan: bool = False) -> MemberComparison:
    """Compares flat ``values`` of a candidate with the reference.

    ``ignore_nan`` (the opt-in ``nan``) skips elements at which either side is not a finite number.
    """
    first: dict[str, str] = {}
    moved = bits_differ(values, reference.initial) & reference.kept
    kept_changed = _count(moved, "kept_changed", first, reference, values)
    if reference.shadow is None or reference.scale is None or reference.pooled is None:
        wrong = bits_differ(values, reference.expected) & ~reference.kept
        return MemberComparison(
            reference.name, kept_changed, exact=_count(wrong, "exact", first, reference, values), first=first
        )
    wide = reference.shadow.dtype
    mine, theirs = as_real(values, wide), as_real(reference.expected, wide)
    with np.errstate(all="ignore"):
        finite_mine, finite_theirs = np.isfinite(mine), np.isfinite(theirs)
        same_kind = (np.isnan(mine) & np.isnan(theirs)) | (mine == theirs)
        place = ~(finite_mine & finite_theirs) & ~same_kind & ~reference.kept
        if ignore_nan:
            place = np.zeros_like(place)
        errors = np.abs(mine - reference.shadow) / reference.scale
        usable = reference.pooled & finite_mine
        loose = finite_mine & reference.unstable if reference.unstable is not None else np.zeros_like(usable)
    non_finite = _count(place, "non_finite", first, reference, values)
    units = _units_apart(reference.expected, values, usable) if usable.any() else 0.0
    return MemberComparison(
        name=reference.name,
        kept_changed=kept_changed,
        non_finite=non_finite,
        first=first,
        errors=pool_of(errors[usable]),
        unstable_errors=pool_of(errors[loose]),
        worst=_worst(reference, values, errors, usable),
        worst_unstable=_worst(reference, values, errors, loose),
        worst_units=units,
    )


def _worst(reference: MemberReference, values: Array, errors: Reals, mask: BoolMask) -> str:
    return _describe(reference, values, int(np.argmax(np.where(mask, errors, -1)))) if mask.any() else ""


def _units_apart(expected: Array, values: Array, usable: BoolMask) -> float:
    """The largest distance in units in the last place: the number of representable values between two numbers."""
    left, right = bit_patterns(expected[usable]), bit_patterns(values[usable])
    if left.ndim != 1:
        return float("nan")
    return float(np.abs(_ordered(left) - _ordered(right)).max())


def _ordered(bits: Array) -> npt.NDArray[np.float64]:
    """Bit patterns of sign-magnitude numbers mapped to a line on which neighbours differ by 1."""
    sign = np.uint64(1) << np.uint64(bits.dtype.itemsize * 8 - 1)
    wide = bits.astype(np.uint64)
    magnitude = (wide & (sign - np.uint64(1))).astype(np.float64)
    return np.where(wide & sign, -magnitude, magnitude)


def _count(mask: BoolMask, rule: str, first: dict[str, str], reference: MemberReference, values: Array) -> int:
    found = int(np.count_nonzero(mask))
    if found:
        first[rule] = _describe(reference, values, int(np.argmax(mask)))
    return found


def _describe(reference: MemberReference, values: Array, index: int) -> str:
    return f"{reference.name}[{index}] is {values[index]}, the original has {reference.expected[index]}"
