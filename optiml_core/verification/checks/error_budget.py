"""The pooled errors of every output stay within the budget that the original's own errors set (module budget)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen, mutable

from optiml_core.verification.budget import Budget, Pool, budget_for
from optiml_core.verification.references import Observation

# What an opt-in makes of the unit roundoff: the documented error of the approximate intrinsics is a few units to a
# few dozen (CUDA C++ Programming Guide, "Mathematical Functions"); TF32 and half have 10 bits after the point.
FAST_MATH_FACTOR = 32.0
TF32_ROUNDOFF = 2.0**-11
NARROWER_ROUNDOFF = 2.0**-8


# Equal values and values of few digits.
_LUCKY_FAMILIES = frozenset({"duplicates", "thresholds"})


@frozen
class MemberErrors:
    """One output in one value family, pooled over sizes, seeds and schedules. ``stable`` False: the elements at which
    the original has no stable digits, of which only the maximum is judged."""

    name: str
    family: str
    stable: bool
    candidate: Pool
    original: Pool
    budget: Budget
    worst: str
    worst_units: float

    @property
    def within(self) -> bool:
        return self.candidate.maximum <= self.budget.maximum and (
            not self.stable or self.candidate.rms <= self.budget.rms
        )

    def describe(self) -> str:
        """For people: the error beside the original's and the allowed one."""
        where = f" in family {self.family}" if self.family != "declared" else ""
        if not self.stable:
            return (
                f"{self.name}{where}, elements without stable digits: max error {self.candidate.maximum:.2g} "
                f"(original {self.original.maximum:.2g}, allowed {self.budget.maximum:.2g})"
            )
        return (
            f"{self.name}{where}: max error {self.candidate.maximum:.2g} (original {self.original.maximum:.2g}, "
            f"allowed {self.budget.maximum:.2g}), rms {self.candidate.rms:.2g} (original {self.original.rms:.2g}, "
            f"allowed {self.budget.rms:.2g}), {self.worst_units:.0f} units in the last place from the original"
        )


@mutable
class _Sum:
    """What is added up for one output, family and kind of element."""

    roundoff: float
    candidate: Pool = field(factory=Pool)
    original: Pool = field(factory=Pool)
    conditioning: Pool = field(factory=Pool)
    worst: str = ""
    units: float = 0.0


def pooled_errors(observations: Iterable[Observation], allow: frozenset[str] = frozenset()) -> tuple[MemberErrors, ...]:
    """The errors of every floating member by value family, over the given runs of one candidate."""
    sums: dict[tuple[str, str, bool], _Sum] = {}
    counted: set[tuple[int, str]] = set()
    for observation in observations:
        point = observation.reference.point
        for member, comparison in zip(observation.reference.members, observation.comparisons, strict=True):
            once = (id(observation.reference), member.name) not in counted
            counted.add((id(observation.reference), member.name))
            for stable, errors, original, conditioning, worst in (
                (True, comparison.errors, member.original_errors, member.conditioning, comparison.worst),
                (
                    False,
                    comparison.unstable_errors,
                    member.unstable_errors,
                    member.unstable_conditioning,
                    comparison.worst_unstable,
                ),
            ):
                if member.shadow is None or errors.count == 0:
                    continue
                total = sums.setdefault(
                    (member.name, point.family, stable), _Sum(_allowed_roundoff(member.roundoff, allow))
                )
                if not total.worst or errors.maximum > total.candidate.maximum:
                    total.worst = f"at {point.label}: {worst}"
                total.candidate = total.candidate.merged(errors)
                total.units = max(total.units, comparison.worst_units)
                if once:
                    total.original = total.original.merged(original)
                    total.conditioning = total.conditioning.merged(conditioning)
    return tuple(
        MemberErrors(
            name=name,
            family=family,
            stable=stable,
            candidate=total.candidate,
            original=total.original,
            budget=_at_least(
                budget_for(total.original, total.conditioning, total.roundoff),
                sums.get((name, "declared", stable)) if family in _LUCKY_FAMILIES else None,
            ),
            worst=total.worst,
            worst_units=total.units,
        )
        for (name, family, stable), total in sums.items()
    )


def _at_least(budget: Budget, declared: _Sum | None) -> Budget:
    """The budget, or that of the declared family where it is larger: by luck, sums of equal or of short numbers may be
    exact in the original's order, which says nothing of another order."""
    if declared is None:
        return budget
    other = budget_for(declared.original, declared.conditioning, declared.roundoff)
    return Budget(max(budget.maximum, other.maximum), max(budget.rms, other.rms))


def summary(errors: Iterable[MemberErrors]) -> str:
    """For people: of every output the errors in the family that comes nearest to its budget, and how many others stay
    within theirs."""
    by_name: dict[str, list[MemberErrors]] = {}
    for one in errors:
        by_name.setdefault(one.name, []).append(one)
    parts: list[str] = []
    for pools in by_name.values():
        nearest = max(pools, key=_share)
        families = {one.family for one in pools} - {nearest.family}
        others = f"; {len(families)} other value families stay further below" if families else ""
        parts.append(nearest.describe() + others)
    return "; ".join(parts)


def _share(errors: MemberErrors) -> float:
    """How much of its budget a pool uses."""
    shares = [errors.candidate.maximum / errors.budget.maximum if errors.budget.maximum else 0.0]
    if errors.stable and errors.budget.rms:
        shares.append(errors.candidate.rms / errors.budget.rms)
    return max(shares)


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
