"""compute-sanitizer on what is about to be offered, at a small size; what the original does too is allowed."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from optiml_core.device.cuda.tools import CHECKERS
from optiml_core.device.protocol import Contents, MeasuringDevice
from optiml_core.records import Check, Failure, Variant
from optiml_core.search.records import Outcome
from optiml_core.workload import Workload, make_contents, resolve_launch, size_variations


def with_sanitizer(
    outcome: Outcome, original: Variant, workload: Workload, device: MeasuringDevice, seed: int
) -> Outcome:
    """The outcome with the checkers' words in its verdict; its state is ``wrong`` if one of them found something."""
    if outcome.verdict is None:
        return outcome
    variations = size_variations(workload, seed)
    sizes = dict(variations[0]) if variations else {}
    checks = []
    for checker in CHECKERS:
        check = _sanitized(device, outcome.variant, workload, sizes, seed, checker)
        if check.result == "failed":
            own = _sanitized(device, original, workload, sizes, seed, checker)
            if own.result == "failed":
                check = evolve(check, result="passed", detail=f"no more than the original: {own.detail}")
        checks.append(check)
    verdict = evolve(outcome.verdict, checks=(*outcome.verdict.checks, *checks))
    failed = next((check for check in checks if check.result == "failed"), None)
    if failed is None:
        return evolve(outcome, verdict=verdict)
    reason = f"{failed.name}: {failed.detail}"
    return evolve(outcome, state="wrong", reason=reason, verdict=evolve(verdict, equivalent=False, reason=reason))


def _sanitized(
    device: MeasuringDevice,
    variant: Variant,
    workload: Workload,
    sizes: Mapping[str, int | float],
    seed: int,
    checker: str,
) -> Check:
    name = f"compute-sanitizer {checker}"
    launch = resolve_launch(workload, 0, sizes, variant.launch_change)
    if isinstance(launch, Failure):
        return Check(name, "not_run", launch.message)
    made = make_contents(launch, seed)
    if isinstance(made, Failure):
        return Check(name, "not_run", made.message)
    built = device.build(variant, launch.template_arguments)
    if isinstance(built, Failure):
        return Check(name, "not_run", built.message)
    return device.sanitize(built, launch, Contents(made), checker)
