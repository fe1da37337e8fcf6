"""``optiml bench synthesis``: thirty prompts of our own, built and run against their own references."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from optiml_core.bench.synthesis_prompts import PROMPTS, Prompt
from optiml_core.device.protocol import Device
from optiml_core.records import BufferArgument, Failure, ScalarArgument
from optiml_core.synthesis import Draft, specify
from optiml_core.synthesis.checking import build, difference, run
from optiml_core.workload import resolve_launch
from optiml_core.workload.elements import element_dtype


@frozen
class PromptResult:
    """``built``: a kernel came out and compiled. ``passed``: equal to the prompt's reference at all its sizes."""

    name: str
    problem_type: str
    built: bool
    passed: bool
    detail: str
    seconds: float


def run_prompts(device: Device, prompts: Sequence[Prompt] = PROMPTS) -> tuple[PromptResult, ...]:
    """Every prompt once, in order. The references are the prompts' own, never the recipes'."""
    return tuple(run_prompt(prompt, device) for prompt in prompts)


def run_prompt(prompt: Prompt, device: Device) -> PromptResult:
    started = time.monotonic()
    draft = specify(prompt.text)
    built, detail = False, ""
    if isinstance(draft, Draft):
        made = build(draft, device)
        if isinstance(made, Failure):
            detail = made.message
        else:
            built = True
            detail = next((p for sizes in prompt.sizes if (p := _problem(prompt, draft, made, sizes, device))), "")
    else:
        detail = "asked: " + draft.text
    return PromptResult(
        prompt.name, prompt.problem_type, built, built and not detail, detail, time.monotonic() - started
    )


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


def report(results: Sequence[PromptResult], device: str) -> str:
    """The results as Markdown."""
    built = sum(one.built for one in results)
    passed = sum(one.passed for one in results)
    lines = [
        "# Kernels from descriptions", "",
        f"`optiml bench synthesis` with recipes only, on {device}. One answer a prompt, compared with the prompt's own",
        "NumPy reference at each of its sizes. Recipes are deterministic: pass@k equals pass@1.",
        "No speed is measured. The prompts were fixed before the recipes, but their author could read them:",
        "the count says what is covered, not how often an unseen description is understood.",
        "", f"- build@1: {built} of {len(results)}", f"- pass@1: {passed} of {len(results)}", "",
        "| prompt | type | built | passed | note |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for one in results:
        words = ["yes" if flag else "no" for flag in (one.built, one.passed)]
        note = one.detail.replace("|", "\\|")
        lines.append(f"| {one.name} | {one.problem_type} | {words[0]} | {words[1]} | {note} |")
    return "\n".join(lines) + "\n"
