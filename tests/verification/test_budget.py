"""The error budget as a pure function over arrays: what passes, what does not, what is judged apart."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.verification.budget import MemberReference, budget_for, compare_member, member_reference, pool_of
from optiml_core.verification.buffers import (
    bits_differ,
    filled,
    moved_by_one_unit,
    scalar_members,
)

RANDOM = np.random.default_rng(1)


def sequential_sum(values: np.ndarray, dtype: type) -> np.ndarray:
    """Row sums added one by one in ``dtype``."""
    total = np.zeros(values.shape[0], dtype)
    for column in values.T:
        total = (total + column.astype(dtype)).astype(dtype)
    return total


def tree_sum(values: np.ndarray, dtype: type) -> np.ndarray:
    """Row sums by halves."""
    values = values.astype(dtype)
    while values.shape[1] > 1:
        if values.shape[1] % 2:
            values = np.concatenate([values, np.zeros((values.shape[0], 1), dtype)], axis=1)
        values = (values[:, ::2] + values[:, 1::2]).astype(dtype)
    return values[:, 0]


def reference_of(values: np.ndarray, kernel, dtype=np.float32) -> MemberReference:
    runs = [kernel(values, dtype).astype(dtype)]
    shadow = sequential_sum(values, np.float64 if dtype != np.float64 else np.longdouble)
    moved = [kernel(moved_by_one_unit(values, RANDOM), dtype).astype(dtype) for _ in range(2)]
    return member_reference("y", np.zeros_like(runs[0]), runs, shadow, moved, np.zeros(runs[0].size, bool))


def accepted(reference: MemberReference, values: np.ndarray) -> bool:
    found = compare_member(reference, values)
    allowed = budget_for(reference.original_errors, reference.conditioning, reference.roundoff)
    return (
        not (found.kept_changed or found.non_finite or found.exact)
        and found.errors.maximum <= allowed.maximum
        and found.errors.rms <= allowed.rms
        and found.unstable_errors.maximum
        <= budget_for(reference.unstable_errors, reference.unstable_conditioning, reference.roundoff).maximum
    )


def cancelling(rows: int, columns: int, dtype=np.float32) -> np.ndarray:
    half = RANDOM.normal(0, 1, (rows, columns // 2)).astype(dtype)
    both = np.concatenate([half, -half * dtype(1 + 1e-3)], axis=1)
    return both[:, RANDOM.permutation(both.shape[1])].astype(dtype)


@pytest.mark.parametrize("columns", [32, 256, 2048])
@pytest.mark.parametrize("data", ["normal", "cancelling"])
def test_a_changed_summation_order_passes(columns: int, data: str) -> None:
    values = RANDOM.normal(0, 1, (64, columns)).astype(np.float32) if data == "normal" else cancelling(64, columns)
    assert accepted(reference_of(values, sequential_sum), tree_sum(values, np.float32))


@pytest.mark.parametrize("columns", [32, 256, 2048])
@pytest.mark.parametrize("data", ["normal", "cancelling"])
@pytest.mark.parametrize("original", [sequential_sum, tree_sum])
def test_a_half_accumulator_fails(columns: int, data: str, original) -> None:
    values = RANDOM.normal(0, 1, (64, columns)).astype(np.float32) if data == "normal" else cancelling(64, columns)
    assert not accepted(reference_of(values, original), sequential_sum(values, np.float16).astype(np.float32))


@pytest.mark.parametrize("columns", [256, 1024])
def test_a_float_accumulator_fails_where_the_original_uses_double(columns: int) -> None:
    values = cancelling(256, columns)
    double = lambda v, dtype: sequential_sum(v, np.float64).astype(dtype)  # noqa: E731
    assert not accepted(reference_of(values, double), sequential_sum(values, np.float32))


def test_double_kernels_are_measured_in_long_double() -> None:
    values = RANDOM.normal(0, 1, (64, 512))
    reference = reference_of(values, sequential_sum, np.float64)
    assert accepted(reference, tree_sum(values, np.float64))
    assert not accepted(reference, sequential_sum(values, np.float32).astype(np.float64))


@pytest.mark.parametrize(
    ("expected", "got", "rule"),
    [
        ([1.0, np.nan], [1.0, 2.0], "non_finite"),
        ([1.0, np.nan], [np.nan, np.nan], "non_finite"),
        ([1.0, np.inf], [1.0, -np.inf], "non_finite"),
        ([1.0, np.inf], [1.0, np.nan], "non_finite"),
        ([1.0, np.inf], [1.0, 3e38], "non_finite"),
        ([1.0, np.inf], [1.0, np.inf], None),
        ([1.0, np.nan], [1.0, np.nan], None),
        ([0.0, 1.0], [-0.0, 1.0], None),
    ],
)
def test_nan_and_infinity_match_in_place_and_kind(expected, got, rule) -> None:
    run = np.array(expected, np.float32)
    reference = member_reference("y", run, [run], run.astype(np.float64), [], np.zeros(2, bool))
    found = compare_member(reference, np.array(got, np.float32))
    assert found.non_finite == (1 if rule == "non_finite" else 0)
    assert found.errors.maximum == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.bool_])
def test_integers_are_exact(dtype) -> None:
    run = np.array([0, 1, 1], dtype)
    reference = member_reference("y", run, [run], None, [], np.zeros(3, bool))
    assert compare_member(reference, run).exact == 0
    assert compare_member(reference, np.array([0, 0, 1], dtype)).exact == 1


def test_elements_that_the_original_never_wrote_stay_bitwise() -> None:
    initial = filled(np.zeros(3, np.float32), 0xFF)
    run = initial.copy()
    run[0] = 1
    reference = member_reference("y", initial, [run], run.astype(np.float64), [], np.array([False, True, True]))
    touched = run.copy()
    touched[2] = np.float32(np.nan)  # another NaN than the poison
    assert bits_differ(touched, run)[2]
    assert compare_member(reference, run).kept_changed == 0
    assert compare_member(reference, touched).kept_changed == 1


def test_an_element_without_stable_digits_does_not_loosen_the_others() -> None:
    run = np.ones(100, np.float32)
    moved = run.copy()
    moved[7] = 0  # one unit in the input flips a comparison here
    reference = member_reference("y", run, [run], run.astype(np.float64), [moved], np.zeros(100, bool))
    assert accepted(reference, moved)
    wrong = run.copy()
    wrong[8] = 0.99
    assert not accepted(reference, wrong)
    far = run.copy()
    far[7] = 100
    assert not accepted(reference, far)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_inputs_move_by_exactly_one_unit(dtype) -> None:
    values = np.array([1.0, -1.0, 0.0, 3.5, -0.007, np.inf], dtype)
    moved = moved_by_one_unit(values, np.random.default_rng(3))
    bits = f"u{values.dtype.itemsize}"
    distance = np.abs(moved.view(bits).astype(np.int64) - values.view(bits).astype(np.int64))
    assert distance.tolist() == [1, 1, 0, 1, 1, 0]
    assert len({tuple(moved_by_one_unit(values, np.random.default_rng(s)).astype(float)) for s in range(8)}) > 1


def test_structs_are_compared_by_member_without_padding() -> None:
    kind = np.dtype([("a", np.int8), ("b", np.float32, (2,))], align=True)
    array = np.zeros(3, kind)
    array["b"] = 2
    members = {name: flat.tolist() for name, flat in scalar_members("p", array)}
    assert members == {"p.a": [0] * 3, "p.b": [2.0] * 6}


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20), st.lists(st.floats(0, 1e3), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_pools_merge_as_if_they_were_one(left: list[float], right: list[float]) -> None:
    merged = pool_of(np.array(left)).merged(pool_of(np.array(right)))
    whole = pool_of(np.array(left + right))
    assert merged.maximum == whole.maximum
    assert merged.rms == pytest.approx(whole.rms)


def test_one_element_that_outweighs_the_rest_is_judged_by_the_maximum() -> None:
    """The root mean square of a heavy tail is the error of one element: another summation order draws another one."""
    tail = pool_of(np.array([1e-4] + [1e-8] * 200))
    even = pool_of(np.full(201, 1e-8))
    assert tail.effective_count == pytest.approx(1, rel=1e-3)
    assert even.effective_count == pytest.approx(201)
    assert budget_for(tail, pool_of(np.zeros(201)), 2.0**-24).rms > 7 * tail.rms
    assert budget_for(even, pool_of(np.zeros(201)), 2.0**-40).rms < 3 * even.rms
    assert budget_for(even, pool_of(np.zeros(201)), 2.0**-40).maximum < 6 * even.maximum
