"""One candidate on trial: it is built, run at points, and every run is judged by every rule.

A trial stops at the first problem; what came after it was not run.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen, mutable

from optiml_core.device.protocol import Built, Device, RunOptions, RunResult
from optiml_core.records import Failure, Launch, LaunchChange, Variant
from optiml_core.verification.buffers import POISON_PATTERNS
from optiml_core.verification.checks import (
    determinism,
    error_budget,
    faults,
    guard_zones,
    inputs_unchanged,
    non_finite,
    outputs,
    poison,
    printed,
    relaunch,
    unwritten_outputs,
)
from optiml_core.verification.original_runs import OriginalRuns
from optiml_core.verification.references import Observation, Point, Reference
from optiml_core.workload import NAN_FAMILIES

# Failures that say nothing of the candidate: a verdict cannot be reached.
_NOT_THE_CANDIDATES_FAULT = frozenset({"unsupported", "sandbox-missing", "cancelled", "missing-tool"})

# A candidate may make so many times the original's accesses, or take so many times its time, before it counts as hung;
# at least so many accesses, at least and at most so many seconds.
SLOWER = 50.0
FEWEST_STEPS = 50_000_000
SHORTEST_LIMIT = 1.0
LONGEST_LIMIT = 10.0
DEFAULT_STEPS = RunOptions().steps


@frozen
class Problem:
    """Why a trial stopped: the check that failed, in words, and whether it proves a difference (False) or only
    leaves the question open (None)."""

    check: str
    detail: str
    equivalent: bool | None = False


@mutable
class Trial:
    """A candidate with its builds and all observations so far."""

    candidate: Variant
    runs: OriginalRuns
    device: Device
    allow: frozenset[str] = frozenset()
    observations: list[Observation] = field(factory=list)
    first_run: tuple[Reference, RunResult] | None = None
    _built: dict[tuple[str, ...], Built] = field(factory=dict)

    @property
    def compiled(self) -> bool:
        """Whether the candidate was built at all."""
        return bool(self._built)

    def launch(self, reference: Reference, change: LaunchChange | None = None) -> Launch | Problem:
        """The candidate's launch at a point: the original's arguments, its own grid, block, shared memory."""
        chosen = self.candidate.launch_change if change is None else change
        launch = self.runs.launch(reference.point, chosen)
        if isinstance(launch, Failure):
            return Problem("runs", f"no launch at {reference.point.label}: {launch.message}")
        return launch

    def build(self, launch: Launch) -> Built | Problem:
        """The candidate compiled for a launch's template arguments."""
        known = self._built.get(launch.template_arguments)
        if known is not None:
            return known
        built = self.device.build(self.candidate, launch.template_arguments)
        if isinstance(built, Failure):
            where = f" (line {built.line})" if built.line else ""
            open_question = built.kind in _NOT_THE_CANDIDATES_FAULT
            return Problem("compiles", f"{built.message}{where}", None if open_question else False)
        self._built[launch.template_arguments] = built
        return built

    def run(
        self, reference: Reference, pattern: int, schedule: int, change: LaunchChange | None = None
    ) -> Observation | Problem:
        """One run at a point, with every rule that a single run can break."""
        launch = self.launch(reference, change)
        if isinstance(launch, Problem):
            return launch
        built = self.build(launch)
        if isinstance(built, Problem):
            return built
        options = RunOptions(
            checks=reference.point.checked,
            schedule=schedule,
            poison=POISON_PATTERNS[pattern],
            seconds=min(max(SLOWER * reference.seconds, SHORTEST_LIMIT), LONGEST_LIMIT),
            steps=int(max(SLOWER * reference.cost, FEWEST_STEPS)) if reference.cost else DEFAULT_STEPS,
        )
        result = self.device.run(built, launch, reference.contents_for(pattern), options)
        label = reference.point.label
        if isinstance(result, Failure):
            open_question = result.kind in _NOT_THE_CANDIDATES_FAULT
            return Problem("runs", f"at {label}: {result.message}", None if open_question else False)
        ignore_nan = "nan" in self.allow and reference.point.family in NAN_FAMILIES
        comparisons = reference.compare(result.buffers, pattern, ignore_nan)
        roles = dict(reference.roles)
        found = {
            "faults": faults.problem(result.faults, reference.faults),
            "guard zones": guard_zones.problem(result),
            "inputs unchanged": inputs_unchanged.problem(comparisons, roles),
            "unwritten outputs": unwritten_outputs.problem(comparisons, roles),
            "non-finite values": non_finite.problem(comparisons),
            "outputs": outputs.problem(comparisons),
            "printed output": printed.problem(reference.result.output, result.output),
        }
        for check, detail in found.items():
            if detail is not None:
                return Problem(check, f"at {label}: {detail}")
        return Observation(reference, result, comparisons, pattern, schedule)

    def observe(self, reference: Reference, runs: Iterable[tuple[int, int]]) -> Problem | None:
        """Runs at a point with each (pattern, schedule); compares the runs with each other too."""
        seen: list[Observation] = []
        for pattern, schedule in runs:
            observation = self.run(reference, pattern, schedule)
            if isinstance(observation, Problem):
                return observation
            seen.append(observation)
        if self.first_run is None and seen:
            self.first_run = (reference, seen[0].result)
        self.observations.extend(seen)
        for other in seen[1:]:
            one, two = seen[0].result.buffers, other.result.buffers
            if other.schedule == seen[0].schedule:
                check, detail = "poison", poison.problem(reference, one, two)
            elif other.pattern == seen[0].pattern:
                check, detail = "determinism", determinism.problem(reference, one, two, self.allow)
            else:
                continue
            if detail is not None:
                return Problem(check, f"at {reference.point.label}: {detail}")
        return self.errors_problem()

    def errors_problem(self) -> Problem | None:
        """The error budget over everything observed so far."""
        detail = error_budget.problem(self.errors())
        return None if detail is None else Problem("error budget", detail)

    def errors(self) -> tuple[error_budget.MemberErrors, ...]:
        """The pooled errors of every output so far."""
        return error_budget.pooled_errors(self.observations, self.allow)

    def repeat_first(self) -> Problem | None:
        """The first run once more: nothing may have been kept in the module meanwhile."""
        if self.first_run is None:
            return None
        reference, result = self.first_run
        again = self.run(reference, 0, 0)
        if isinstance(again, Problem):
            return Problem("relaunch", f"a repeated launch fails: {again.detail}", again.equivalent)
        detail = relaunch.problem(reference, result.buffers, again.result.buffers)
        return None if detail is None else Problem("relaunch", f"at {reference.point.label}: {detail}")


def point_runs(point: Point, number: int) -> tuple[tuple[int, int], ...]:
    """The (pattern, schedule) of the single run of a further point: both vary from point to point."""
    return ((number % 2, number % 7),) if point.checked else ((number % 2, 0),)
