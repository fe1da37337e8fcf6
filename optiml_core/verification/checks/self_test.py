"""The harness tests itself: outputs known to be bad must fail on this workload, or nothing that passes means anything.

Zeros, a copy of an input and a constant must fail at one of the given points unless they equal the original's output
at all of them. One changed element, another seed's output and poison must fail at every point unless they are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optiml_core.device.protocol import Array
from optiml_core.verification.budget import MemberReference
from optiml_core.verification.buffers import POISON_PATTERNS, UNIT_ROUNDOFF, bits_differ, filled, is_inexact
from optiml_core.verification.checks import error_budget, non_finite, outputs
from optiml_core.verification.references import Observation, Reference, members_of

# How much one changed element changes, relative to the denominator of the error measure.
CHANGED_BY = 0.25
CHANGED_UNITS = 512.0
# With more outputs than this without a stable digit, agreement of the others shows little.
UNSTABLE_SHARE = 0.5

Values = dict[str, Array]


def problem(references: Sequence[Reference], stale: Mapping[int, Mapping[str, Array]]) -> str | None:
    """The first bad output that would pass, or None.

    ``stale`` gives, by position in ``references``, the original's outputs for other contents at the same sizes.
    """
    if all(not _written(reference) for reference in references):
        return "the original writes nothing"
    for position, reference in enumerate(references):
        found = problem_at(reference, stale.get(position))
        if found is not None:
            return found
    for name in ("zeros", "a constant", "a copy of an input"):
        attempts = [(reference, values) for reference in references for values in _wrong(name, reference)]
        unequal = [(reference, values) for reference, values in attempts if not _equal(reference, values)]
        if unequal and all(_passes(reference, values) for reference, values in unequal):
            return f"an output of {name} would pass"
    return None


def problem_at(reference: Reference, stale: Mapping[str, Array] | None = None) -> str | None:
    """The first output that must always fail and would pass at one point, or None."""
    unstable = _unstable_share(reference)
    if unstable > UNSTABLE_SHARE:
        return f"{unstable:.0%} of the outputs have no stable digits at {reference.point.label}"
    for name, values in _always_wrong(reference, stale):
        if not _equal(reference, values) and _passes(reference, values):
            return f"{name} would pass at {reference.point.label}"
    return None


def _unstable_share(reference: Reference) -> float:
    stable = unstable = 0
    for member in reference.members:
        if member.pooled is not None and member.unstable is not None:
            stable += int(member.pooled.sum())
            unstable += int(member.unstable.sum())
        else:
            stable += int((~member.kept).sum())
    return unstable / max(stable + unstable, 1)


def _written(reference: Reference) -> list[MemberReference]:
    return [member for member in reference.members if not member.kept.all()]


def _expected(reference: Reference) -> Values:
    return {member.name: member.expected for member in reference.members}


def _replaced(member: MemberReference, values: Array) -> Array:
    """``values`` where the original writes, the untouched rest as it was."""
    return np.where(member.kept, member.expected, values.astype(member.expected.dtype))


def _always_wrong(reference: Reference, stale: Mapping[str, Array] | None) -> Iterator[tuple[str, Values]]:
    for member in _written(reference):
        changed = _one_changed_element(member)
        if changed is not None:
            yield f"one changed element of {member.name}", {**_expected(reference), member.name: changed}
    if stale is not None:
        old = members_of(stale)
        yield (
            "the output of an earlier launch",
            {member.name: _replaced(member, old[member.name]) for member in reference.members},
        )
    yield (
        "an output that was never written",
        {
            member.name: np.where(member.kept, member.expected, filled(member.expected, POISON_PATTERNS[0]))
            for member in reference.members
        },
    )


def _wrong(name: str, reference: Reference) -> Iterator[Values]:
    expected, written = _expected(reference), _written(reference)
    if name == "a copy of an input":
        inputs = [
            member
            for member in reference.members
            if reference.roles.get(member.name.partition(".")[0]) == "in" and member.expected.size
        ]
        for member in written:
            for source in inputs:
                if source.expected.dtype == member.expected.dtype:
                    copy = np.resize(source.expected, member.expected.shape)
                    yield {**expected, member.name: _replaced(member, copy)}
        return
    values: Values = dict(expected)
    for member in written:
        constant = member.expected[~member.kept][:1] if name == "a constant" else np.zeros(1, member.expected.dtype)
        values[member.name] = _replaced(member, np.broadcast_to(constant, member.expected.shape))
    yield values


def _one_changed_element(member: MemberReference) -> Array | None:
    candidates = np.flatnonzero(~member.kept if member.pooled is None else member.pooled)
    if candidates.size == 0:
        return None
    index = int(candidates[candidates.size // 2])
    changed = member.expected.copy()
    if not is_inexact(member.expected.dtype) or member.scale is None:
        changed[index] = np.bitwise_xor(changed[index], member.expected.dtype.type(1))
        return changed
    step = float(member.scale[index]) * max(CHANGED_BY, CHANGED_UNITS * UNIT_ROUNDOFF[member.dtype])
    with np.errstate(over="ignore"):
        changed[index] = np.asarray(float(changed[index]) + step).astype(changed.dtype)
    return changed


def _equal(reference: Reference, values: Values) -> bool:
    for member in reference.members:
        different = bits_differ(values[member.name], member.expected) & ~member.kept
        with np.errstate(invalid="ignore"):
            both_nan = (values[member.name] != values[member.name]) & (member.expected != member.expected)
        if (different & ~both_nan).any():
            return False
    return True


def _passes(reference: Reference, values: Values) -> bool:
    """Whether the comparison lets these values through."""
    comparisons = reference.compare_members(values)
    observation = Observation(reference, reference.result, comparisons)
    return (
        non_finite.problem(comparisons) is None
        and outputs.problem(comparisons) is None
        and error_budget.problem(error_budget.pooled_errors([observation])) is None
    )
