"""Evaluates one node: apply the step, compile, quick gate or full verdict, profile, time, reward, judge.

Lives in a child process of the pool. Everything that goes wrong with a candidate is an outcome, not an exception.
"""

from __future__ import annotations

import time
from typing import Literal

from attrs import evolve

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Device, MeasuringDevice
from optiml_core.device.recorded import RecordedDevice
from optiml_core.measurement import PairPlan
from optiml_core.profiling import find_findings
from optiml_core.profiling.nsight import findings_of, profile_of
from optiml_core.profiling.profiler import Profiler, without_time
from optiml_core.records import (
    Failure,
    Finding,
    Kernel,
    Launch,
    LaunchChange,
    Measurement,
    Profile,
    Step,
    Variant,
    Verdict,
)
from optiml_core.rewrites import RewriteContext
from optiml_core.search.counting import LaunchCounter
from optiml_core.search.devices import compiler_for_gpu, open_device
from optiml_core.search.guardrails import is_better, regression
from optiml_core.search.joint_verdict import JointVerifier
from optiml_core.search.judge import Evidence, RuleJudge
from optiml_core.search.node_evidence import describe
from optiml_core.search.problem import EvaluationTask, SearchProblem, workload_of
from optiml_core.search.proposals import apply_proposal, propose_rewrites, rewrite_context
from optiml_core.search.records import DUPLICATE, Outcome, OutcomeState, Proposal
from optiml_core.search.reward import FAILED, REFUSED, reward
from optiml_core.search.sanitizing import with_sanitizer
from optiml_core.search.shadowed_device import ShadowedDevice
from optiml_core.search.timing import COLD_PLAN, FINAL_PLAN, SEARCH_PLAN, GpuTimer, Timing, predicted_timing
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.source.digest import source_digest
from optiml_core.store import Store
from optiml_core.toolchain import CompilePool, discover, gpu_facts
from optiml_core.toolchain.candidate_includes import refuse_new_includes
from optiml_core.verification import Verifier
from optiml_core.verification.kept_runs import KeptRuns
from optiml_core.workload import Workload, resolve_launch


class ProblemError(Exception):
    """The problem itself cannot be searched (no workload, no device). Carries the failure to report."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Evaluator:
    """Holds what evaluations of one problem share: the parsed original, its workload, a device and a verifier."""

    def __init__(self, problem: SearchProblem, measuring: MeasuringDevice | None = None) -> None:
        """``measuring`` stands for the GPU that the problem names, when somebody else opened it."""
        self.problem = problem
        self.toolchain = discover()
        gpu = gpu_facts(problem.gpu)
        if isinstance(gpu, Failure):
            raise ProblemError(gpu)
        self.gpu = gpu
        self.unit, self.kernel = self._parse(problem.original)
        self.workload: Workload = workload_of(problem, self.unit, self.kernel)
        if problem.template_arguments is not None:
            self.workload = evolve(self.workload, template_arguments=problem.template_arguments)
        self.emulator = EmulatorDevice()
        self.device: Device = self.emulator
        self.launch = self._launch(LaunchChange())
        pool = CompilePool(self.toolchain, 1, Store.open())
        self._gpu_compiler = compiler_for_gpu(pool)
        on_emulator = self._verifier(self.emulator)
        self.verifier: Verifier | JointVerifier = on_emulator
        self.timer: GpuTimer | None = None
        self.counter: LaunchCounter | None = None
        if problem.device != "emulator":
            device = measuring or open_device(problem.device, self.toolchain, Store.open())
            if isinstance(device, Failure):
                raise ProblemError(device)
            assert isinstance(device, MeasuringDevice)
            target = device.target()
            if isinstance(target, Failure):
                raise ProblemError(target)
            self.device = device
            self.verifier = JointVerifier(on_emulator, self._verifier(ShadowedDevice(device, self.emulator)))
            self.timer = GpuTimer(problem.original, self.workload, device, target, problem.seed)
            self.counter = LaunchCounter(self.workload, device, problem.profile, problem.seed)
        self.judge = RuleJudge()
        # Disassembling costs more than everything else of an evaluation, so only what may be offered is read in
        # machine code; inside the search, prediction is compared with prediction by the rougher profiler.
        self.rough = Profiler(self.emulator, self.gpu, self.toolchain, pool)
        self.exact = Profiler(self.emulator, self.gpu, self.toolchain, pool, reading="sass")
        self._pool = pool
        self._original_timings: dict[bool, Timing] = {}
        self._spent: dict[str, float] = {}

    def _verifier(self, device: Device) -> Verifier:
        problem = self.problem
        kept = KeptRuns(problem.kept_runs) if problem.kept_runs else None
        return Verifier(
            problem.original,
            self.workload,
            device,
            allow=problem.allow,
            seed=problem.seed,
            kept=kept,
            gpu_compiler=self._gpu_compiler,
        )

    def warm_up(self) -> None:
        """Starts what a first evaluation would wait for. A failure here is met again, and reported, by that one."""
        self.emulator.build(self.problem.original, self.launch.template_arguments)
        if self.device is not self.emulator:
            self.device.build(self.problem.original, self.launch.template_arguments)

    def close(self) -> None:
        self.device.close()
        self.emulator.close()
        self._pool.close()

    # ----------------------------------------------------------------------------- the original

    def baseline(self) -> Outcome:
        """The original: checked against itself, timed and profiled, with the proposals it invites."""
        original = self.problem.original
        spent: dict[str, float] = {}
        started = time.monotonic()
        verdict = self.verifier.verify(original, "quick")
        spent["verify"] = time.monotonic() - started
        key = self._source_key(original)
        if verdict.equivalent is not True:
            reason = f"the original cannot be verified against itself: {verdict.reason}"
            return Outcome("could-not-tell", reason, 0.0, original, key, verdict, seconds=spent)
        timing = self._time(original, None, True, SEARCH_PLAN)
        if isinstance(timing, Failure):
            return Outcome("failed", timing.message, 0.0, original, key, verdict, failure=timing, seconds=spent)
        spent.update(self._spent)
        findings = self._findings(timing.profile, self.unit, self.kernel, self.launch)
        counters = None
        if self.counter is not None and self.counter.counts_originals:
            counters, findings = self._counted(original, key, self.unit, self.kernel, self.launch, findings)
            spent.update(self._spent)
        proposals = propose_rewrites(
            self._context(original, self.unit, self.kernel, self.launch, findings), self.problem.rewrites
        )
        return Outcome(
            "not-better",
            "the original",
            0.0,
            original,
            key,
            verdict,
            timing.measurement,
            timing.profile,
            timing.roofline,
            findings,
            proposals,
            seconds=spent,
            counters=counters,
            notes=self._notes(),
        )

    def _evidence_of_original(self, exact: bool) -> Timing | Failure:
        """The original's counters and roofline. On a GPU its time is measured anew with every variant, in pairs, so
        it is not timed once more here; a kernel that the emulator cannot run has no counters."""
        if exact not in self._original_timings:
            timing = self._predicted(self.problem.original, None, exact)
            if isinstance(timing, Failure):
                if self.timer is None:
                    return timing
                timing = Timing(None, Measurement("measured", self.gpu.name, 0.0, 0.0, 1.0, 1.0, 1.0), None)
            elif self.timer is not None and timing.profile is not None:
                timing = evolve(timing, profile=without_time(timing.profile))
            self._original_timings[exact] = timing
        return self._original_timings[exact]

    def _time(self, variant: Variant, original: Timing | None, exact: bool, plan: PairPlan) -> Timing | Failure:
        """Predicted on the emulator; with a GPU measured, the emulator's counts being kept as evidence."""
        if self.timer is None:
            return self._predicted(variant, original, exact)
        started = time.monotonic()
        floor = original.roofline.floor if original is not None and original.roofline is not None else 0.0
        measured = self.timer.measure(variant, plan, floor)
        self._spent["measure"] = time.monotonic() - started
        if isinstance(measured, Failure):
            return measured
        if not self._worth_profiling(original, measured):
            return Timing(None, measured, None)
        # A kernel that the emulator cannot run is timed all the same; it only has no counters then.
        predicted = self._predicted(variant, original, exact)
        if isinstance(predicted, Failure) or predicted.profile is None:
            return Timing(None, measured, None)
        roofline = predicted.roofline
        if roofline is not None:
            roofline = evolve(roofline, fraction=min(1.0, roofline.floor / measured.time))
        return Timing(without_time(predicted.profile), measured, roofline)

    def _worth_profiling(self, original: Timing | None, measured: Measurement) -> bool:
        """``--profile``: all, best (what is faster than the original) or none; the original itself always."""
        mode = self.problem.profile
        return original is None or mode == "all" or (mode == "best" and measured.speedup > 1.0)

    def _predicted(self, variant: Variant, original: Timing | None, exact: bool) -> Timing | Failure:
        started = time.monotonic()
        profiler = self.exact if exact else self.rough
        predicted = predicted_timing(variant, original, self.workload, profiler, self.gpu)
        self._spent["profile"] = time.monotonic() - started
        return predicted

    # -------------------------------------------------------------------------------- one node

    def evaluate(self, task: EvaluationTask) -> Outcome:
        """The outcome of one task; see ``EvaluationTask``."""
        spent: dict[str, float] = {}
        variant = task.parent
        for proposal in task.proposals:
            applied = self._apply(variant, proposal)
            if isinstance(applied, Outcome):
                return applied
            variant = applied
        key = self._source_key(variant)
        if key in task.known:
            return Outcome("duplicate", DUPLICATE, 0.0, variant, key)
        reading = refuse_new_includes(self.unit.source, SourceFile(variant.file, variant.data))
        if reading is not None:
            return Outcome("refused", reading.message, FAILED, variant, key, failure=reading)
        started = time.monotonic()
        built = self.device.build(variant, self.launch.template_arguments)
        spent["build"] = time.monotonic() - started
        if isinstance(built, Failure):
            state: OutcomeState = "compile-error" if built.kind == "compile-error" else "failed"
            return Outcome(state, built.message, FAILED, variant, key, failure=built, seconds=spent)
        started = time.monotonic()
        verdict = self._verified(variant, task.level)
        spent["verify"] = time.monotonic() - started
        if verdict.equivalent is not True:
            wrong = verdict.equivalent is False
            return Outcome(
                "wrong" if wrong else "could-not-tell",
                verdict.reason,
                FAILED if wrong else REFUSED,
                variant,
                key,
                verdict,
                seconds=spent,
            )
        self._spent = {}
        started = time.monotonic()
        outcome = self._time_and_judge(variant, key, verdict, task)
        spent.update(self._spent)
        spent["judge and propose"] = time.monotonic() - started - sum(self._spent.values())
        return evolve(outcome, seconds=spent)

    def _verified(self, variant: Variant, level: Literal["quick", "full"]) -> Verdict:
        verdict = self.verifier.verify(variant, level)
        unrecorded = self.device.unrecorded_runs if isinstance(self.device, RecordedDevice) else 0
        if unrecorded == 0:
            return verdict
        text = f"{unrecorded} runs on the GPU: the record does not have them, so the emulator's stand for them"
        return evolve(verdict, not_checked=(*verdict.not_checked, text))

    def _apply(self, variant: Variant, proposal: Proposal) -> Variant | Outcome:
        unit, kernel = self._parse(variant)
        launch = self._launch(variant.launch_change)
        context = self._context(variant, unit, kernel, launch, ())
        applied = apply_proposal(variant, proposal, context, self.problem.other_files)
        if isinstance(applied, Failure):
            step = Step(proposal.name, dict(proposal.parameters), proposal.rationale, proposal.proposer)
            refused = evolve(variant, steps=(*variant.steps, step))
            key = f"refused-{self._source_key(variant)}-{proposal.name}-{sorted(proposal.parameters.items())}"
            return Outcome("refused", applied.message, REFUSED, refused, key, failure=applied)
        return applied

    def _time_and_judge(self, variant: Variant, key: str, verdict: Verdict, task: EvaluationTask) -> Outcome:
        exact = task.level == "full"
        original = self._evidence_of_original(exact)
        if isinstance(original, Failure):
            return Outcome("failed", original.message, FAILED, variant, key, verdict, failure=original)
        timing = self._time(variant, original, exact, SEARCH_PLAN)
        if isinstance(timing, Failure):
            return Outcome("failed", timing.message, FAILED, variant, key, verdict, failure=timing)
        measurement = timing.measurement
        judgement = self.judge.review(
            Evidence(
                original.profile,
                timing.profile,
                measurement,
                original.roofline,
                timing.roofline,
                verdict,
                self.problem.original.data.decode("utf-8", "replace"),
                variant.data.decode("utf-8", "replace"),
                self.launch.names,
            )
        )
        if judgement.veto:
            return Outcome(
                "vetoed",
                judgement.reason,
                FAILED,
                variant,
                key,
                verdict,
                measurement,
                timing.profile,
                timing.roofline,
                judgement=judgement,
            )
        unit, kernel = self._parse(variant)
        launch = self._launch(variant.launch_change)
        findings = self._findings(timing.profile, unit, kernel, launch)
        counters = None
        if self.counter is not None and self.counter.worth_it(measurement, task.parent_speedup):
            counters, findings = self._counted(variant, key, unit, kernel, launch, findings)
        # Proxies are compared within one origin: the hardware's counters where both have them.
        before, after = original.profile, timing.profile
        if counters is not None and task.original_counters is not None:
            before, after = task.original_counters, counters
        slower = regression(timing.other_launches)
        better = is_better(measurement)
        return Outcome(
            "better" if better else "not-better",
            describe(measurement),
            reward(measurement, before, after, slower),
            variant,
            key,
            verdict,
            measurement,
            timing.profile,
            timing.roofline,
            findings,
            propose_rewrites(self._context(variant, unit, kernel, launch, findings), self.problem.rewrites),
            judgement,
            counters=counters,
        )

    def remeasure(self, outcome: Outcome) -> Outcome:
        """The final paired measurement of a variant; the state says whether the gain held."""
        original = self._evidence_of_original(exact=True)
        if isinstance(original, Failure):
            return evolve(outcome, state="failed", reason=original.message, failure=original)
        if isinstance(self.device, MeasuringDevice):
            outcome = with_sanitizer(outcome, self.problem.original, self.workload, self.device, self.problem.seed)
        if outcome.state == "wrong":
            return outcome
        timing = self._time(outcome.variant, original, True, FINAL_PLAN)
        if isinstance(timing, Failure):
            return evolve(outcome, state="failed", reason=timing.message, failure=timing)
        state: OutcomeState = "better" if is_better(timing.measurement) else "not-better"
        reason, measurement = describe(timing.measurement), timing.measurement
        # The other notes of a measurement stay with it: only these change how its number is to be taken.
        remarkable = tuple(note for note in measurement.notes if "held down" in note or "replayed" in note)
        notes = (*outcome.notes, *self._with_a_cold_cache(outcome.variant), *remarkable)
        return evolve(outcome, state=state, reason=reason, measurement=measurement, notes=notes)

    def _with_a_cold_cache(self, variant: Variant) -> tuple[str, ...]:
        """What the gain is where each launch finds L2 empty, said beside the warm one and never mixed with it."""
        if self.timer is None:
            return ()
        cold = self.timer.measure(variant, COLD_PLAN)
        if isinstance(cold, Failure):
            return (f"not measured with L2 emptied before each launch: {cold.message}",)
        return (f"with L2 emptied before each launch: {describe(cold)}",)

    # ---------------------------------------------------------------------------------- pieces

    def _parse(self, variant: Variant) -> tuple[TranslationUnit, Kernel]:
        unit = parse(SourceFile(variant.file, variant.data))
        kernel = unit.kernel(variant.kernel)
        if kernel is None:
            raise ProblemError(Failure("bad-input", f"{variant.kernel} is not in {variant.file}", variant.file))
        return unit, kernel

    def _launch(self, change: LaunchChange) -> Launch:
        launch = resolve_launch(self.workload, 0, {}, change)
        if isinstance(launch, Failure):
            raise ProblemError(launch)
        return launch

    def _source_key(self, variant: Variant) -> str:
        return f"{source_digest(variant.data)}-{variant.launch_change!r}"

    def _findings(
        self, profile: Profile | None, unit: TranslationUnit, kernel: Kernel, launch: Launch
    ) -> tuple[Finding, ...]:

        return find_findings(profile, unit, kernel, launch) if profile is not None else ()

    def _counted(
        self,
        variant: Variant,
        key: str,
        unit: TranslationUnit,
        kernel: Kernel,
        launch: Launch,
        findings: tuple[Finding, ...],
    ) -> tuple[Profile | None, tuple[Finding, ...]]:
        """ncu's profile of a variant, and its findings joined with those of the emulator; these alone where ncu has
        nothing to say. Its time is left out: what is reported is measured in pairs."""
        assert self.counter is not None
        started = time.monotonic()
        reported = self.counter.count(variant, key)
        self._spent["ncu"] = time.monotonic() - started
        if reported is None:
            return None, findings
        profile = without_time(profile_of(reported, variant.file, variant.kernel, "ncu"))
        return profile, findings_of(reported, profile, unit, kernel, launch, findings)

    def _notes(self) -> tuple[str, ...]:
        problem = self.counter.problem if self.counter is not None else None
        return () if problem is None else (f"no counters of the GPU: {problem.message}",)

    def _context(
        self,
        variant: Variant,
        unit: TranslationUnit,
        kernel: Kernel,
        launch: Launch,
        findings: tuple[Finding, ...],
    ) -> RewriteContext:
        problem = self.problem
        return rewrite_context(
            variant, unit, kernel, self.workload, launch, findings, problem.allow, self.gpu, problem.other_files
        )
