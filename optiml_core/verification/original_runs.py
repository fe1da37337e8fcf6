"""Runs the original: roles of its buffers, its behaviour at every point, kept across candidates.

The original at one point costs about seven runs: two with different poison, schedule and checkers on, one more
schedule, the shadow in the wider type, three with inputs moved by one unit in the last place, and, for buffers that are
updated in place, one on other contents to learn which elements it never touches.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping

import numpy as np
from attrs import evolve, frozen

from optiml_core.device.protocol import Array, Built, Contents, Device, RunOptions, RunResult
from optiml_core.records import BufferArgument, Failure, Launch, LaunchChange, ScalarArgument, Variant
from optiml_core.verification.budget import MemberReference, budget_for, member_reference
from optiml_core.verification.buffers import POISON_PATTERNS, BoolMask, bits_differ, perturbed, poisoned
from optiml_core.verification.checks import faults
from optiml_core.verification.kept_runs import KeptRuns
from optiml_core.verification.numbers import MOST_NUMBERS, numbers_in
from optiml_core.verification.references import EXTRA_SEED, Dropped, Point, Reference, members_of
from optiml_core.verification.roles import Roles, content_for_read_output, declared_outputs, find_roles
from optiml_core.workload import OUTSIDE_FAMILIES, Workload, make_contents, resolve_launch
from optiml_core.workload.contents import widen

# Faults after which nothing that the original computed can serve as an oracle. Races and uninitialised reads are
# different: they are the baseline, as long as the outputs do not depend on them.
_FATAL_FAULTS = frozenset(
    {"out-of-bounds", "misaligned", "deadlock", "step-limit", "launch-limit", "assertion", "sticky-error"}
)
_TOO_LARGE = frozenset({"out-of-memory", "step-limit"})

# The longest that one run of the original may take before a point counts as too large for this device, seconds.
LONGEST_RUN = 10.0
# The most memory accesses of one run that a verdict can afford a few times: some 2 s with checkers on the emulator,
# 0.1 s without. Counted, not timed, so that a verdict does not depend on how busy the machine is.
MOST_CHECKED = 40_000_000
MOST_UNCHECKED = 10_000_000
# The same for values outside of what is declared: a loop that such a value bounds may be very long.
MOST_OUTSIDE = 4_000_000
LONGEST_OUTSIDE = 2.0
# The largest buffers, together, of which a dozen copies can be held: original, shadow, poisons, moved inputs. Bytes.
LARGEST_CHECKED = 128 << 20
LARGEST_UNCHECKED = 16 << 20
SCHEDULES = (0, 1, 2)
PERTURBATIONS = 3
# Where contents for other purposes come from, so that they are unlike those of any point.
_OTHER_SEED = 7919


@frozen
class Prepared:
    """A launch of the workload with contents, outputs poisoned by the first pattern."""

    launch: Launch
    contents: Contents
    outputs: tuple[str, ...]


class OriginalRuns:
    """The original on one device, with everything that was learned of it. Failures are values."""

    def __init__(
        self,
        original: Variant,
        workload: Workload,
        device: Device,
        seed: int = 0,
        kept: KeptRuns | None = None,
    ) -> None:
        """``kept``: where other processes of the same search find what this one learned."""
        self._kept_runs = kept
        self.original = original
        self.workload = workload
        self.device = device
        self.seed = seed
        self.runs = 0
        # Numbers of the original's text: values around them are tried, because kernels decide by them.
        self.constants = self._numbers()
        self._built: dict[tuple[tuple[str, ...], bool], Built | Failure] = {}
        self._roles: dict[int, Roles] = {}
        self._references: dict[Point, Reference | Dropped] = {}
        self._well_defined: dict[Point, bool] = {}

    def _numbers(self) -> tuple[float, ...]:
        """The numbers of the kernel, then those of the rest of the file, as many as are tried."""
        data, where = self.original.data, self.workload.kernel.range
        texts = [data[where.start_byte : where.end_byte], data]
        found = [number for text in texts for number in numbers_in(text.decode("utf-8", "replace"))]
        return tuple(dict.fromkeys(found))[:MOST_NUMBERS]

    # ------------------------------------------------------------------------------ launches

    def launch(self, point: Point, change: LaunchChange | None = None) -> Launch | Failure:
        """The launch at a point, with the contents that roles gave to outputs which the original reads."""
        if change is None or change == LaunchChange():
            change = point.change
        launch = resolve_launch(self.workload, point.index, dict(point.overrides), change)
        if isinstance(launch, Failure):
            return launch
        roles = self._roles.get(point.index)
        read_first = roles.read_first if roles is not None else ()
        if not read_first:
            return launch
        arguments = tuple(
            evolve(argument, content=content_for_read_output(argument))
            if isinstance(argument, BufferArgument) and argument.name in read_first
            else argument
            for argument in launch.arguments
        )
        return evolve(launch, arguments=arguments)

    def declared_globals(self) -> frozenset[str]:
        """The module variables that the workload fills, and whose contents are therefore compared."""
        launch = resolve_launch(self.workload)
        return frozenset() if isinstance(launch, Failure) else frozenset(one.name for one in launch.globals)

    def prepare(self, point: Point) -> Prepared | Failure:
        """The original's launch at a point and its contents."""
        launch = self.launch(point)
        if isinstance(launch, Failure):
            return launch
        buffers = [one for one in (*launch.arguments, *launch.globals) if isinstance(one, BufferArgument)]
        size = sum(one.length * one.element.size for one in buffers)
        limit = LARGEST_CHECKED if point.checked else LARGEST_UNCHECKED
        if size > limit:
            return Failure("out-of-memory", f"its buffers have {size >> 20} MiB; {limit >> 20} MiB is the limit")
        constants = (*self.constants, *point.constants)
        arrays = make_contents(launch, point.seed + 1000 * self.seed, point.family, constants=constants)
        if isinstance(arrays, Failure):
            return arrays
        aliases = dict(point.aliases)
        for name, other in aliases.items():
            arrays[name] = arrays[other]
        outputs = tuple(name for name in declared_outputs(launch) if name not in aliases)
        contents = Contents(arrays, point.offset, aliases, point.shifted)
        return Prepared(launch, poisoned(contents, outputs, POISON_PATTERNS[0]), outputs)

    def build(self, launch: Launch, widened: bool = False) -> Built | Failure:
        """The original compiled for a launch's template arguments."""
        key = (launch.template_arguments, widened)
        if key not in self._built:
            self._built[key] = self.device.build(self.original, launch.template_arguments, widened)
        return self._built[key]

    def run(
        self,
        launch: Launch,
        contents: Contents,
        schedule: int = 0,
        pattern: int = 0,
        checks: bool = True,
        widened: bool = False,
        steps: int = MOST_CHECKED,
        seconds: float = LONGEST_RUN,
    ) -> RunResult | Failure:
        """One run of the original, of at most so many accesses and seconds."""
        built = self.build(launch, widened)
        if isinstance(built, Failure):
            return built
        self.runs += 1
        options = RunOptions(
            checks=checks,
            schedule=schedule,
            poison=POISON_PATTERNS[pattern],
            seconds=seconds,
            steps=steps,
        )
        return self.device.run(built, launch, contents, options)

    # --------------------------------------------------------------------------------- roles

    def roles(self, point: Point) -> Roles | Failure:
        """The roles of the buffers of a launch, found at the first point that asks for them."""
        known = self._roles.get(point.index)
        if known is not None:
            return known
        plain = evolve(point, family="declared", offset=0, aliases=())
        # One answer for all processes, whichever point each asks first: references depend on the roles.
        found = self._recall(Roles, point.index, lambda: self._find_roles(plain))
        assert isinstance(found, (Roles, Failure))
        # A point at which the original misbehaves says nothing of the others: only an answer is kept.
        if isinstance(found, Roles):
            self._roles[point.index] = found
        return found

    def _find_roles(self, point: Point) -> Roles | Failure:
        prepared = self.prepare(point)
        if isinstance(prepared, Failure):
            return prepared
        other = make_contents(prepared.launch, point.seed + _OTHER_SEED)
        if isinstance(other, Failure):
            return other

        def run(contents: Contents) -> RunResult | Failure:
            result = self.run(prepared.launch, contents)
            fatal = None if isinstance(result, Failure) else _fatal(result)
            return result if fatal is None else Failure("misbehaves", fatal)

        return find_roles(run, prepared.launch, prepared.contents, Contents(other))

    # ---------------------------------------------------------------------------- references

    def reference(self, point: Point) -> Reference | Dropped:
        """The original's behaviour at a point, from the cache if it is known."""
        if point not in self._references:
            self.roles(point)  # another process's reference was made with these, which `launch` needs as well
            found = self._recall(Reference, point, lambda: self._reference(point))
            assert isinstance(found, (Reference, Dropped))
            self._references[point] = found
        return self._references[point]

    def _recall(self, kind: type[Reference] | type[Roles], what: Point | int, compute: Callable[[], object]) -> object:
        """Computed here, or by another process of the search on the same device."""
        if self._kept_runs is None:
            return compute()
        key = (kind.__name__, self.device.name, self.workload.template_arguments, self.seed, what)
        return self._kept_runs.recall(kind, key, compute)

    def _reference(self, point: Point) -> Reference | Dropped:
        roles = self.roles(point)
        if isinstance(roles, Failure):
            return _dropped(point, roles)
        prepared = self.prepare(point)
        if isinstance(prepared, Failure):
            return _dropped(point, prepared)
        launch, contents, outputs = prepared.launch, prepared.contents, prepared.outputs
        started = time.perf_counter()
        steps = MOST_CHECKED if point.checked else MOST_UNCHECKED
        limit = LONGEST_RUN
        if point.family in OUTSIDE_FAMILIES:
            steps, limit = MOST_OUTSIDE, LONGEST_OUTSIDE
        first = self.run(launch, contents, SCHEDULES[0], checks=point.checked, steps=steps, seconds=limit)
        seconds = time.perf_counter() - started
        if isinstance(first, Failure):
            return _dropped(point, first)
        if any(fault.kind == "step-limit" for fault in first.faults):
            return Dropped(point, "too-large", f"the original makes more than {steps:,} memory accesses")
        second_contents = poisoned(contents, outputs, POISON_PATTERNS[1])
        # Other contents and addresses do not change the order in which threads run: one schedule shows what they do.
        plain = point.family == "declared" and point.seed == 0 and not point.offset and point.checked
        good = [first]
        fatal = _fatal(first)
        for schedule, pattern in [(SCHEDULES[0], 1), *[(number, 0) for number in SCHEDULES[1 : None if plain else 1]]]:
            if fatal is not None:
                return Dropped(point, "misbehaves", fatal)
            # The poison shows in the outputs alone: that run needs no checkers.
            checks = point.checked and not pattern
            result = self.run(launch, second_contents if pattern else contents, schedule, pattern, checks)
            if isinstance(result, Failure):
                return _dropped(point, result)
            good.append(result)
            fatal = _fatal(result)
        if fatal is not None:
            return Dropped(point, "misbehaves", fatal)
        kept = self._kept(point, prepared, [(contents, good[0]), (second_contents, good[1])])
        shadow = self._shadow(prepared)
        moved = self._moved(point, prepared)
        members = self._members(prepared, [good[0], *good[2:]], shadow, moved, kept)
        written = {name: ~mask for name, mask in kept.items()}
        deterministic = all(_same_bits(good[0], other, written) for other in good[2:])
        ignores_poison = _same_bits(good[0], good[1], written)
        beyond = _beyond_budget(members, [*good[1:]])
        if beyond is not None:
            return Dropped(point, "nondeterministic", f"the original's own runs differ beyond the budget: {beyond}")
        return Reference(
            point=point,
            launch=launch,
            contents=contents,
            outputs=outputs,
            members=members,
            roles=roles.by_name,
            result=first,
            faults=frozenset().union(*(faults.baseline(result.faults) for result in good)),
            deterministic=deterministic,
            ignores_poison=ignores_poison,
            has_shadow=shadow is not None,
            seconds=seconds,
        )

    def is_repeated(self, reference: Reference, runs: tuple[tuple[int, int], ...]) -> bool:
        """Whether the original computes what ``reference`` says in these (pattern, schedule) too."""
        for pattern, schedule in runs:
            checked = reference.point.checked
            result = self.run(reference.launch, reference.contents_for(pattern), schedule, pattern, checks=checked)
            if isinstance(result, Failure) or _fatal(result) is not None:
                return False
            if _beyond_budget(reference.members, [result]) is not None:
                return False
        return True

    def is_well_defined(self, point: Point) -> bool:
        """Whether the original, run with the shared memory of ``point``, does what it does on a copy.

        True if it computes the same bits as on separate buffers of the same contents, whatever the schedule, and
        adds no fault: then a caller may rely on it.
        """
        if point not in self._well_defined:
            self._well_defined[point] = self._is_well_defined(point)
        return self._well_defined[point]

    def _is_well_defined(self, point: Point) -> bool:
        shared, apart = self.reference(point), self.reference(evolve(point, aliases=()))
        prepared = self.prepare(point)
        if isinstance(shared, Dropped) or isinstance(apart, Dropped) or isinstance(prepared, Failure):
            return False
        if not shared.deterministic or not shared.faults <= apart.faults:
            return False
        copied = self.run(prepared.launch, evolve(prepared.contents, aliases={}))
        if isinstance(copied, Failure):
            return False
        # What is written into an input through another name shows in that input, and in nothing else.
        sources = {source for _, source in point.aliases}
        written = {
            member.name: ~member.kept for member in shared.members if member.name.partition(".")[0] not in sources
        }
        return _same_bits(shared.result, copied, written)

    def _kept(self, point: Point, prepared: Prepared, runs: list[tuple[Contents, RunResult]]) -> Mapping[str, BoolMask]:
        """By member, which elements no run changed. Outputs are known from two poisons; what is updated in place is
        compared on other contents too, because a value may come out as it went in by chance."""
        roles = self.roles(point)
        in_place = (
            {name for name, role in roles.by_name.items() if role == "in place"} if isinstance(roles, Roles) else set()
        )
        other_run: tuple[Contents, RunResult] | None = None
        if in_place:
            # Of the declared family: among special values much stays as it is by chance (0 added, 1 multiplied).
            other = self.prepare(evolve(point, seed=point.seed + _OTHER_SEED, family="declared"))
            if not isinstance(other, Failure):
                result = self.run(other.launch, other.contents, checks=False)
                if not isinstance(result, Failure):
                    other_run = (other.contents, result)
        kept: dict[str, BoolMask] = {}
        for before, result in [*runs, *([other_run] if other_run is not None else [])]:
            old, new = members_of(before.buffers), members_of(result.buffers)
            for name in old:
                if other_run is not None and result is other_run[1] and name.partition(".")[0] not in in_place:
                    # How much of an output is written may depend on the contents; its two poisons tell.
                    continue
                same = ~bits_differ(old[name], new[name])
                kept[name] = kept[name] & same if name in kept else same
        return kept

    def _shadow(self, prepared: Prepared) -> Mapping[str, Array] | None:
        """The outputs in the wider type by member, or None where the device cannot widen this kernel."""
        launch = prepared.launch
        elements = {one.name: one.element for one in (*launch.arguments, *launch.globals)}
        wide = evolve(
            prepared.contents,
            buffers={name: widen(array, elements[name]) for name, array in prepared.contents.buffers.items()},
        )
        result = self.run(_with_rounded_scalars(launch), wide, checks=False, widened=True)
        return None if isinstance(result, Failure) else members_of(result.buffers)

    def _moved(self, point: Point, prepared: Prepared) -> list[Mapping[str, Array]]:
        """The outputs, by member, on inputs that moved by one unit in the last place."""
        inputs = [name for name in prepared.contents.buffers if name not in prepared.outputs]
        moved: list[Mapping[str, Array]] = []
        for number in range(_perturbations(point)):
            random = np.random.default_rng([zlib.crc32(repr(point).encode()), number])
            contents = perturbed(prepared.contents, inputs, random)
            result = self.run(_with_moved_scalars(prepared.launch, random), contents, checks=False)
            if not isinstance(result, Failure):
                moved.append(members_of(result.buffers))
        return moved

    def _members(
        self,
        prepared: Prepared,
        results: list[RunResult],
        shadow: Mapping[str, Array] | None,
        moved: list[Mapping[str, Array]],
        kept: Mapping[str, BoolMask],
    ) -> tuple[MemberReference, ...]:
        runs = [members_of(result.buffers) for result in results]
        return tuple(
            member_reference(
                name=name,
                initial=initial,
                runs=[run[name] for run in runs],
                shadow=None if shadow is None else shadow[name],
                perturbed_runs=[one[name] for one in moved],
                kept=kept[name],
            )
            for name, initial in members_of(prepared.contents.buffers).items()
        )


def _perturbations(point: Point) -> int:
    """How often the inputs are moved. Where special cases are looked for, rounding is not the question."""
    if not point.checked or point.seed == EXTRA_SEED or point.family in (*OUTSIDE_FAMILIES, "thresholds"):
        return 1
    return PERTURBATIONS


def _fatal(result: RunResult) -> str | None:
    """The first fault after which the original is no oracle, in words, or None."""
    for fault in result.faults:
        if fault.kind in _FATAL_FAULTS:
            where = f" at line {fault.line}" if fault.line else ""
            return f"the original: {fault.kind}{where}: {fault.note}"
    return None if result.guards_intact else "the original writes outside its buffers"


def _dropped(point: Point, failure: Failure) -> Dropped:
    if failure.kind == "timeout":
        return Dropped(point, "too-slow", f"the original cannot be run here: {failure.message}")
    if failure.kind in _TOO_LARGE:
        return Dropped(point, "too-large", f"the original cannot be run here: {failure.message}")
    if failure.kind == "bad-input":
        return Dropped(point, "no-launch", failure.message)
    return Dropped(point, "misbehaves", f"the original fails: {failure.message}")


def _same_bits(one: RunResult, other: RunResult, written: Mapping[str, BoolMask]) -> bool:
    left, right = members_of(one.buffers), members_of(other.buffers)
    for name, mask in written.items():
        different = bits_differ(left[name], right[name]) & mask
        if different.any():
            with np.errstate(invalid="ignore"):
                different &= ~((left[name] != left[name]) & (right[name] != right[name]))
        if different.any():
            return False
    return True


def _beyond_budget(members: tuple[MemberReference, ...], results: list[RunResult]) -> str | None:
    """Where the original's own runs differ more than a candidate may, or None.

    Floating members are compared by the distance between two runs, in the error's measure, against what rounding
    and the conditioning explain.
    """
    for result in results:
        values = members_of(result.buffers)
        for member in members:
            different = bits_differ(values[member.name], member.expected) & ~member.kept
            if not different.any():
                continue
            if member.scale is None or member.pooled is None:
                index = int(np.argmax(different))
                return f"{member.name}[{index}] is {member.expected[index]} or {values[member.name][index]}"
            with np.errstate(all="ignore"):
                one = member.expected.astype(member.scale.dtype)
                other = values[member.name].astype(member.scale.dtype)
                distance = np.where(member.pooled, np.abs(one - other) / member.scale, 0)
                distance = np.where(np.isnan(distance), np.inf, distance)
            allowed = budget_for(member.original_errors, member.conditioning, member.roundoff).maximum
            if distance.max(initial=0) > 2 * allowed:
                index = int(np.argmax(distance))
                return f"{member.name}[{index}] is {member.expected[index]} or {values[member.name][index]}"
    return None


def _with_rounded_scalars(launch: Launch) -> Launch:
    """The launch with its floating scalars rounded to their own type: the shadow starts from the same values."""
    element_dtypes = {
        argument.name: np.dtype(argument.element.dtype)
        for argument in launch.arguments
        if isinstance(argument, ScalarArgument) and argument.element.dtype in ("float16", "float32")
    }
    arguments = tuple(
        evolve(argument, value=float(element_dtypes[argument.name].type(argument.value)))
        if isinstance(argument, ScalarArgument) and argument.name in element_dtypes
        else argument
        for argument in launch.arguments
    )
    return evolve(launch, arguments=arguments)


def _with_moved_scalars(launch: Launch, random: np.random.Generator) -> Launch:
    """The launch with its floating scalars moved by one unit in the last place of their type."""
    arguments = []
    for argument in launch.arguments:
        if isinstance(argument, ScalarArgument) and argument.element.dtype in ("float32", "float64"):
            value = np.dtype(argument.element.dtype).type(argument.value)
            towards = np.inf if random.random() < 0.5 else -np.inf
            moved = np.nextafter(value, type(value)(towards)) if value != 0 and np.isfinite(value) else value
            argument = evolve(argument, value=float(moved))
        arguments.append(argument)
    return evolve(launch, arguments=tuple(arguments))
