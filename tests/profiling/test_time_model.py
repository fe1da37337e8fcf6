"""The time of each resource, how they combine, the roofline."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.measurement import predict, speedup_prediction
from optiml_core.profiling.time_model import (
    combine,
    imbalance,
    predict_from_metrics,
    resource_times,
    roofline,
    rounds,
)
from optiml_core.records import Failure, Measurement, Profile
from optiml_core.toolchain import gpu_facts

GPU: Any = gpu_facts("H200")
FULL = {"blocks": 132.0 * 80, "warps": 132.0 * 640, "resident_blocks": 8.0}


def profile(**metrics: float) -> Profile:
    return Profile("k", GPU.name, "emulator", None, None, {**FULL, **metrics}, {})


@pytest.mark.parametrize(
    ("metrics", "resource", "seconds"),
    [
        ({"dram_bytes": 4.8e12}, "dram", 1 / 0.9),
        ({"warp_instructions": 4 * 132 * 1.98e9}, "issue", 1.0),
        ({"fp32_warp_instructions": 4 * 132 * 1.98e9}, "fp32", 1.0),
        ({"fp64_warp_instructions": 2 * 132 * 1.98e9}, "fp64", 1.0),
        ({"special_warp_instructions": 0.5 * 132 * 1.98e9}, "special", 1.0),
        ({"l1_cycles": 132 * 1.98e9}, "l1", 1.0),
        ({"shared_cycles": 132 * 1.98e9}, "shared", 1.0),
        ({"atomic_sectors": 1.98e9 / 1.5, "atomic_bytes": 32.0}, "atomic", 1.0),
        ({"atomic_sectors": 2 * 1.98e9 / 1.5, "atomic_bytes": 1024.0}, "atomic", 1.0),
        ({"warp_cycles": 1.98e9 / 10.5 / 1.15}, "latency", 1.0),  # the last of eight warps comes later
    ],
)
def test_each_resource_alone(metrics: dict[str, float], resource: str, seconds: float) -> None:
    times = resource_times({**FULL, **metrics}, GPU)
    assert times[resource] == pytest.approx(seconds, rel=0.01)
    prediction = predict_from_metrics(profile(**metrics), GPU)
    assert prediction.roofline.bound_by == resource
    assert prediction.time == pytest.approx(seconds, rel=0.02)


def test_l1_and_shared_memory_use_one_data_path() -> None:
    times = resource_times({**FULL, "l1_cycles": 1e9, "shared_cycles": 1e9}, GPU)
    assert times["l1"] == pytest.approx(2 * times["shared"])


def test_partial_stores_cost_by_the_line() -> None:
    whole = resource_times({**FULL, "l2_write_bytes": 128e6, "l2_write_lines": 1e6}, GPU)["l2"]
    partial = resource_times({**FULL, "l2_write_bytes": 128e6, "l2_write_lines": 4e6}, GPU)["l2"]
    assert partial > 1.5 * whole


def test_many_small_blocks_cost_their_start() -> None:
    few = predict_from_metrics(profile(dram_bytes=1e6), GPU).time
    many = predict_from_metrics(profile(dram_bytes=1e6, blocks=1e6), GPU).time
    assert many > 1e6 / (0.81 * GPU.clock) > few


@pytest.mark.parametrize(
    ("blocks", "factor"), [(132, 1.0), (8, 16.5), (133, 2 * 132 / 133), (132 * 100, 1.0), (0, 1.0)]
)
def test_the_busiest_multiprocessor_sets_the_time(blocks: float, factor: float) -> None:
    assert imbalance(blocks, 132) == pytest.approx(factor)


@pytest.mark.parametrize(("exact", "number"), [(0.1, 1), (1.0, 1), (1.1, 2), (4.0, 4), (10.0, 10.5)])
def test_rounds(exact: float, number: float) -> None:
    assert rounds(exact * 1056, 1056) == pytest.approx(number)


def test_a_launch_ends_with_its_longest_warp() -> None:
    alike = predict_from_metrics(profile(warp_cycles=1e6), GPU).time
    uneven = predict_from_metrics(profile(warp_cycles=1e6, longest_warp_cycles=1e8), GPU).time
    assert uneven == pytest.approx(1e8 / GPU.clock, rel=0.05)
    assert uneven > 3 * alike


@given(st.dictionaries(st.sampled_from(["dram", "l2", "issue", "latency"]), st.floats(1e-9, 1e3), min_size=1))
def test_together_they_take_at_least_the_longest_and_at_most_all(times: dict[str, float]) -> None:
    assert max(times.values()) <= combine(times) * (1 + 1e-9)
    assert combine(times) <= sum(times.values()) * (1 + 1e-9)


METRICS = (
    "dram_bytes", "l2_read_bytes", "l2_write_bytes", "l2_write_lines", "l1_cycles", "shared_cycles",
    "warp_instructions", "fp32_warp_instructions", "warp_cycles", "atomic_sectors",
)  # fmt: skip


@given(
    st.fixed_dictionaries({name: st.floats(0, 1e12) for name in METRICS}), st.sampled_from(METRICS), st.floats(1, 10)
)
def test_more_work_is_never_predicted_to_be_faster(work: dict[str, float], name: str, factor: float) -> None:
    less = predict_from_metrics(profile(**work), GPU).time
    more = predict_from_metrics(profile(**{**work, name: work[name] * factor}), GPU).time
    assert more >= less * (1 - 1e-12)


def test_the_floor_is_below_every_prediction_and_counts_bytes_once() -> None:
    streaming = profile(compulsory_bytes=1e9, dram_bytes=1e9, l2_read_bytes=1e9)
    line = roofline(streaming, GPU, 1e-3)
    assert line.floor == pytest.approx((1e9 - GPU.l2_bytes) / GPU.dram_bandwidth)
    assert line.floor < predict_from_metrics(streaming, GPU).time
    assert 0 < line.fraction < 1
    wasteful = profile(compulsory_bytes=1e9, dram_bytes=8e9, l2_read_bytes=8e9)
    assert roofline(wasteful, GPU, 1e-3).floor == line.floor


def test_a_resident_working_set_is_bound_by_l2_not_dram() -> None:
    assert roofline(profile(compulsory_bytes=1e7), GPU, 1e-3).floor == pytest.approx(1e7 / GPU.l2_bandwidth)


# -------------------------------------------------------------------------------- predictions


def test_a_profile_without_counts_predicts_nothing() -> None:
    empty = Profile("k", GPU.name, "static", None, None, {}, {})
    result = predict(empty, GPU)
    assert isinstance(result, Failure)
    assert result.kind == "unsupported"
    assert isinstance(speedup_prediction(empty, profile(dram_bytes=1e9), GPU), Failure)


def test_a_predicted_speedup_says_so_and_names_its_gpu() -> None:
    result = speedup_prediction(profile(dram_bytes=8e9), profile(dram_bytes=1e9), GPU)
    assert isinstance(result, Measurement)
    assert (result.kind, result.target, result.cache, result.samples) == ("predicted", "NVIDIA H200", "modelled", 0)
    assert result.speedup == pytest.approx(8.0, rel=0.1)
    assert result.low < result.speedup < result.high
    assert any("not measured" in note for note in result.notes)


def test_the_interval_widens_with_the_change_and_no_change_is_no_gain() -> None:
    def width(after: float) -> float:
        result = speedup_prediction(profile(dram_bytes=8e9), profile(dram_bytes=after), GPU)
        assert isinstance(result, Measurement)
        assert result.low <= result.speedup <= result.high
        return result.high / result.low

    assert width(8e9) < width(6e9) < width(1e9)
    same = speedup_prediction(profile(dram_bytes=8e9), profile(dram_bytes=8e9), GPU)
    assert isinstance(same, Measurement)
    assert same.speedup == 1.0
    assert same.low < 1.0 < same.high
    slower = speedup_prediction(profile(dram_bytes=1e9), profile(dram_bytes=8e9), GPU)
    assert isinstance(slower, Measurement)
    assert slower.high < 1.0


def test_predictions_differ_between_gpus() -> None:
    other: Any = gpu_facts("A100")
    memory_bound = profile(dram_bytes=1e10)
    assert (
        predict_from_metrics(evolve(memory_bound, target=other.name), other).time
        > predict_from_metrics(memory_bound, GPU).time
    )
