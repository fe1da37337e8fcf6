"""The emulator's counts against those that Nsight Compute took on an H200; benchmarks/emulator_against_ncu has all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from optiml_core.device.emulator import EmulatorDevice

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "emulator_against_ncu"))
import cases
import compare

# Every kind of access is among these; the others are compared by the benchmark itself.
KERNELS = (
    *("column_sums_split_rows", "convolution_tiled", "gather", "histogram256_shared", "lanes_of_four"),
    *("sgemm_warp_tiles", "softmax_block_per_row", "transpose16_naive", "transpose_unpadded"),
)


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(compare.KEPT.read_text())["kernels"]
    return content


@pytest.mark.parametrize("name", KERNELS)
def test_each_line_has_ncus_counts(name: str, counted: dict[str, Any], emulator: EmulatorDevice) -> None:
    ours, theirs = compare.of_emulator(emulator, cases.make_case(name)), compare.of_ncu(counted[name], name)
    assert theirs
    assert set(ours) == set(theirs)
    unexplained = [d for d in compare.differences(name, ours, theirs, counted[name]) if not d.why]
    assert unexplained == []


def test_a_wrong_count_is_not_explained_away(counted: dict[str, Any], emulator: EmulatorDevice) -> None:
    name = "transpose_unpadded"
    ours, theirs = compare.of_emulator(emulator, cases.make_case(name)), compare.of_ncu(counted[name], name)
    site = next(site for site in ours if site[1:] == ("load", "shared"))
    ours[site] = {**ours[site], "wavefronts": ours[site]["requests"]}
    assert [d.why for d in compare.differences(name, ours, theirs, counted[name])] == [""]
