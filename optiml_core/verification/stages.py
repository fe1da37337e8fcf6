"""The stages of a verdict in their order. Each takes a trial and says what it covered, or the problem it met.

Cheap and telling stages go first, because most candidates of a search are wrong in a way that the first runs show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from attrs import define, evolve, field, frozen

from optiml_core.device.protocol import Array
from optiml_core.records import BufferArgument, Failure, Kernel, LaunchChange
from optiml_core.source import TranslationUnit
from optiml_core.verification.checks import (
    gpu_compiler,
    launch_facts,
    other_code,
    refused_names,
    self_test,
    signature,
)
from optiml_core.verification.numbers import MOST_NUMBERS, numbers_in
from optiml_core.verification.original_runs import OriginalRuns
from optiml_core.verification.plan import (
    QUICK_SHAPES,
    Plan,
    alias_points,
    constant_points,
    families,
    make_plan,
    more_seeds,
    other_launches,
    scalar_points,
    scaled_down,
    shifted,
    shifted_alone,
)
from optiml_core.verification.references import EXTRA_SEED, Dropped, Observation, Point, Reference
from optiml_core.verification.trial import Problem, Trial, point_runs
from optiml_core.workload import NAN_FAMILIES, OUTSIDE_FAMILIES
from optiml_core.workload.variation import LARGEST_THREADS

# Schedules of the determinism stage, besides those of the quick shapes.
MORE_SCHEDULES = (3, 4, 5, 6)
# Where one run makes more accesses than this (some 0.1 s with all checkers), families and seeds take the other shape.
MANY_ACCESSES = 2_000_000
# Checks that compare outputs, which a schedule may change.
_DIFFERENCES = frozenset({"non-finite values", "outputs", "error budget", "unwritten outputs", "determinism", "poison"})
# After so many sizes, smaller ones among them, at which the original does not end, it is not waited for again.
MOST_SLOW = 2
QUICK_RUNS = ((0, 0), (1, 0), (0, 1))


@frozen
class Covered:
    """A stage that passed: what it covered, in words; ``not_run`` with the reason where nothing could be run."""

    detail: str
    not_run: bool = False


@define
class OnTrial:
    """What the stages share: both files parsed, the trial, the opt-ins, and what ends up under not_checked."""

    original: TranslationUnit
    candidate: TranslationUnit
    kernel: Kernel
    candidate_kernel: Kernel | None
    trial: Trial
    oracle: Oracle
    allow: frozenset[str]
    not_checked: list[str] = field(factory=list)
    gpu_compiler: gpu_compiler.GpuCompiler | None = None


class Oracle:
    """The original's side: the plan, its viable points, the self-test, found once for all candidates."""

    def __init__(self, runs: OriginalRuns, seed: int) -> None:
        self.runs = runs
        self.plan: Plan = make_plan(runs.workload, seed)
        self.dropped: dict[Point, Dropped] = {}
        self._quick: tuple[Reference, ...] | None = None
        self._self_test: tuple[str | None] | None = None

    @property
    def sees_faults(self) -> bool:
        """Whether a run shows that the original leaves its buffers: then it can be tried on what it may not bear."""
        return self.runs.device.name == "emulator"

    def reference(self, point: Point) -> Reference | None:
        """The original at a point; None and remembered if the point has to be dropped."""
        if point in self.dropped:
            return None
        found = self.runs.reference(point)
        if isinstance(found, Dropped):
            self.dropped[point] = found
            return None
        return found

    def quick(self) -> tuple[Reference, ...]:
        """The first two shapes at which the original behaves."""
        if self._quick is None:
            chosen: list[Reference] = []
            for point in self.plan.shapes:
                reference = self.reference(point)
                if reference is not None and self.runs.is_repeated(reference, QUICK_RUNS):
                    chosen.append(reference)
                elif reference is not None:
                    self.dropped[point] = Dropped(point, "nondeterministic", "the original's own runs differ there")
                slow = sum(dropped.kind == "too-slow" for dropped in self.dropped.values())
                if len(chosen) == QUICK_SHAPES or (slow >= MOST_SLOW and not chosen):
                    break
            self._quick = tuple(chosen)
        return self._quick

    def quick_points(self) -> tuple[Point, ...]:
        return tuple(reference.point for reference in self.quick())

    def affordable(self) -> tuple[Point, ...]:
        """The quick points that can be run many times: those below a number of accesses, or the cheapest one."""
        cheap = [reference for reference in self.quick() if reference.cost <= MANY_ACCESSES]
        chosen = cheap or sorted(self.quick(), key=lambda reference: reference.cost)[:1]
        return tuple(reference.point for reference in chosen)

    def self_test(self) -> str | None:
        """What a known-bad output would get away with on this workload, or None."""
        if self._self_test is None:
            stale: dict[int, Mapping[str, Array]] = {}
            for position, reference in enumerate(self.quick()):
                other = self.reference(evolve(reference.point, seed=1))
                if other is not None:
                    stale[position] = other.result.buffers
            self._self_test = (self_test.problem(self.quick(), stale),)
        return self._self_test[0]

    def is_weak(self, reference: Reference) -> str | None:
        """The self-test at one point of a value family; only what must always fail."""
        return self_test.problem_at(reference)


Stage = Callable[[OnTrial], Covered | Problem]


# ------------------------------------------------------------------------------ reading the text


def check_signature(on: OnTrial) -> Covered | Problem:
    detail = signature.problem(on.kernel, on.candidate_kernel)
    if detail is not None:
        return Problem("signature", detail)
    linkage = signature.changed_linkage(on.original, on.kernel, on.candidate, on.candidate_kernel)
    if linkage is not None:
        return Problem("signature", linkage)
    extra = signature.extra_kernels(on.original, on.candidate)
    if extra is not None:
        return Problem("signature", extra, None)
    return Covered("same name, same parameters")


def check_refused_names(on: OnTrial) -> Covered | Problem:
    original, candidate = on.trial.runs.original, on.trial.candidate
    detail = refused_names.problem(
        on.original.source.text, on.candidate.source.text, original.flags, candidate.flags, on.allow
    ) or refused_names.narrower_indexes(
        _device_text(on.original, on.kernel), _device_text(on.candidate, on.candidate_kernel), on.allow
    )
    return Covered("none introduced") if detail is None else Problem("refused names", detail)


def _device_text(unit: TranslationUnit, kernel: Kernel | None) -> str:
    """The text of a kernel and of the file's device functions."""
    ranges = [*([kernel.range] if kernel is not None else []), *(one.range for one in unit.device_functions)]
    return "\n".join(unit.source.data[where.start_byte : where.end_byte].decode("utf-8", "replace") for where in ranges)


def check_other_code(on: OnTrial) -> Covered | Problem:
    detail = other_code.problem(on.original, on.candidate, on.kernel.qualified)
    if detail is not None:
        return Problem("other code", detail, None)
    state = other_code.module_state(on.original, on.candidate, on.kernel.qualified, on.oracle.runs.declared_globals())
    if state is not None:
        return Problem("other code", state, None)
    around = other_code.changed_launching_code(on.original, on.candidate, on.kernel)
    if around is not None:
        return Problem("other code", around, None)
    if other_code.host_code_differs(on.original, on.candidate):
        on.not_checked.append("host code differs beyond the configuration of launches; host code is never run")
    return Covered("the file's other kernels are unchanged")


# ------------------------------------------------------------------------------------------ runs


def run_quick_shapes(on: OnTrial) -> Covered | Problem:
    """Two shapes, one seed, all checkers, two poisons, two schedules."""
    references = on.oracle.quick()
    if not references:
        return Problem("sizes", _nothing_left(on.oracle), None)
    for reference in references:
        problem = on.trial.observe(reference, QUICK_RUNS)
        if problem is not None:
            return problem
    return Covered("; ".join(reference.point.label for reference in references))


def check_self_test(on: OnTrial) -> Covered | Problem:
    detail = on.oracle.self_test()
    if detail is not None:
        return Problem("self-test", f"this workload cannot tell right from wrong: {detail}", None)
    return Covered("zeros, constants, copied inputs, changed, stale and unwritten outputs all fail")


def run_all_shapes(on: OnTrial) -> Covered | Problem:
    """Every other shape, and more contents at the quick ones."""
    quick = on.oracle.quick_points()
    rest = tuple(point for point in on.oracle.plan.shapes if point not in quick)
    # What the original may not be meant for is tried where its faults are seen.
    larger = on.oracle.plan.larger if on.oracle.sees_faults else ()
    ran, problem = _run_points(on, (*rest, *larger, *more_seeds(on.oracle.affordable())))
    if problem is not None:
        return problem
    labels = dict.fromkeys(reference.point.label for reference in (*on.oracle.quick(), *ran))
    return Covered(f"{len(labels)} shapes ({'; '.join(labels)}), 3 seeds")


def run_scalars(on: OnTrial) -> Covered | Problem:
    scalars = on.oracle.plan.scalars
    if not scalars:
        return Covered("no scalar besides sizes", not_run=True)
    ran, problem = _run_points(on, scalar_points(on.oracle.affordable()[0], scalars))
    if problem is not None:
        return problem
    names = {name for overrides in scalars for name, _ in overrides}
    told = dict.fromkeys(
        f"{name} = {value}" for reference in ran for name, value in reference.point.overrides if name in names
    )
    return Covered("; ".join(told) or "the original misbehaves with every other value", not_run=not told)


def run_constants(on: OnTrial) -> Covered | Problem:
    """Sizes, scalars and contents around the numbers that only the candidate mentions: special cases lie there."""
    known = set(numbers_in(on.original.source.text))
    constants = tuple(one for one in numbers_in(on.candidate.source.text) if one not in known)[:MOST_NUMBERS]
    if not on.oracle.sees_faults:
        return Covered("where faults of the original are seen only", not_run=True)
    if not constants:
        return Covered("the candidate mentions no other numbers than the original", not_run=True)
    chosen = constant_points(on.oracle.runs.workload, on.oracle.affordable()[0], constants)
    on.not_checked.extend(
        f"{one}: too large to be run here, and the candidate mentions the number" for one in chosen.left_out
    )
    ran, problem = _run_points(on, chosen.points)
    if problem is not None:
        return problem
    labels = dict.fromkeys(reference.point.label for reference in ran)
    return Covered("; ".join(labels) or "the original misbehaves at all of them", not_run=not labels)


def run_families(on: OnTrial) -> Covered | Problem:
    """Every value family; one in which nothing could be told is dropped, and said so."""
    told: list[str] = []
    affordable = on.oracle.affordable()
    for number, point in enumerate(families(affordable, on.oracle.quick()[0].launch)):
        if point.family in OUTSIDE_FAMILIES and (not on.oracle.sees_faults or _is_slow_outside(on.oracle)):
            continue
        reference = on.oracle.reference(point)
        if reference is None and point.family in OUTSIDE_FAMILIES:
            # The original relies on the range there, and so may the candidate.
            continue
        if reference is None:
            on.not_checked.append(f"family {point.family}: {on.oracle.dropped[point].reason}")
            continue
        if _all_nan(reference) and point.family not in NAN_FAMILIES:
            on.not_checked.append(f"family {point.family}: the original's outputs are all NaN")
            continue
        weak = on.oracle.is_weak(reference)
        if weak is not None:
            on.not_checked.append(f"family {point.family}: {weak}")
        problem = _observe(on, reference, point_runs(point, number))
        if problem is not None:
            return problem
        told.append(point.family)
    names = list(dict.fromkeys(told))
    return Covered(", ".join(names) or "none could be told", not_run=not names)


def run_shifted(on: OnTrial) -> Covered | Problem:
    if "aligned" in on.allow:
        on.not_checked.append("addresses that are not aligned (--allow aligned)")
        return Covered("opted out with --allow aligned", not_run=True)
    if _proven(on):
        return Covered("every launch of this program passes whole allocations, which are aligned")
    points = shifted(on.oracle.quick_points(), on.oracle.plan.shapes)
    launch = on.oracle.quick()[0].launch
    buffers = tuple(one.name for one in launch.arguments if isinstance(one, BufferArgument))
    ran, problem = _run_points(on, (*points, *shifted_alone(points, buffers)))
    if problem is not None:
        return Problem("base addresses", f"{problem.detail} (opt in with --allow aligned)", problem.equivalent)
    return _covered_points(ran, "the original itself needs aligned addresses")


def run_aliasing(on: OnTrial) -> Covered | Problem:
    """An output in the memory of an input, wherever the original stays well defined; ``__restrict__`` needs a proof."""
    if "no-alias" in on.allow:
        on.not_checked.append("buffers that share memory (--allow no-alias)")
        return Covered("opted out with --allow no-alias", not_run=True)
    if _proven(on):
        return Covered("every launch of this program passes different allocations")
    promised = launch_facts.added_restrict(on.kernel, on.candidate_kernel or on.kernel)
    read_only = launch_facts.read_only_loads(on.original.source.text, on.candidate.source.text)
    told: list[str] = []
    for reference in [one for one in on.oracle.quick() if one.point in on.oracle.affordable()][:1]:
        for point in alias_points(on.kernel, reference.launch, reference.roles, reference.point):
            if not on.oracle.runs.is_well_defined(point):
                continue
            output, source = point.aliases[0]
            if output in promised or source in promised or read_only:
                what = "`__restrict__`" if promised else "a read-only load"
                detail = f"{what} promises that `{output}` and `{source}` are apart, the original works on one buffer"
                return Problem("aliasing", f"{detail} (opt in with --allow no-alias)", None)
            shared = on.oracle.reference(point)
            problem = None if shared is None else on.trial.observe(shared, ((0, 0), (0, 1)))
            if problem is not None:
                return Problem("aliasing", f"{problem.detail} (opt in with --allow no-alias)", problem.equivalent)
            told.append(f"{output} = {source}")
    if promised:
        on.not_checked.append(f"buffers that overlap in part: `__restrict__` was added to {', '.join(promised)}")
    return Covered(", ".join(told) or "the original is defined on separate buffers only", not_run=not told)


def run_schedules(on: OnTrial) -> Covered | Problem:
    for point in on.oracle.affordable()[:1]:
        reference = on.oracle.reference(point)
        schedules = [(0, 0), *((0, schedule) for schedule in MORE_SCHEDULES)]
        problem = None if reference is None else on.trial.observe(reference, schedules)
        if problem is not None:
            return problem
    return Covered(f"{len(MORE_SCHEDULES) + 2} orders of blocks and warps")


def run_declared(on: OnTrial) -> Covered | Problem:
    """The declared launches themselves, without checkers, where the device can afford it."""
    if not on.oracle.plan.declared:
        return Covered("among the shapes")
    ran: list[Reference] = []
    for declared in on.oracle.plan.declared:
        # Too large for this device: the largest one that is not, each size divided by the same number.
        for point in (declared, *scaled_down(on.oracle.runs.workload, declared)):
            some, problem = _run_points(on, (point,))
            if problem is not None:
                return problem
            ran += some
            dropped = on.oracle.dropped.get(point)
            if point is declared and dropped is not None:
                on.not_checked.append(f"{point.label}: {dropped.reason}")
            if dropped is None or dropped.kind not in ("too-large", "too-slow", "no-launch"):
                break
    return _covered_points(ran, "too large for this device")


def run_again(on: OnTrial) -> Covered | Problem:
    problem = on.trial.repeat_first()
    return problem or Covered("the first launch, repeated after all others, computes the same")


def check_gpu_compiler(on: OnTrial) -> Covered | Problem:
    """The CUDA compiler takes it and a GPU would launch it, as far as they do so with the original."""
    name = "compiles for a GPU"
    if on.gpu_compiler is None or not on.trial.observations:
        on.not_checked.append("compiling with the CUDA compiler")
        return Covered("no compiler was asked", not_run=True)
    launch = on.trial.launch(on.oracle.quick()[0])
    if isinstance(launch, Problem):
        return launch
    original, candidate = on.trial.runs.original, on.trial.candidate
    architecture = gpu_compiler.architecture(candidate.flags)
    compiled = on.gpu_compiler(candidate, launch.template_arguments, architecture)
    detail = compiled.message if isinstance(compiled, Failure) else gpu_compiler.launch_problem(compiled, launch)
    if detail is None:
        return Covered(f"for {architecture}")
    old_launch = on.oracle.quick()[0].launch
    of_original = on.gpu_compiler(original, old_launch.template_arguments, architecture)
    if isinstance(of_original, Failure) or gpu_compiler.launch_problem(of_original, old_launch) is not None:
        what = of_original.message if isinstance(of_original, Failure) else "a GPU would not launch it"
        on.not_checked.append(f"compiling with the CUDA compiler: the original itself does not: {what}")
        return Covered("the original itself does not", not_run=True)
    where = f" (line {compiled.line})" if isinstance(compiled, Failure) and compiled.line else ""
    certain = not isinstance(compiled, Failure) or compiled.kind == "compile-error"
    return Problem(name, f"{detail}{where}", False if certain else None)


def check_callers(on: OnTrial) -> Covered | Problem:
    """A changed launch: does the old one still work, are all callers known?"""
    if on.candidate_kernel is not None:
        constants = signature.added_const(on.kernel, on.candidate_kernel)
        if constants:
            on.not_checked.append(f"declarations elsewhere: {', '.join(constants)} became pointers to const")
    change = on.trial.candidate.launch_change
    if change == LaunchChange():
        return _with_other_launches(on)
    if _all_right_with_old_launch(on):
        return Covered("right under the original's launch too")
    if _proven(on):
        return Covered("every launch is in this program")
    parts = [
        f"{name} = {', '.join(value) if isinstance(value, tuple) else value}"
        for name, value in (
            ("grid", change.grid),
            ("block", change.block),
            ("shared", change.shared),
            ("template arguments", change.template_arguments),
        )
        if value is not None
    ]
    on.not_checked.append(f"callers outside this file: they must launch with {'; '.join(parts)}")
    return Covered("callers outside this file are not known; see not_checked")


def _with_other_launches(on: OnTrial) -> Covered:
    """The launch is unchanged; is the candidate right under others too? No refusal: the declared launch is what was
    asked about."""
    if _proven(on):
        return Covered("the launch is unchanged, and every launch is in this program")
    same: list[str] = []
    told_by = on.oracle.quick() if on.oracle.sees_faults else ()
    for reference in [one for one in told_by if one.point in on.oracle.affordable()][:1]:
        for point in other_launches(reference.point, reference.launch):
            other = on.oracle.reference(point)
            if other is None:
                continue
            before = len(on.trial.observations)
            found = on.trial.observe(other, ((0, 0),))
            # What holds for others' launches is no evidence for or against this one.
            del on.trial.observations[before:]
            what = "more blocks" if point.change.grid else "narrower blocks"
            if found is not None:
                on.not_checked.append(f"callers that launch it with {what} than declared: it is not right there")
            else:
                same.append(what)
    told = f", right with {' and '.join(same)} too" if same else ""
    return Covered(f"the launch is unchanged{told}")


# --------------------------------------------------------------------------------------- helpers


def _observe(on: OnTrial, reference: Reference, runs: tuple[tuple[int, int], ...]) -> Problem | None:
    """Observes the candidate at a point; a difference counts only if the original itself, in the same orders of blocks
    and warps, has none. On most contents the original was run in one order, and NaN may make others matter."""
    before = len(on.trial.observations)
    problem = on.trial.observe(reference, runs)
    if problem is None or problem.check not in _DIFFERENCES or on.oracle.runs.is_repeated(reference, runs):
        return problem
    del on.trial.observations[before:]
    on.not_checked.append(f"{reference.point.label}: the original's own outputs depend on the schedule there")
    return None


def _needs_too_many_threads(on: OnTrial, reference: Reference) -> bool:
    """Whether a size that costs the original little is beyond this device for the candidate: a block instead of a
    thread for each of many rows."""
    launch = on.trial.launch(reference)
    if isinstance(launch, Problem):
        return False
    mine, theirs = (prod((*one.grid, *one.block)) for one in (launch, reference.launch))
    return mine > max(theirs, LARGEST_THREADS)


def _is_slow_outside(oracle: Oracle) -> bool:
    """Whether a loop of the original that the contents bound did not end: one such wait is enough."""
    return any(one.kind == "too-slow" and one.point.family in OUTSIDE_FAMILIES for one in oracle.dropped.values())


def _run_points(on: OnTrial, points: tuple[Point, ...]) -> tuple[list[Reference], Problem | None]:
    """Runs the candidate once at each point that is not dropped."""
    ran: list[Reference] = []
    for number, point in enumerate(points):
        reference = on.oracle.reference(point)
        if reference is None:
            continue
        if point.seed == EXTRA_SEED and _needs_too_many_threads(on, reference):
            on.not_checked.append(f"{point.label}: the candidate's launch is too large to be run here")
            continue
        problem = _observe(on, reference, point_runs(point, number + 1))
        if problem is not None:
            return ran, problem
        ran.append(reference)
    return ran, None


def _covered_points(ran: list[Reference], otherwise: str) -> Covered:
    labels = dict.fromkeys(reference.point.label for reference in ran)
    return Covered("; ".join(labels) or otherwise, not_run=not labels)


def _all_right_with_old_launch(on: OnTrial) -> bool:
    return all(
        isinstance(on.trial.run(reference, 0, 0, LaunchChange()), Observation) for reference in on.oracle.quick()
    )


def _proven(on: OnTrial) -> bool:
    """Whether the launches of the file prove what no run can show: in both files, since a candidate may not make its
    own proof."""
    return on.candidate_kernel is not None and all(
        launch_facts.every_launch_passes_whole_allocations(unit, kernel)
        for unit, kernel in ((on.original, on.kernel), (on.candidate, on.candidate_kernel))
    )


def _all_nan(reference: Reference) -> bool:
    written = [member for member in reference.members if not member.kept.all() and member.shadow is not None]
    return bool(written) and all((member.expected != member.expected)[~member.kept].all() for member in written)


def _nothing_left(oracle: Oracle) -> str:
    reasons = list(dict.fromkeys(f"{dropped.point.label}: {dropped.reason}" for dropped in oracle.dropped.values()))
    return f"there is no size at which the original can serve as the oracle ({'; '.join(reasons[:3])})"


QUICK_STAGES: tuple[tuple[str, Stage], ...] = (
    ("signature", check_signature),
    ("refused names", check_refused_names),
    ("other code", check_other_code),
    ("quick shapes", run_quick_shapes),
    ("self-test", check_self_test),
)
FULL_STAGES: tuple[tuple[str, Stage], ...] = (
    ("sizes", run_all_shapes),
    ("scalars", run_scalars),
    ("value families", run_families),
    ("numbers of the candidate", run_constants),
    ("base addresses", run_shifted),
    ("aliasing", run_aliasing),
    ("schedules", run_schedules),
    ("declared sizes", run_declared),
    ("callers", check_callers),
    ("relaunch", run_again),
    ("compiles for a GPU", check_gpu_compiler),
)
