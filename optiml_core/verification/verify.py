"""Is the candidate the same function as the original? The verdict, quick or full."""

from __future__ import annotations

import time
from typing import Literal

from attrs import evolve

from optiml_core.device.protocol import Device
from optiml_core.records import Check, Failure, Variant, Verdict
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.verification.checks import error_budget
from optiml_core.verification.checks.gpu_compiler import GpuCompiler
from optiml_core.verification.kept_runs import KeptRuns
from optiml_core.verification.original_runs import OriginalRuns
from optiml_core.verification.stages import FULL_STAGES, QUICK_STAGES, Covered, OnTrial, Oracle, Stage
from optiml_core.verification.trial import Problem, Trial
from optiml_core.workload import Workload, resolve_launch, with_instantiation

Level = Literal["quick", "full"]

# Rules that every run is judged by; they pass when all runs did.
_RULES: tuple[tuple[str, str], ...] = (
    ("compiles", "for every set of template arguments"),
    ("runs", "every run ended"),
    ("faults", "no race, barrier, initialisation or bounds fault that the original does not have"),
    ("guard zones", "intact"),
    ("inputs unchanged", "bitwise"),
    ("unwritten outputs", "bitwise as they were"),
    ("non-finite values", "NaN and infinities match in place and kind"),
    ("outputs", "integers exactly"),
    ("error budget", ""),
    ("poison", "two patterns give the same outputs"),
    ("determinism", "the schedule does not matter"),
    ("printed output", "the same lines"),
)


def verify(
    original: Variant,
    candidate: Variant,
    workload: Workload,
    device: Device,
    level: Level = "full",
    *,
    allow: frozenset[str] = frozenset(),
    seed: int = 0,
    gpu_compiler: GpuCompiler | None = None,
) -> Verdict:
    """One verdict on one candidate; ``Verifier`` keeps the original's runs across candidates."""
    verifier = Verifier(original, workload, device, allow=allow, seed=seed, gpu_compiler=gpu_compiler)
    return verifier.verify(candidate, level)


class Verifier:
    """Judges candidates against one original on one workload and device.

    Keeps what the original does (its outputs, float64 shadow, buffer roles, conditioning, dropped sizes), so that a
    further candidate costs only its own runs. ``allow`` holds the opt-ins of ``--allow``: ``narrower``,
    ``fast-math``, ``tf32``, ``no-alias``, ``aligned``, ``nan``, ``nondeterminism``. ``gpu_compiler`` compiles what
    passed everything else with the CUDA compiler; without it that is not checked.
    """

    def __init__(
        self,
        original: Variant,
        workload: Workload,
        device: Device,
        *,
        allow: frozenset[str] = frozenset(),
        seed: int = 0,
        kept: KeptRuns | None = None,
        gpu_compiler: GpuCompiler | None = None,
    ) -> None:
        """``kept``: a folder shared with other processes that judge candidates of the same original and workload."""
        self.original = original
        self.gpu_compiler = gpu_compiler
        self.device = device
        self.allow = allow
        self._unit = _parsed(original)
        self._oracle = Oracle(OriginalRuns(original, workload, device, seed, kept), seed)
        # Every other instantiation that the file uses, with the same sizes and contents.
        self._others = {
            arguments: Oracle(OriginalRuns(original, with_instantiation(workload, arguments), device, seed, kept), seed)
            for arguments in _other_instantiations(workload)
        }

    def verify(self, candidate: Variant, level: Level = "full") -> Verdict:
        """The verdict on a candidate. ``equivalent`` None means "could not tell": a refusal everywhere.

        All instantiations of a kernel template that the file uses are verified.
        """
        verdict = self._verify_on(self._oracle, candidate, level)
        for arguments, oracle in self._others.items():
            if verdict.equivalent is not True:
                return verdict
            label = f"<{', '.join(arguments)}>"
            other = self._verify_on(oracle, candidate, level)
            if other.equivalent is not True:
                return evolve(other, reason=f"instantiation {label}: {other.reason}")
            verdict = evolve(
                verdict,
                checks=(*verdict.checks, Check(f"instantiation {label}", "passed", "all checks as above")),
                not_checked=tuple(dict.fromkeys((*verdict.not_checked, *other.not_checked))),
                seconds=verdict.seconds + other.seconds,
            )
        return verdict

    def _verify_on(self, oracle: Oracle, candidate: Variant, level: Level) -> Verdict:
        started = time.perf_counter()
        kernel = self._unit.kernel(self.original.kernel)
        if kernel is None:
            reason = f"the original has no kernel `{self.original.kernel}`"
            return Verdict(None, level, (), (), reason, seconds=time.perf_counter() - started)
        unit = _parsed(candidate)
        on = OnTrial(
            original=self._unit,
            candidate=unit,
            kernel=kernel,
            candidate_kernel=unit.kernel(candidate.kernel) if candidate.kernel == self.original.kernel else None,
            trial=Trial(candidate, oracle.runs, self.device, self.allow),
            oracle=oracle,
            allow=self.allow,
            not_checked=list(candidate.not_checked),
            gpu_compiler=self.gpu_compiler,
        )
        checks, problem = _run_stages(on, QUICK_STAGES + (FULL_STAGES if level == "full" else ()))
        checks = _with_rules(checks, on.trial, problem)
        if level == "quick":
            on.not_checked.append("quick gate: further sizes, scalars, value families, addresses and schedules")
        on.not_checked.extend(_not_checked_by_device(self.device, on))
        equivalent = True if problem is None else problem.equivalent
        return Verdict(
            equivalent=equivalent,
            level=level,
            checks=tuple(checks),
            not_checked=tuple(dict.fromkeys(on.not_checked)),
            reason="" if problem is None else f"{problem.check}: {problem.detail}",
            dropped_sizes=tuple(
                f"{dropped.point.label}: {dropped.reason}"
                for point, dropped in oracle.dropped.items()
                if point in oracle.plan.shapes
            ),
            seconds=time.perf_counter() - started,
        )


def _other_instantiations(workload: Workload) -> tuple[tuple[str, ...], ...]:
    """The template arguments of the file's launches besides those that the workload itself has."""
    kernel = workload.kernel
    first = resolve_launch(workload)
    if not kernel.template_parameters or isinstance(first, Failure):
        return ()
    complete = [one for one in kernel.instantiations if len(one) == len(kernel.template_parameters)]
    known = {tuple(_squeezed(first.template_arguments))}
    found: list[tuple[str, ...]] = []
    for arguments in complete:
        if tuple(_squeezed(arguments)) not in known:
            known.add(tuple(_squeezed(arguments)))
            other = resolve_launch(with_instantiation(workload, arguments))
            # Arguments that are names of the launching function's own say nothing outside of it.
            if not isinstance(other, Failure) and other.template_arguments == arguments:
                found.append(arguments)
    return tuple(found)


def _squeezed(arguments: tuple[str, ...]) -> list[str]:
    return ["".join(argument.split()) for argument in arguments]


def _parsed(variant: Variant) -> TranslationUnit:
    return parse(SourceFile(variant.file, variant.data))


def _run_stages(on: OnTrial, stages: tuple[tuple[str, Stage], ...]) -> tuple[list[Check], Problem | None]:
    """Runs the stages up to the first problem; the rest is not run."""
    checks: list[Check] = []
    problem: Problem | None = None
    for name, stage in stages:
        if problem is not None:
            checks.append(Check(name, "not_run", "an earlier check decided"))
            continue
        outcome = stage(on)
        if isinstance(outcome, Covered):
            checks.append(Check(name, "not_run" if outcome.not_run else "passed", outcome.detail))
            continue
        problem = outcome
        result: Literal["failed", "not_run"] = "failed" if outcome.equivalent is False else "not_run"
        checks.append(Check(name, result, outcome.detail))
    return checks, problem


def _with_rules(checks: list[Check], trial: Trial, problem: Problem | None) -> list[Check]:
    """Adds the rules that every run was judged by, and the accuracy that was found."""
    rules: list[Check] = []
    accuracy = error_budget.summary(trial.errors())
    for name, detail in _RULES:
        if problem is not None and problem.check == name:
            rules.append(Check(name, "failed" if problem.equivalent is False else "not_run", problem.detail))
        elif name == "compiles" and trial.compiled:
            rules.append(Check(name, "passed", detail))
        elif not trial.observations:
            rules.append(Check(name, "not_run", "an earlier check decided"))
        elif name == "error budget":
            rules.append(Check(name, "passed", accuracy or "no floating-point output"))
        else:
            rules.append(Check(name, "passed", detail))
    return checks + rules


def _not_checked_by_device(device: Device, on: OnTrial) -> list[str]:
    """What this device cannot show at all."""
    facts = ["sizes and values beyond those listed"]
    if device.name == "emulator":
        facts.append("rounding of the GPU's own library functions and fused multiply-adds: checked on a GPU only")
    else:
        facts.append("races, barriers and initialisation beyond what the outputs show: checked in the emulator only")
    if any(not observation.reference.has_shadow for observation in on.trial.observations):
        facts.append("no wider shadow of the original: errors are measured against the original itself")
    return facts
