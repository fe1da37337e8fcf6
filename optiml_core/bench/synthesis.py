"""``optiml bench synthesis``: thirty prompts of our own, built and run against their own references.

Kernels come from the recipes (one a prompt, always the same) and from every configured model: ``samples`` for each
prompt, written for the specification that the grammar read, and judged by the prompt's own reference.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from optiml_core.bench.synthesis_prompts import PROMPTS, Prompt
from optiml_core.device.protocol import Device
from optiml_core.language_models.interface import SamplingSettings
from optiml_core.records import BufferArgument, Failure, ScalarArgument
from optiml_core.synthesis import Draft, specify
from optiml_core.synthesis.checking import build, difference, run
from optiml_core.synthesis.model_candidates import Candidate, OpenModel, ask_for_kernels, shown_name
from optiml_core.workload import resolve_launch
from optiml_core.workload.elements import element_dtype

RECIPES = "recipes"
TOKENS = 2048  # of an answer: a kernel with its launch is far shorter


@frozen
class PromptResult:
    """``samples`` kernels of one source for one prompt. ``built`` compiled, ``passed`` equal the prompt's reference at
    all its sizes. ``detail``: the first problem. ``seconds``: the whole time. ``draft``: the first that passed."""

    name: str
    problem_type: str
    source: str
    samples: int
    built: int
    passed: int
    detail: str
    seconds: float
    draft: Draft | None = None


@frozen
class Speed:
    """Seconds of the kernel and of a library's call at the same sizes on the same GPU; None with the reason."""

    name: str
    sizes: dict[str, int]
    seconds: float | None
    library_seconds: float | None
    what: str


def run_prompts(
    device: Device,
    prompts: Sequence[Prompt] = PROMPTS,
    models: Sequence[OpenModel] = (),
    samples: int = 4,
    on_result: Callable[[PromptResult], None] = lambda result: None,
) -> tuple[PromptResult, ...]:
    """Every prompt with the recipes, then with every model, in order."""
    results: list[PromptResult] = []
    for prompt in prompts:
        results.append(run_prompt(prompt, device))
        on_result(results[-1])
    for model in models:
        for prompt in prompts:
            results.append(run_model_prompt(prompt, device, model, samples))
            on_result(results[-1])
    return tuple(results)


def run_prompt(prompt: Prompt, device: Device) -> PromptResult:
    """The recipe's kernel for one prompt. The reference is the prompt's own, never the recipe's."""
    started = time.monotonic()
    draft = specify(prompt.text)
    if isinstance(draft, Draft):
        return _result(prompt, RECIPES, [draft], device, started)
    return PromptResult(
        prompt.name, prompt.problem_type, RECIPES, 1, 0, 0, "asked: " + draft.text, time.monotonic() - started
    )


def run_model_prompt(prompt: Prompt, device: Device, model: OpenModel, samples: int) -> PromptResult:
    """``samples`` kernels of one model for the specification that the grammar read."""
    started = time.monotonic()
    draft = specify(prompt.text)
    found: list[Draft | str] = []
    if isinstance(draft, Draft):
        answers = ask_for_kernels(model, prompt.text, draft, SamplingSettings(samples=samples, tokens=TOKENS))
        found = [one.draft if isinstance(one, Candidate) else one.reason for one in answers]
    else:
        found.append("the grammar read no specification")
    # A sample that did not come is one that did not pass.
    found += [next((one for one in found if isinstance(one, str)), "no answer")] * (samples - len(found))
    return _result(prompt, shown_name(model), found[:samples], device, started)


def _result(prompt: Prompt, source: str, found: Sequence[Draft | str], device: Device, started: float) -> PromptResult:
    built, detail, passed = 0, "", []
    for one in found:
        problem = one if isinstance(one, str) else ""
        if isinstance(one, Draft):
            made = build(one, device)
            if isinstance(made, Failure):
                problem = made.message
            else:
                built += 1
                problem = next((p for sizes in prompt.sizes if (p := _problem(prompt, one, made, sizes, device))), "")
                if not problem:
                    passed.append(one)
        detail = detail or problem
    return PromptResult(
        prompt.name, prompt.problem_type, source, len(found), built, len(passed), detail,
        time.monotonic() - started, passed[0] if passed else None,
    )  # fmt: skip


def share_at(count: int, good: int, k: int) -> float:
    """The probability that at least one of ``k`` of ``count`` samples is good: pass@k (Chen et al., "Evaluating Large
    Language Models Trained on Code", 2021), without bias."""
    if count - good < k:
        return 1.0
    return 1.0 - math.comb(count - good, k) / math.comb(count, k)


def scores(results: Sequence[PromptResult]) -> dict[str, dict[str, float]]:
    """By source: ``build@1``, ``pass@1`` and ``pass@k``, means over the prompts; ``k`` is the samples of each."""
    found: dict[str, dict[str, float]] = {}
    for source in dict.fromkeys(one.source for one in results):
        mine = [one for one in results if one.source == source]
        k = min(one.samples for one in mine)
        found[source] = {
            "build@1": sum(share_at(one.samples, one.built, 1) for one in mine) / len(mine),
            "pass@1": sum(share_at(one.samples, one.passed, 1) for one in mine) / len(mine),
            "pass@k": sum(share_at(one.samples, one.passed, k) for one in mine) / len(mine),
            "k": k,
            "prompts": len(mine),
        }
    return found


def _problem(prompt: Prompt, draft: Draft, made: Any, sizes: dict[str, int], device: Device) -> str:
    built, workload = made
    arrays = prompt.make(np.random.default_rng(0), sizes)
    wanted = prompt.reference(arrays, sizes)
    known = {one.name for one in draft.specification.parameters if not one.is_array}
    missing = (set(arrays) | set(wanted)) - {one.name for one in draft.specification.parameters}
    if missing:
        return f"no parameter is named {', '.join(sorted(missing))}"
    # Sizes that are no parameter (the entries of a sparse matrix) follow from the arrays' own lengths.
    helpers = {name: sizes[name] for name, _ in draft.helpers if name in sizes}
    launch = resolve_launch(workload, overrides={**helpers, **{n: v for n, v in sizes.items() if n in known}})
    if isinstance(launch, Failure):
        return launch.message
    scalars = {**sizes, **prompt.scalars}
    unset = [one.name for one in launch.arguments if isinstance(one, ScalarArgument) and one.name not in scalars]
    if unset:
        return f"the prompt gives no value for {', '.join(unset)}"
    contents: dict[str, Any] = {}
    for one in launch.arguments:
        if isinstance(one, BufferArgument):
            dtype = np.dtype(element_dtype(one.element))
            given = arrays.get(one.name)
            if given is not None and given.dtype != dtype:
                return f"{one.name} holds {dtype}, not {given.dtype}"
            # The launcher zeroes what the kernel adds to; every other result starts as poison.
            role = next(p.role for p in draft.specification.parameters if p.name == one.name)
            fill = np.zeros(one.length, dtype)
            if role != "zeroed output":
                fill.view(np.uint8)[:] = 0xFF
            contents[one.name] = fill if given is None else given.reshape(-1)
    arguments = tuple(
        evolve(one, value=scalars[one.name]) if isinstance(one, ScalarArgument) else one for one in launch.arguments
    )
    after = run(device, built, evolve(launch, arguments=arguments), contents)
    if isinstance(after, str):
        return after
    label = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    for name, values in wanted.items():
        found = difference(name, after[name], np.asarray(values))
        if found:
            return f"{label}: {found}"
    return ""


def report(results: Sequence[PromptResult], device: str, speeds: Sequence[Speed] = (), no_speed: str = "") -> str:
    """The results as Markdown."""
    lines = [
        "# Kernels from descriptions", "",
        f"`optiml bench synthesis` on {device}: each kernel compared with the prompt's own NumPy reference at all of",
        "its sizes. Recipes are deterministic: pass@k equals pass@1. A model writes kernels for the specification",
        "that the grammar read. The prompts were fixed before the recipes, but their author could read them: the count",
        "of the recipes says what is covered, not how often an unseen description is understood.",
        "", "| source | prompts | build@1 | pass@1 | k | pass@k |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for source, one in scores(results).items():
        rates = " | ".join(f"{one[name]:.2f}" for name in ("build@1", "pass@1"))
        lines.append(f"| {source} | {one['prompts']} | {rates} | {one['k']} | {one['pass@k']:.2f} |")
    lines += ["", "## Speed against a library", ""]
    if not speeds:
        lines += [f"Not measured: {no_speed or 'it was not asked for'}.", ""]
    else:
        lines += ["| prompt | sizes | kernel | library | call |", "|---|---|---|---|---|"]
        lines += [
            f"| {one.name} | {', '.join(f'{n} = {v}' for n, v in one.sizes.items())} | {_microseconds(one.seconds)} | "
            f"{_microseconds(one.library_seconds)} | {one.what} |"
            for one in speeds
        ] + [""]  # fmt: skip
    lines += ["## Every prompt", "", "| source | prompt | type | samples | built | passed | note |",
              "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in results:
        note = row.detail.replace("|", "\\|").replace("\n", " ")[:200]
        lines.append(
            f"| {row.source} | {row.name} | {row.problem_type} | {row.samples} | {row.built} | {row.passed} | {note} |"
        )
    return "\n".join(lines) + "\n"


def _microseconds(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds * 1e6:.1f} us"
