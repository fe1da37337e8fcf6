"""One unit of training data: a kernel with its verified edits, or a few descriptions with their checked kernels.

A unit depends on the seed and its number alone. Every pair has passed the quick gate; a drawn share has also got the
full verdict.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.bench.training_pairs.descriptions import draw_description
from optiml_core.bench.training_pairs.families import draw_kernel
from optiml_core.bench.training_pairs.style import draw_style, relaid
from optiml_core.device.protocol import Device
from optiml_core.profiling import Profiler, find_findings
from optiml_core.records import Failure, Finding, Step, Variant
from optiml_core.rewrites import CATALOGUE, Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.source import SourceFile, apply_edits, parse
from optiml_core.synthesis import Draft, specify
from optiml_core.synthesis.assembling import kernel_text
from optiml_core.synthesis.checking import check
from optiml_core.verification import Verifier
from optiml_core.workload import find_workload, resolve_launch

FILE = "kernel.cu"
# Our kernels have no callers, and their workloads declare separate buffers: what that leaves open is in `not_checked`.
ALLOW = frozenset({"launch", "no-alias"})
# The search refuses changed parameter types from a model, so none is taught to write them.
MOST_OPTIONS = {"launch-shape": 1, "unroll-loop": 1, "restrict-readonly": 0}
OPTIONS_OF_ANY = 2
DESCRIPTIONS_A_UNIT = 4
DESCRIPTION_UNITS = 0.35
SECOND_STEPS = 0.6  # how often one verified edit becomes a kernel to be edited again
FULL_SHARE = 0.02

Full = Literal["passed", "failed", "not run"]


@frozen
class VerifiedPair:
    """``full``: the result of the full verdict; ``reason``: why it failed. ``prove`` runs it, where it was not."""

    prompt: str
    answer: str
    generator: str
    facts: Mapping[str, Any]
    full: Full = "not run"
    reason: str = ""
    prove: Callable[[], str] | None = field(default=None, eq=False, repr=False)

    @property
    def digest(self) -> str:
        """Equal for pairs that differ in white space only."""
        return hashlib.sha256(" ".join(f"{self.prompt}\0{self.answer}".split()).encode()).hexdigest()


@frozen
class UnitResult:
    """``refused``: how many pairs of each generator did not pass, with the first reason."""

    pairs: tuple[VerifiedPair, ...]
    refused: Mapping[str, tuple[int, str]] = field(factory=dict)


class PairMaker:
    """Makes units on one device. Closing it ends the compilers it started; the device is the caller's."""

    def __init__(self, seed: int, device: Device, profiler: Profiler) -> None:
        self._seed = seed
        self._device = device
        self._profiler = profiler

    def unit(self, number: int) -> UnitResult:
        rng = random.Random(f"{self._seed}/{number}")
        refused: dict[str, tuple[int, str]] = {}

        def refuse(generator: str, reason: str) -> None:
            count, first = refused.get(generator, (0, reason))
            refused[generator] = (count + 1, first)

        if rng.random() < DESCRIPTION_UNITS:
            pairs = [pair for _ in range(DESCRIPTIONS_A_UNIT) if (pair := self._described(rng, refuse)) is not None]
        else:
            pairs = self._edited(rng, refuse)
        return UnitResult(tuple(self._sampled(pair, refuse) for pair in pairs), refused)

    def full_verdict(self, number: int, digest: str) -> str:
        """The full verdict's reason against a pair of unit ``number``; "" if it passed."""
        pair = next(one for one in self.unit(number).pairs if one.digest == digest)
        return pair.prove() if pair.prove is not None else pair.reason

    def _sampled(self, pair: VerifiedPair, refuse: Callable[[str, str], None]) -> VerifiedPair:
        if int(pair.digest[:12], 16) / 16**12 >= FULL_SHARE or pair.prove is None:
            return pair
        reason = pair.prove()
        if reason:
            refuse(pair.generator, f"full verdict: {reason}")
        return evolve(pair, full="failed" if reason else "passed", reason=reason)

    # ------------------------------------------------------------------ finding and kernel -> edited kernel

    def _edited(self, rng: random.Random, refuse: Callable[[str, str], None]) -> list[VerifiedPair]:
        drawn = draw_kernel(rng)
        first = Variant(FILE, drawn.text.encode(), drawn.kernel)
        pairs, results = self._edits_of(first, drawn.family, refuse)
        if results and rng.random() < SECOND_STEPS:
            # A variant of its own now: its text says how it is launched.
            second = Variant(FILE, rng.choice(results), drawn.kernel)
            pairs += self._edits_of(second, f"{drawn.family}, second step", refuse)[0]
        return pairs

    def _edits_of(
        self, original: Variant, family: str, refuse: Callable[[str, str], None]
    ) -> tuple[list[VerifiedPair], list[bytes]]:
        unit = parse(SourceFile(original.file, original.data))
        kernel = unit.kernel(original.kernel)
        assert kernel is not None, original.data
        workload = find_workload(unit, kernel)
        launch = resolve_launch(workload)
        profile = self._profiler.profile(original, workload)
        if isinstance(launch, Failure) or isinstance(profile, Failure):
            reason = launch.message if isinstance(launch, Failure) else profile.message  # type: ignore[union-attr]
            refuse(f"kernel: {family}", reason)
            return [], []
        findings = find_findings(profile, unit, kernel, launch)
        context = RewriteContext(unit, kernel, workload, launch, findings, ALLOW, None, ())
        verifier = Verifier(original, workload, self._device, allow=ALLOW, seed=self._seed)
        pairs: list[VerifiedPair] = []
        results: list[bytes] = []
        for rewrite in CATALOGUE:
            options = rewrite.options(context)
            most = MOST_OPTIONS.get(rewrite.name, OPTIONS_OF_ANY)
            for option in () if isinstance(options, Refusal) else options[:most]:
                pair = self._edit(original, context, verifier, rewrite, option, family)
                if isinstance(pair, str):
                    refuse(f"rewrite: {rewrite.name}", pair)
                else:
                    pairs.append(pair[0])
                    results.append(pair[1])
        return pairs, results

    def _edit(
        self,
        original: Variant,
        context: RewriteContext,
        verifier: Verifier,
        rewrite: Rewrite,
        option: Option,
        family: str,
    ) -> tuple[VerifiedPair, bytes] | str:
        made = rewrite.apply(context, option)
        if isinstance(made, Refusal):
            return made.reason
        data = apply_edits(original.data, made.edits)
        if isinstance(data, Failure):
            return data.message
        if data == original.data:
            return "nothing changed"
        step = Step(rewrite.name, option.parameters, made.rationale)
        candidate = evolve(
            original, data=data, launch_change=made.launch_change, steps=(step,), not_checked=made.not_checked
        )
        verdict = verifier.verify(candidate, "quick")
        if verdict.equivalent is not True:
            return verdict.reason
        finding = _answered(context.findings, rewrite)
        facts = {"family": family, "parameters": dict(option.parameters), "not_checked": list(made.not_checked)}

        def prove() -> str:
            full = verifier.verify(candidate, "full")
            return "" if full.equivalent is True else full.reason

        prompt = edit_prompt(original.data.decode(), finding, rewrite.name)
        answer = edit_answer(data.decode(), finding, rewrite.name, made)
        return VerifiedPair(prompt, answer, f"rewrite: {rewrite.name}", facts, prove=prove), data

    # -------------------------------------------------------------------------------- comment -> kernel

    def _described(self, rng: random.Random, refuse: Callable[[str, str], None]) -> VerifiedPair | None:
        description = draw_description(rng)
        draft = specify(description.text)
        if not isinstance(draft, Draft):
            refuse(f"recipe: {description.pattern}", draft.text)
            return None
        if any(description.text == prompt.text for prompt in PROMPTS):
            refuse(f"recipe: {description.pattern}", "a prompt of the benchmark")
            return None
        generator = f"recipe: {draft.specification.pattern}"
        style = evolve(draw_style(rng), own_line=False)
        laid = evolve(draft, body=relaid(style, draft.body))
        problem = _failed(check(laid, self._device, families=("declared",), most_sizes=2))
        if problem:
            refuse(generator, problem)
            return None

        def prove() -> str:
            return _failed(check(laid, self._device))

        prompt = f"Write this CUDA kernel.\n// {description.text}\n"
        answer = f"```cuda\n{kernel_text(laid)}```\n"
        return VerifiedPair(prompt, answer, generator, {"description": description.pattern}, prove=prove)


def edit_prompt(text: str, finding: Finding | None, rewrite: str) -> str:
    """What a model is shown: the finding with its line, or the idea to try where no finding asks for it."""
    if finding is None:
        told = f"Try {rewrite}."
    else:
        told = f"Finding: {finding.kind} in line {finding.range.start_line}, {finding.severity}: {finding.message}."
    return f"Optimize this CUDA kernel.\n{told}\n```cuda\n{text}```\n"


def edit_answer(text: str, finding: Finding | None, rewrite: str, made: Rewritten) -> str:
    """In the form that the search reads from a model. No effect was measured, so none is told."""
    head = {"bottleneck": finding.kind if finding is not None else "", "idea": made.rationale, "rewrites": [rewrite]}
    return f"{json.dumps(head)}\n```cuda\n{text}```\n"


def _answered(findings: tuple[Finding, ...], rewrite: Rewrite) -> Finding | None:
    return next((one for one in findings if rewrite.name in one.rewrites or one.kind in rewrite.answers), None)


def _failed(checks: tuple[Any, ...]) -> str:
    return next((f"{one.name}: {one.detail}" for one in checks if one.result != "passed"), "")
