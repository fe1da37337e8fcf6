"""What processes of one search share: one finds out, the others read; anything unreadable only costs time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.records import Failure, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.verification import Verifier
from optiml_core.verification.kept_runs import LARGEST_BYTES, KeptRuns
from optiml_core.workload import find_workload

TEXT = """// optiml: n = 1000, x[n]: normal, y[n], block = 128, grid = ceil_div(n, 128)
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


def test_computed_once(tmp_path: Path) -> None:
    kept = KeptRuns(str(tmp_path))
    assert kept.recall(str, "a", lambda: "found") == "found"
    assert kept.recall(str, "a", lambda: pytest.fail("computed twice")) == "found"
    assert KeptRuns(str(tmp_path)).recall(str, "b", lambda: "other") == "other"


def test_what_is_no_result_is_not_kept(tmp_path: Path) -> None:
    kept = KeptRuns(str(tmp_path))
    assert kept.recall(str, "a", lambda: Failure("timeout", "busy")) == Failure("timeout", "busy")
    assert kept.recall(str, "a", lambda: "found") == "found"


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x80\x04."])
def test_a_damaged_file_is_found_out_anew(tmp_path: Path, damage: bytes) -> None:
    kept = KeptRuns(str(tmp_path))
    kept.recall(str, "a", lambda: "found")
    (path,) = [one for one in tmp_path.iterdir() if one.suffix != ".lock"]
    path.write_bytes(damage)
    assert kept.recall(str, "a", lambda: "again") == "again"


def test_without_its_folder_it_computes(tmp_path: Path) -> None:
    assert KeptRuns(str(tmp_path / "gone")).recall(str, "a", lambda: "found") == "found"


def test_what_is_large_is_not_written(tmp_path: Path) -> None:
    kept = KeptRuns(str(tmp_path))
    kept.recall(np.ndarray, "a", lambda: np.zeros(LARGEST_BYTES + 1, np.uint8))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


def test_a_second_verifier_runs_the_original_no_more(tmp_path: Path) -> None:
    unit = parse(SourceFile("twice.cu", TEXT.encode()))
    workload = find_workload(unit, unit.kernels[0])
    original = Variant("twice.cu", TEXT.encode(), "twice")
    wrong = Variant("twice.cu", TEXT.replace("2 * x[i]", "2 * x[i] + (i == 999)").encode(), "twice")
    with EmulatorDevice() as device:
        verdicts = []
        runs = []
        for _ in range(2):
            verifier = Verifier(original, workload, device, kept=KeptRuns(str(tmp_path)))
            verdicts.append((verifier.verify(original), verifier.verify(wrong)))
            runs.append(verifier._oracle.runs.runs)
        # What is asked of the original beyond its outputs (memory shared by two buffers) is cheap, and not kept.
        assert runs[1] * 20 < runs[0]
    assert [one.equivalent for one in verdicts[0]] == [True, False]
    assert [(one.equivalent, one.reason) for one in verdicts[0]] == [(o.equivalent, o.reason) for o in verdicts[1]]
