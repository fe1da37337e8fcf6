"""Runs a draft's kernel and compares with its reference, over sizes and value families, before it is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from attrs import evolve

from optiml_core.device.protocol import Built, Contents, Device, RunOptions
from optiml_core.records import BufferArgument, Check, Failure, Launch, Step, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.synthesis.assembling import source_text
from optiml_core.synthesis.records import Array, Draft
from optiml_core.workload import Workload, find_workload, make_contents, resolve_launch

# By the number of sizes: ones, primes and odd numbers, more than a block along a line, few elements in all.
EXTENTS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 1), (97, 31), (5, 67), (300, 259)),
    3: ((1, 1, 1), (37, 31, 17), (5, 67, 33), (70, 45, 40)),
    4: ((1, 1, 1, 1), (3, 33, 17, 9), (5, 7, 35, 18), (2, 40, 21, 33)),
}
RECIPE_SECONDS, MODEL_SECONDS = 20.0, 3.0  # of CPU time for one run
FAMILIES = ("declared", "duplicates", "special values")


class BuildingDevice(Protocol):
    """What building a draft needs of a device."""

    def build(
        self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False
    ) -> Built | Failure: ...


INCLUDES = "#include <cuda_runtime.h>\n#include <math.h>\n\n"
# Relative to the larger of the value and the array's typical size: room for another order of a sum, not for
# another term.
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def variant_of(draft: Draft) -> Variant:
    """The drafted file. A model's kernel is marked as one, so that no device runs it without its sandbox."""
    data = (INCLUDES + source_text(draft)).encode()
    steps = () if draft.author == "rewrites" else (Step("synthesis", {}, "written by a model", draft.author),)
    return Variant("synthesized.cu", data, draft.specification.name, steps=steps)


def build(draft: Draft, device: BuildingDevice) -> tuple[Built, Workload] | Failure:
    """The drafted kernel compiled for the device, with its workload as its own declaration reads."""
    variant = variant_of(draft)
    unit = parse(SourceFile(variant.file, variant.data))
    kernel = unit.kernel(draft.specification.name)
    if kernel is None or kernel.has_syntax_error:
        return Failure("compile-error", "the drafted kernel does not parse")
    workload = find_workload(unit, kernel)
    told = [one.message for one in workload.problems]
    told += [one.message for one in workload.failures]
    if workload.problems or workload.failures:
        return Failure("bad-input", f"the declaration is not complete: {'; '.join(told)}")
    built = device.build(evolve(variant, kernel=kernel.qualified))
    return built if isinstance(built, Failure) else (built, workload)


def size_sets(draft: Draft) -> list[dict[str, int | float]]:
    """Ones, primes and odd numbers for every size and helper size of the draft."""
    names = [one.name for one in draft.specification.parameters if one.role == "size"]
    names += [name for name, _ in draft.helpers]
    many = min(max(len(names), 2), 4)
    return [{name: extents[place % many] for place, name in enumerate(names)} for extents in EXTENTS[many]]


def check(
    draft: Draft, device: Device, seed: int = 0, *, families: Sequence[str] = FAMILIES, most_sizes: int | None = None
) -> tuple[Check, ...]:
    """One check for the build and one for each set of sizes. Never raises for what the kernel does.

    ``families`` and ``most_sizes`` narrow it to a quick look, which is no ground to offer a kernel on.
    """
    made = build(draft, device)
    if isinstance(made, Failure):
        return (Check("build", "failed", made.message),)
    built, workload = made
    checks = [Check("build", "passed", device.name)]
    for sizes in size_sets(draft)[:most_sizes]:
        problem = ""
        for family in families:
            problem = _difference_at(draft, device, built, workload, sizes, family, seed)
            if problem:
                problem = f"{family}: {problem}"
                break
        label = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "fixed sizes"
        detail = problem or f"equal to the reference for {', '.join(families)}"
        checks.append(Check(f"reference at {label}", "failed" if problem else "passed", detail))
        if problem:
            break
    return tuple(checks)


def _difference_at(
    draft: Draft,
    device: Device,
    built: Built,
    workload: Workload,
    sizes: Mapping[str, int | float],
    family: str,
    seed: int,
) -> str:
    launch = resolve_launch(workload, overrides=sizes)
    if isinstance(launch, Failure):
        return launch.message
    contents = make_contents(launch, seed, family)
    if isinstance(contents, Failure):
        return contents.message
    return run_and_compare(draft, device, built, launch, contents)


def run_and_compare(
    draft: Draft, device: Device, built: Built, launch: Launch, contents: Mapping[str, npt.NDArray[Any]]
) -> str:
    """What differs from the draft's reference, or what went wrong in the run; "" if nothing."""
    seconds = RECIPE_SECONDS if draft.author == "rewrites" else MODEL_SECONDS
    after = run(device, built, launch, contents, seconds)
    if isinstance(after, str):
        return after
    names = dict(launch.names)
    with np.errstate(all="ignore"):  # special values divide by zero and overflow as the kernel does
        wanted = draft.compute(shaped(draft, contents, names), names)
    for name, values in wanted.items():
        problem = difference(name, after[name], values)
        if problem:
            return problem
    return ""


def run(
    device: Device,
    built: Built,
    launch: Launch,
    contents: Mapping[str, npt.NDArray[Any]],
    seconds: float = RECIPE_SECONDS,
) -> dict[str, npt.NDArray[Any]] | str:
    """The buffers after one run that broke no rule; else what it did wrong."""
    lengths = tuple(
        evolve(one, length=len(contents[one.name])) if isinstance(one, BufferArgument) else one
        for one in launch.arguments
    )
    result = device.run(built, evolve(launch, arguments=lengths), Contents(dict(contents)), RunOptions(seconds=seconds))
    if isinstance(result, Failure):
        return result.message
    if result.faults:
        return f"{result.faults[0].kind} in line {result.faults[0].line}: {result.faults[0].note}"
    if not result.guards_intact:
        return "something was written outside the arrays"
    return {name: np.asarray(values) for name, values in result.buffers.items()}


def shaped(draft: Draft, contents: Mapping[str, Array], names: Mapping[str, Any]) -> dict[str, Array]:
    """The contents in the specification's shapes, in float64 and int64."""
    arrays: dict[str, Array] = {}
    for one in draft.specification.parameters:
        if one.is_array:
            values = contents[one.name]
            wide = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
            last = [int(names[e]) if e in names else int(e) for e in one.shape] if len(one.shape) > 1 else [-1]
            arrays[one.name] = wide.reshape(last)
    return arrays


def difference(name: str, got: Array, wanted: Array) -> str:
    """Where an array differs from the reference by more than rounding; "" if nowhere."""
    expected = np.asarray(wanted).reshape(-1)
    if got.shape != expected.shape:
        return f"{name} has {got.size} elements, the reference {expected.size}"
    if got.dtype.kind != "f":
        with np.errstate(invalid="ignore"):
            bad = got.astype(np.int64) != expected.astype(got.dtype).astype(np.int64)
    else:
        finite = expected[np.isfinite(expected)]
        with np.errstate(over="ignore"):
            typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            narrow = expected.astype(got.dtype)
            room = TOLERANCE[str(got.dtype)] * np.maximum(np.abs(expected), max(typical, 1e-3))
            same = (got == narrow) | (np.isnan(got) & np.isnan(narrow))
            bad = ~(same | (np.abs(got.astype(np.float64) - expected) <= room))
    if not bad.any():
        return ""
    at = int(np.argmax(bad))
    return f"{name}[{at}] is {got[at]}, the reference says {expected[at]} ({int(bad.sum())} of {bad.size} differ)"
