"""Verdicts over scripted results: what is refused, what could not be told, what is dropped and said."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from optiml_core.device.protocol import Fault
from optiml_core.records import Failure, LaunchChange, Variant, Verdict
from optiml_core.verification import Verifier, verify
from optiml_core.verification.buffers import POISON_PATTERNS
from tests.verification.proof import workload_of
from tests.verification.scripted_device import Behaviour, ScriptedDevice

TEXT = """// optiml: n = 1000, a = 2, x[n]: normal, y[n]
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void f(const float* x, float* y, int n, float a) { /* behaviour: WORD */ y[0] = a * x[0]; }
"""


def variant(word: str) -> Variant:
    return Variant("f.cu", TEXT.replace("WORD", word).encode(), "f")


def scalar(launch, name: str):
    return next(one.value for one in launch.arguments if one.name == name)


def right(b, launch, options):
    with np.errstate(invalid="ignore"):
        b["y"][...] = b["x"] * scalar(launch, "a")


def judged(
    candidate: Behaviour, original: Behaviour = right, level: str = "full", can_widen: bool = True, **options
) -> Verdict:
    device = ScriptedDevice({"original": original, "candidate": candidate}, can_widen)
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    return verify(variant("original"), variant("candidate"), workload, device, level, **options)


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if check.result == "failed"]


def stale():
    """Remembers the first output it computed for each size."""
    known: dict[int, np.ndarray] = {}

    def run(b, launch, options):
        right(b, launch, options)
        b["y"][...] = known.setdefault(b["y"].size, b["y"].copy())

    return run


def counted(change, when):
    """Right but for ``change`` in the runs for which ``when(number of the run)`` holds."""
    number = 0

    def run(b, launch, options):
        nonlocal number
        number += 1
        right(b, launch, options)
        if when(number):
            change(b)

    return run


def then(change):
    def run(b, launch, options):
        right(b, launch, options)
        return change(b, launch, options)

    return run


def spoil_input(b, launch, options):
    b["x"][0] += 1


def depends_on_poison(b, launch, options):
    b["y"][-1] += np.float32(options.poison)


def depends_on_schedule(b, launch, options):
    b["y"][-1] *= np.float32(1 + options.schedule * 2.0**-22)


def race(b, launch, options):
    return [Fault("race", 3, "two threads write", buffer="y")]


def off_by_a_thousandth(b, launch, options):
    b["y"][...] *= np.float32(1.001)


def overflow(b, launch, options):
    b["y"][:1] = np.inf


WRONG = {
    "error budget": then(off_by_a_thousandth),
    "inputs unchanged": then(spoil_input),
    "poison": then(depends_on_poison),
    "determinism": then(depends_on_schedule),
    "faults": then(race),
    "non-finite values": then(overflow),
    "runs": lambda b, launch, options: Failure("timeout", "took too long"),
}


@pytest.mark.parametrize("check", WRONG)
def test_each_rule_refuses(check: str) -> None:
    verdict = judged(WRONG[check])
    assert verdict.equivalent is False
    assert check in failed(verdict)
    assert verdict.reason.startswith(check)


def test_the_right_candidate_passes_with_every_check_named() -> None:
    verdict = judged(right)
    assert verdict.equivalent is True
    assert failed(verdict) == []
    assert len({check.name for check in verdict.checks}) == len(verdict.checks) >= 20
    assert verdict.not_checked


def test_a_rounding_difference_passes_and_is_shown() -> None:
    def rounded(b, launch, options):
        right(b, launch, options)
        if b["y"].dtype == np.float32:
            b["y"][...] = np.where(np.isfinite(b["y"]), np.nextafter(b["y"], np.float32(np.inf)), b["y"])

    verdict = judged(rounded)
    assert verdict.equivalent is True
    detail = next(check.detail for check in verdict.checks if check.name == "error budget")
    assert "1 units in the last place" in detail


def test_cached_outputs_are_seen() -> None:
    assert judged(stale()).equivalent is False


def test_a_repeated_launch_must_compute_the_same() -> None:
    device_runs = counted(lambda b: b["y"].__imul__(np.float32(1 + 2.0**-22)), lambda number: number > 10**9)
    assert judged(device_runs).equivalent is True
    total = ScriptedDevice({"original": right, "candidate": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    verify(variant("original"), variant("candidate"), workload, total)
    last = sum(word == "candidate" for word, _ in total.runs)
    drifting = judged(counted(lambda b: b["y"].__imul__(np.float32(1 + 2.0**-22)), lambda number: number == last))
    assert drifting.equivalent is False
    assert failed(drifting) == ["relaunch"]


def test_only_a_declared_scalar_is_right() -> None:
    def hard_coded(b, launch, options):
        b["y"][...] = b["x"] * 2

    assert judged(hard_coded, level="quick").equivalent is True
    verdict = judged(hard_coded)
    assert verdict.equivalent is False
    assert "a = " in verdict.reason


def test_wrong_only_in_a_value_family() -> None:
    def skips_nan(b, launch, options):
        kept = b["y"].copy()
        right(b, launch, options)
        b["y"][...] = np.where(np.isnan(b["x"]), kept, b["y"])

    verdict = judged(skips_nan)
    assert verdict.equivalent is False
    assert "infinities and NaN" in verdict.reason


def test_nan_may_differ_with_the_opt_in() -> None:
    def without_nan(b, launch, options):
        right(b, launch, options)
        b["y"][...] = np.nan_to_num(b["y"], nan=0.0, posinf=np.inf, neginf=-np.inf)

    assert judged(without_nan).equivalent is False
    assert judged(without_nan, allow=frozenset({"nan"})).equivalent is True
    assert judged(then(overflow), allow=frozenset({"nan"})).equivalent is False


@pytest.mark.parametrize("can_widen", [True, False])
def test_with_and_without_a_shadow(can_widen: bool) -> None:
    assert judged(right, can_widen=can_widen).equivalent is True
    assert judged(WRONG["error budget"], can_widen=can_widen).equivalent is False
    notes = judged(right, can_widen=can_widen).not_checked
    assert any("shadow" in note for note in notes) != can_widen


def test_an_original_out_of_bounds_everywhere_leaves_nothing_to_compare() -> None:
    def outside(b, launch, options):
        return [Fault("out-of-bounds", 3, "reads behind `x`")]

    verdict = judged(right, outside)
    assert verdict.equivalent is None
    assert "no size" in verdict.reason
    assert verdict.dropped_sizes


def test_sizes_at_which_the_original_misbehaves_are_dropped_and_shown() -> None:
    def needs_blocks(b, launch, options):
        right(b, launch, options)
        return [Fault("out-of-bounds", 3, "reads behind `x`")] if b["x"].size % 64 else None

    verdict = judged(right, needs_blocks)
    assert verdict.equivalent is True
    assert any("out-of-bounds" in text for text in verdict.dropped_sizes)


def test_a_nondeterministic_original_cannot_be_the_oracle() -> None:
    random = np.random.default_rng(0)

    def noisy(b, launch, options):
        right(b, launch, options)
        b["y"][...] += random.normal(0, 1, b["y"].size)

    assert judged(right, noisy).equivalent is None


def test_the_originals_own_race_is_the_baseline() -> None:
    assert judged(then(race), then(race)).equivalent is True

    def other_race(b, launch, options):
        return [Fault("race", 3, "two threads write", buffer="x")]

    assert judged(then(other_race), then(race)).equivalent is False


def test_a_race_of_two_writes_is_not_covered_by_a_read_beside_an_update() -> None:
    """The read ahead of an atomic exchange is a race in name; plain stores in its place lose updates."""

    def stores(b, launch, options):
        right(b, launch, options)
        return [Fault("race", 3, "two threads write", buffer="y", both_write=True)]

    assert judged(then(race), then(race)).equivalent is True
    assert judged(stores, then(race)).equivalent is False
    assert judged(stores, stores).equivalent is True


def test_an_order_that_matters_to_the_original_among_nan_is_no_difference() -> None:
    """A maximum by atomic exchange ends with what came last after a NaN, whoever computes it."""

    def by_order(b, launch, options):
        right(b, launch, options)
        if np.isnan(b["x"]).any():
            b["y"][...] = options.schedule

    verdict = judged(by_order, by_order)
    assert verdict.equivalent is True
    assert any("depend on the schedule" in line for line in verdict.not_checked)
    assert judged(by_order).equivalent is False


@pytest.mark.parametrize(
    ("refused", "passes"),
    [
        (lambda b, n: n > 4096, "the candidate's text mentions 4096"),
        (lambda b, n: n == 150001, "and 150000"),
        (lambda b, n: n > 3500, "several times the declared size"),
    ],
)
def test_sizes_that_the_candidate_singles_out(refused, passes: str) -> None:
    def special(b, launch, options):
        right(b, launch, options)
        if refused(b, int(scalar(launch, "n"))):
            b["y"][...] = 0

    device = ScriptedDevice({"original": right, "candidate": special})
    text = TEXT.replace("WORD", "candidate").replace("y[0] =", "if (n > 4096 || n == 150000) y[0] =")
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    assert verify(variant("original"), Variant("f.cu", text.encode(), "f"), workload, device).equivalent is False


def test_a_larger_size_that_needs_too_many_threads_is_said_and_not_run() -> None:
    """A block instead of a thread for each of many rows: the original's cost says nothing."""

    def hangs_when_large(b, launch, options):
        right(b, launch, options)
        return Failure("timeout", "it did not end") if launch.grid[0] > 3000 else None

    device = ScriptedDevice({"original": right, "candidate": hangs_when_large})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    per_row = evolve(variant("candidate"), launch_change=LaunchChange(grid=("n", "1", "1"), block=("256", "1", "1")))
    verdict = verify(variant("original"), per_row, workload, device)
    assert verdict.equivalent is True
    assert any("launch is too large to be run here" in line for line in verdict.not_checked)


def test_the_address_of_one_buffer_alone_is_moved() -> None:
    """A guard that looks at one address only is passed where another one is not aligned."""
    seen = set()

    class Watching(ScriptedDevice):
        def run(self, built, launch, contents, options=None):
            seen.add((contents.offset_of("x"), contents.offset_of("y")))
            return super().run(built, launch, contents, options)

    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    device = Watching({"original": right, "candidate": right})
    assert verify(variant("original"), variant("candidate"), workload, device).equivalent is True
    assert seen == {(0, 0), (1, 1), (1, 0), (0, 1)}


def test_a_dependence_on_the_launch_is_said() -> None:
    def narrow(b, launch, options):
        right(b, launch, options)
        if launch.block[0] != 64:
            b["y"][...] = 0

    verdict = judged(narrow)
    assert verdict.equivalent is True
    assert any("narrower blocks than declared" in line for line in verdict.not_checked)
    assert not any("narrower blocks" in line for line in judged(right).not_checked)


OUT_OF_RANGE = TEXT.replace("x[n]: normal", "x[n]: uniform(0, 1)")


def test_values_outside_of_the_declared_range_where_the_original_bears_them() -> None:
    def positive_only(b, launch, options):
        right(b, launch, options)
        b["y"][...] = np.where(b["x"] < 0, -b["y"], b["y"])

    def guarded(b, launch, options):
        right(b, launch, options)
        outside = (b["x"] < 0) | (b["x"] > 1)
        return [Fault("out-of-bounds", 3, "reads outside", buffer="x")] if outside.any() else None

    def run(original: Behaviour, candidate: Behaviour) -> bool | None:
        device = ScriptedDevice({"original": original, "candidate": candidate})
        workload = workload_of(OUT_OF_RANGE.replace("WORD", "original"), "f")
        texts = [OUT_OF_RANGE.replace("WORD", word).encode() for word in ("original", "candidate")]
        return verify(*(Variant("f.cu", text, "f") for text in texts), workload, device).equivalent

    assert run(right, positive_only) is False
    assert run(right, right) is True
    # The original leaves its buffers there: the range is what it relies on, and so may the candidate.
    assert run(guarded, positive_only) is True


def test_a_size_at_which_the_original_is_not_repeated_is_dropped() -> None:
    """What was read before it was written may differ with the checkers on, so a copy would be refused there."""

    def odd_when_checked(b, launch, options):
        right(b, launch, options)
        if int(scalar(launch, "n")) % 2 and options.checks and options.poison == POISON_PATTERNS[1]:
            b["y"][...] = 0

    verdict = judged(odd_when_checked, odd_when_checked)
    assert verdict.equivalent is True
    assert any("the original's own runs differ" in size for size in verdict.dropped_sizes)


def test_a_workload_on_which_everything_passes_is_refused() -> None:
    """The original's outputs have no stable digits: a verdict would mean nothing."""

    def chaotic(b, launch, options):
        bits = b["x"].astype(np.float32).view(np.uint32)
        b["y"][...] = (bits * np.uint32(2654435761) >> np.uint32(8)).astype(np.float32)

    verdict = judged(chaotic, chaotic)
    assert verdict.equivalent is None
    assert verdict.reason.startswith("self-test")


def test_an_original_that_writes_nothing_is_no_oracle() -> None:
    def nothing(b, launch, options):
        return None

    verdict = judged(nothing, nothing)
    assert verdict.equivalent is None
    assert "writes nothing" in verdict.reason


def test_an_output_that_the_original_adds_to_gets_contents() -> None:
    """Declared as an output, it is read first: poison would hide what a candidate does to it."""

    def adds(b, launch, options):
        b["y"][...] += b["x"]

    def overwrites(b, launch, options):
        b["y"][...] = b["x"]

    assert judged(adds, adds, "quick").equivalent is True
    assert judged(overwrites, adds, "quick").equivalent is False
    assert judged(adds, overwrites, "quick").equivalent is False


def test_a_missing_behaviour_is_a_compile_error() -> None:
    device = ScriptedDevice({"original": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    verdict = verify(variant("original"), variant("candidate"), workload, device)
    assert verdict.equivalent is False
    assert failed(verdict)[-1] == "compiles"
    assert "line 3" in verdict.reason


def test_what_the_device_cannot_run_could_not_be_told() -> None:
    verdict = judged(lambda b, launch, options: Failure("unsupported", "inline PTX"))
    assert verdict.equivalent is None


def test_what_a_step_relies_on_stays_under_not_checked() -> None:
    device = ScriptedDevice({"original": right, "candidate": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    relying = evolve(variant("candidate"), not_checked=("x and y never overlap",))
    verdict = verify(variant("original"), relying, workload, device)
    assert "x and y never overlap" in verdict.not_checked


def test_the_originals_runs_are_kept_across_candidates() -> None:
    device = ScriptedDevice({"original": right, "candidate": right})
    verifier = Verifier(variant("original"), workload_of(TEXT.replace("WORD", "original"), "f"), device)
    verifier.verify(variant("candidate"))
    first = len(device.runs)
    verifier.verify(variant("candidate"))
    later = device.runs[first:]
    assert {word for word, _ in later} == {"candidate"}


def test_the_quick_gate_is_two_shapes_and_says_what_it_leaves_out() -> None:
    device = ScriptedDevice({"original": right, "candidate": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    verdict = verify(variant("original"), variant("candidate"), workload, device, "quick")
    assert sum(word == "candidate" for word, _ in device.runs) == 6
    assert any(note.startswith("quick gate") for note in verdict.not_checked)
