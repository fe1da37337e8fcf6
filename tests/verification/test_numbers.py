"""The numbers of a text, from which sizes and contents are made."""

from __future__ import annotations

import pytest

from optiml_core.records import Variant
from optiml_core.verification.numbers import MOST_NUMBERS, number_of, numbers_in
from optiml_core.verification.original_runs import OriginalRuns
from tests.verification.proof import workload_of
from tests.verification.scripted_device import ScriptedDevice


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("12", 12),
        ("0x1Fu", 31),
        ("0b101", 5),
        ("017", 15),
        ("0", 0),
        ("1'000'000ull", 1000000),
        ("1.5f", 1.5),
        (".5", 0.5),
        ("1e-6f", 1e-6),
        ("2.", 2),
        ("x", None),
        ("0x1p3", None),
        ("99999999999999999999999999", 1e26),
    ],
)
def test_a_number_as_it_is_spelled(word: str, value: float | None) -> None:
    found = number_of(word)
    assert found is None if value is None else found == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if (n > 4096) x = 0.25f;", (4096, 0.25)),
        ("for (int j = 0; j < 4 * 256; ++j)", (0, 4, 1024, 256)),
        ("n = 1 << 20;", (1, 1048576, 20)),
        ('// 77\nprintf("78"); y79 = 80;', (80,)),
        ("#define LIMIT 150000\n#include <a12>\n", (150000,)),
        ("n - 1", (1,)),
        ("7 - 2", (7, 5, 2)),
    ],
)
def test_the_numbers_of_a_text(text: str, expected: tuple[float, ...]) -> None:
    assert numbers_in(text) == expected


def test_the_kernels_own_numbers_come_first() -> None:
    """A long file mentions many numbers ahead of the kernel that is asked about."""
    ahead = "".join(f"const int a{number} = {number + 1000};\n" for number in range(500))
    text = ahead + (
        "// optiml: n = 100, x[n]: normal, block = 32, grid = 4\n"
        "__global__ void f(float* x, int n) { if (threadIdx.x < 7654321) x[0] = 0.375f; }\n"
    )
    runs = OriginalRuns(Variant("f.cu", text.encode(), "f"), workload_of(text, "f"), ScriptedDevice({}))
    assert runs.constants[:3] == (7654321, 0, 0.375)
    assert len(runs.constants) == MOST_NUMBERS
