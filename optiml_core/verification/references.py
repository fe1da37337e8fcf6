"""What the original does at one point (a launch with sizes, contents, addresses): the oracle of every comparison."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from optiml_core.device.protocol import Array, Contents, RunResult
from optiml_core.records import Launch, LaunchChange
from optiml_core.verification.budget import MemberComparison, MemberReference, compare_member
from optiml_core.verification.buffers import POISON_PATTERNS, filled, scalar_members
from optiml_core.verification.roles import Role

# The contents of points that are compared for one special case each: fewer runs of the original are spent on them.
EXTRA_SEED = 3
_UNCHANGED = LaunchChange()


@frozen
class Point:
    """Where the original and the candidate are compared.

    ``index``: which launch of the workload. ``overrides``: names with other values than declared.
    ``family`` and ``seed`` make the contents, ``offset`` shifts every base address by that many elements,
    ``aliases`` lets a buffer share the memory of another. ``checked`` False runs without the device's checkers,
    for sizes at which they cost too much. ``shifted``: the one buffer that ``offset`` shifts, empty for all.
    ``change``: another grid or block than the workload's. ``constants``:
    further numbers that contents of the family "thresholds" take.
    """

    index: int = 0
    overrides: tuple[tuple[str, int | float], ...] = ()
    family: str = "declared"
    seed: int = 0
    offset: int = 0
    aliases: tuple[tuple[str, str], ...] = ()
    checked: bool = True
    shifted: str = ""
    constants: tuple[float, ...] = ()
    change: LaunchChange = _UNCHANGED

    @property
    def label(self) -> str:
        """For people: ``n = 33, special values``."""
        parts = [f"{name} = {value}" for name, value in self.overrides] or ["declared sizes"]
        if self.index:
            parts.insert(0, f"launch {self.index + 1}")
        if self.family != "declared":
            parts.append(f"family {self.family}")
        if self.offset:
            parts.append(
                f"{f'the address of {self.shifted}' if self.shifted else 'addresses'} shifted by {self.offset}"
            )
        parts += ["twice the blocks"] if self.change.grid else []
        parts += ["blocks of half the width"] if self.change.block else []
        parts.extend(f"{name} = {other}" for name, other in self.aliases)
        return ", ".join(parts)


@frozen
class Reference:
    """The original's behaviour at one point.

    ``contents`` hold the first poison pattern in the outputs. ``members`` join the runs (module budget).
    ``faults``: kind and buffer of the original's own. ``deterministic``: the same bits over schedules.
    ``ignores_poison``: the same bits whatever unwritten memory holds. ``seconds``: wall time of one run.
    """

    point: Point
    launch: Launch
    contents: Contents
    outputs: tuple[str, ...]
    members: tuple[MemberReference, ...]
    roles: Mapping[str, Role]
    result: RunResult
    faults: frozenset[tuple[str, str]] = frozenset()
    deterministic: bool = True
    ignores_poison: bool = True
    has_shadow: bool = True
    seconds: float = 0.0

    @property
    def cost(self) -> float:
        """Memory accesses of one run, where the device counts them; the same on every machine."""
        return self.result.metrics.get("accesses", 0.0)

    def contents_for(self, pattern: int) -> Contents:
        """The contents with ``POISON_PATTERNS[pattern]`` in the outputs."""
        if pattern == 0:
            return self.contents
        buffers = {
            name: filled(array, POISON_PATTERNS[pattern]) if name in self.outputs else array
            for name, array in self.contents.buffers.items()
        }
        return evolve(self.contents, buffers=buffers)

    def compare(
        self, buffers: Mapping[str, Array], pattern: int = 0, ignore_nan: bool = False
    ) -> tuple[MemberComparison, ...]:
        """Compares the buffers after a run on ``contents_for(pattern)`` with the original's, member by member."""
        return self.compare_members(members_of(buffers), pattern, ignore_nan)

    def compare_members(
        self, values: Mapping[str, Array], pattern: int = 0, ignore_nan: bool = False
    ) -> tuple[MemberComparison, ...]:
        """The same for values that are split into scalar members already."""
        initial = members_of(self.contents_for(pattern).buffers)
        return tuple(
            compare_member(evolve(member, initial=initial[member.name]), values[member.name], ignore_nan)
            for member in self.members
        )


@frozen
class Dropped:
    """A point at which nothing can be compared, because of the original itself (or the device), and why.

    ``kind``: "misbehaves" (out of bounds and the like), "nondeterministic", "no-launch" (the workload
    excludes it), "too-large" and "too-slow" (the device's limits), "undefined" (an aliasing without a meaning).
    """

    point: Point
    kind: str
    reason: str


@frozen
class Observation:
    """One run of a candidate at a point, compared."""

    reference: Reference
    result: RunResult
    comparisons: tuple[MemberComparison, ...]
    pattern: int = 0
    schedule: int = 0


def members_of(buffers: Mapping[str, Array]) -> dict[str, Array]:
    """All buffers as flat arrays of one scalar type each, by member name."""
    return dict(pair for name, array in buffers.items() for pair in scalar_members(name, array))
