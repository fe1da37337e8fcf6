"""The pooled errors of every output stay within the budget that the original's own errors set (module budget)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from optiml_core.verification.budget import Budget, Pool, budget_for
from optiml_core.verification.references import Observation

# What an opt-in makes of the unit roundoff: the documented error of the approximate intrinsics is a few units to a
# few dozen (CUDA C++ Programming Guide, "Mathematical Functions"); TF32 and half have 10 bits after the point.
FAST_MATH_FACTOR = 32.0
TF32_ROUNDOFF = 2.0**-11
NARROWER_ROUNDOFF = 2.0**-8


@frozen
class MemberErrors:
    """One output in one value family, pooled over sizes, seeds and schedules."""

    name: str
    family: str
    candidate: Pool
    original: Pool
    budget: Budget
    worst: str
    worst_units: float

    @property
    def within(self) -> bool:
        return self.candidate.maximum <= self.budget.maximum and self.candidate.rms <= self.budget.rms

    def describe(self) -> str:
        """For people: the error beside the original's and the allowed one."""
        where = f" in family {self.family}" if self.family != "declared" else ""
        return (
            f"{self.name}{where}: max error {self.candidate.maximum:.2g} (original {self.original.maximum:.2g}, "
            f"allowed {self.budget.maximum:.2g}), rms {self.candidate.rms:.2g} (original {self.original.rms:.2g}, "
            f"allowed {self.budget.rms:.2g}), {self.worst_units:.0f} units in the last place from the original"
        )


def pooled_errors(observations: Iterable[Observation], allow: frozenset[str] = frozenset()) -> tuple[MemberErrors, ...]:
    """The errors of every floating member by value family, over the given runs of one candidate."""
    candidate: dict[tuple[str, str], Pool] = {}
    original: dict[tuple[str, str], Pool] = {}
    conditioning: dict[tuple[str, str], Pool] = {}
    roundoff: dict[tuple[str, str], float] = {}
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    units: dict[tuple[str, str], float] = {}
    counted: set[tuple[int, str]] = set()
    for observation in observations:
        family = observation.reference.point.family
        for member, comparison in zip(observation.reference.members, observation.comparisons, strict=True):
            if member.shadow is None or comparison.errors.count == 0:
                continue
            key = (member.name, family)
            roundoff[key] = _allowed_roundoff(member.roundoff, allow)
            candidate[key] = candidate.get(key, Pool()).merged(comparison.errors)
            units[key] = max(units.get(key, 0.0), comparison.worst_units)
            if key not in worst or comparison.errors.maximum > worst[key][0]:
                worst[key] = (comparison.errors.maximum, f"at {observation.reference.point.label}: {comparison.worst}")
            if (id(observation.reference), member.name) not in counted:
                counted.add((id(observation.reference), member.name))
                original[key] = original.get(key, Pool()).merged(member.original_errors)
                conditioning[key] = conditioning.get(key, Pool()).merged(member.conditioning)
    return tuple(
        MemberErrors(
            name=key[0],
            family=key[1],
            candidate=pool,
            original=original[key],
            budget=budget_for(original[key], conditioning[key], roundoff[key]),
            worst=worst[key][1],
            worst_units=units[key],
        )
        for key, pool in candidate.items()
    )


def problem(errors: Iterable[MemberErrors]) -> str | None:
    """The first output that is outside its budget, or None."""
    for member in errors:
        if not member.within:
            return f"{member.describe()}; worst {member.worst}"
    return None


def _allowed_roundoff(roundoff: float, allow: frozenset[str]) -> float:
    allowed = roundoff
    if "fast-math" in allow:
        allowed = max(allowed, roundoff * FAST_MATH_FACTOR)
    if "tf32" in allow:
        allowed = max(allowed, TF32_ROUNDOFF)
    if "narrower" in allow:
        allowed = max(allowed, NARROWER_ROUNDOFF)
    return allowed
