"""A language model as judge: a second opinion on the evidence. It orders and may veto; it never adds reward.

It runs after the rule-based judge, on variants about to be offered, and reads counters, verdict and difference,
never what the proposer said of its edit.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from attrs import field, frozen

from optiml_core.language_models.interface import LanguageModel, SamplingSettings
from optiml_core.language_models.prompts import judge_messages
from optiml_core.language_models.reading import read_json_object
from optiml_core.records import Failure
from optiml_core.search.judge import Evidence, RuleJudge
from optiml_core.search.records import Judgement

LONGEST_REASON = 400
ONE_CALM_ANSWER = SamplingSettings(samples=1, tokens=800, temperature=0.0, seconds=60.0)


@frozen
class ModelJudge:
    """The rules first: what they veto stays vetoed whatever the model says. A model that fails to answer changes
    nothing and is flagged."""

    model: LanguageModel
    rules: RuleJudge = field(factory=RuleJudge)
    settings: SamplingSettings = ONE_CALM_ANSWER
    cancelled: Callable[[], bool] = lambda: False

    def review(self, evidence: Evidence) -> Judgement:
        ruled = self.rules.review(evidence)
        if ruled.veto:
            return ruled
        measurement = evidence.measurement
        gain = f"{measurement.speedup:.3f}x {measurement.kind} ({measurement.low:.3f} to {measurement.high:.3f})"
        verdict = {True: "equivalent", False: "not equivalent", None: "could not tell"}[evidence.verdict.equivalent]
        answer = self.model.ask(
            judge_messages(
                evidence.original.metrics if evidence.original else {},
                evidence.variant.metrics if evidence.variant else {},
                gain,
                f"{verdict} ({evidence.verdict.level})",
                _difference(evidence.original_source, evidence.variant_source),
            ),
            self.settings,
            cancelled=self.cancelled,
        )
        if isinstance(answer, Failure):
            flag = f"the model judge did not answer: {answer.message}"
            return Judgement(False, "", (*ruled.flags, flag), ruled.diagnosis)
        said = read_json_object(answer.samples[0].text)
        if not isinstance(said.get("veto"), bool):
            flag = "the model judge's answer could not be read"
            return Judgement(False, "", (*ruled.flags, flag), ruled.diagnosis)
        reason = _text(said.get("reason"))
        diagnosis = _text(said.get("diagnosis")) or ruled.diagnosis
        if said["veto"]:
            return Judgement(True, f"{self.model.name}: {reason or 'no reason given'}", ruled.flags, diagnosis)
        flags = list(ruled.flags)
        if said.get("plausible") is False:
            flags.append(f"{self.model.name} doubts the gain: {reason}")
        risks = said.get("risks")
        if isinstance(risks, list):
            flags += [f"{self.model.name}: {_text(risk)}" for risk in risks[:5] if _text(risk)]
        return Judgement(False, "", tuple(flags), diagnosis)


def _text(value: object) -> str:
    return " ".join(str(value).split())[:LONGEST_REASON] if isinstance(value, (str, int, float)) else ""


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "original", "variant", lineterm="")
    return "\n".join(lines)[:20_000]
