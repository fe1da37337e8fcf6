"""A description becomes a checked kernel, or a question."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from optiml_core.device.protocol import Device
from optiml_core.language_models.interface import SamplingSettings
from optiml_core.records import Check, Failure
from optiml_core.synthesis.assembling import source_text, workload_text
from optiml_core.synthesis.checking import check
from optiml_core.synthesis.model_candidates import (
    Candidate,
    OpenModel,
    Refused,
    ask_for_kernels,
    ask_for_specification,
    pooled,
    shown_name,
)
from optiml_core.synthesis.records import Draft, Question, Synthesized
from optiml_core.synthesis.specify import specify

# Seconds that a draft's launch takes, measured or predicted; None where neither can be had.
TimeOf = Callable[[Draft], float | None]


def synthesize(
    text: str,
    device: Device,
    models: Sequence[OpenModel] = (),
    time_of: TimeOf = lambda draft: None,
    settings: SamplingSettings | None = None,
) -> Synthesized:
    """Reads ``text``, drafts a kernel by a recipe and checks it on ``device`` against the NumPy reference.

    With ``models``, each proposes kernels for the same specification; all are pooled, checked the same way and ordered
    by ``time_of``, the recipe's first where times are equal or unknown. A text outside the grammar is read by the first
    model that gives a specification in the closed language; ``reader`` then names it. ``source`` is only there if every
    check passed; what failed is in ``checks``.
    """
    settings = settings or SamplingSettings(samples=2)
    draft = specify(text)
    reader = "grammar"
    notes: tuple[str, ...] = ()
    if isinstance(draft, Question):
        read = _read_by_models(text, draft, models, settings)
        if isinstance(read, Synthesized):
            return read
        draft, reader, notes = read
    found = pooled_candidates(text, draft, models, settings)
    notes += tuple(f"{one.model}: {one.reason}" for one in found if isinstance(one, Refused))
    tried = [Candidate(draft, "recipe"), *pooled(found, [draft.body])]
    checked = [Checked(one, check(one.draft, device)) for one in tried]
    notes += tuple(f"{one.candidate.model}: {_first_problem(one.checks)}" for one in checked if not one.passed)
    best = _fastest([one for one in checked if one.passed], time_of)
    shown = best or checked[0]
    return Synthesized(
        shown.candidate.draft.specification, "", source_text(best.candidate.draft) if best else "",
        workload_text(shown.candidate.draft), shown.checks, draft.specification.not_understood,
        shown.candidate.model, reader, notes,
    )  # fmt: skip


@frozen
class Checked:
    """A candidate with its checks."""

    candidate: Candidate
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(one.result == "passed" for one in self.checks)


def _read_by_models(
    text: str, question: Question, models: Sequence[OpenModel], settings: SamplingSettings
) -> tuple[Draft, str, tuple[str, ...]] | Synthesized:
    """A model's reading of a text outside the grammar. A text that is only open stays a question."""
    notes: tuple[str, ...] = ()
    for model in models if question.is_foreign else ():
        draft = ask_for_specification(model, text, settings)
        if isinstance(draft, Failure):
            notes += (f"{shown_name(model)}: {draft.message}",)
            continue
        rule = f"this is the reading of the model {shown_name(model)}: only you can tell whether it is what was meant"
        told = evolve(
            draft.specification,
            edge_rules=(*draft.specification.edge_rules, rule),
            not_understood=question.not_understood,
        )
        return evolve(draft, specification=told), shown_name(model), notes
    return Synthesized(None, question.text, not_understood=question.not_understood, notes=notes)


def pooled_candidates(
    text: str, draft: Draft, models: Sequence[OpenModel], settings: SamplingSettings
) -> list[Candidate | Refused]:
    """What every model proposes, all asked at once, in the order of the models."""
    if not models:
        return []
    with concurrent.futures.ThreadPoolExecutor(len(models), thread_name_prefix="optiml-synthesis") as beside:
        answers = beside.map(lambda model: ask_for_kernels(model, text, draft, settings), models)
        return [one for answer in answers for one in answer]


def _first_problem(checks: Sequence[Check]) -> str:
    failed = next((one for one in checks if one.result != "passed"), None)
    return f"{failed.name}: {failed.detail}" if failed is not None else "nothing was checked"


def _fastest(passed: Sequence[Checked], time_of: TimeOf) -> Checked | None:
    if len(passed) < 2:
        return passed[0] if passed else None
    timed = [
        (time, place, one) for place, one in enumerate(passed) if (time := time_of(one.candidate.draft)) is not None
    ]
    return min(timed, key=lambda one: one[:2])[2] if timed else passed[0]
