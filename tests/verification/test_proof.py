"""All wrong variants of the proof kernels are refused, all correct ones are accepted.

CI runs quick gates for all of them and full verdicts for a fifth that changes with the day. All full verdicts:
``OPTIML_FULL_VERDICTS=all python -m pytest tests/verification/test_proof.py``; one fifth: ``OPTIML_FULL_VERDICTS=0`` to
``4``; none: ``OPTIML_FULL_VERDICTS=none``.
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections.abc import Callable

import pytest

from optiml_core.records import Verdict
from optiml_core.verification import Verifier
from tests.verification.proof import (
    ProofVariant,
    edited,
    kernel_names,
    original_text,
    variant_of,
    variants,
    workload_of,
)

PARTS = 5


def chosen_for_full_verdict(variant: ProofVariant) -> bool:
    wish = os.environ.get("OPTIML_FULL_VERDICTS", "")
    if wish in ("all", "none"):
        return wish == "all"
    part = int(wish) if wish else datetime.date.today().timetuple().tm_yday % PARTS
    return zlib.crc32(str(variant).encode()) % PARTS == part


def verdict_on(verifier: Verifier, variant: ProofVariant, level: str) -> Verdict:
    workload = workload_of(original_text(variant.kernel), variant.kernel)
    return verifier.verify(variant_of(edited(variant), variant.kernel, workload), level)


def test_there_are_enough_of_them() -> None:
    everything = variants()
    assert len(kernel_names()) >= 15
    assert sum(one.kind == "wrong" for one in everything) >= 150
    assert sum(one.kind == "correct" for one in everything) >= 45
    assert len({str(one) for one in everything}) == len(everything)


@pytest.mark.parametrize("kernel", kernel_names())
def test_the_original_is_equivalent_to_itself(kernel: str, verifier: Callable[[str], Verifier]) -> None:
    verdict = verifier(kernel).verify(variant_of(original_text(kernel), kernel), "quick")
    assert verdict.equivalent is True, verdict.reason


@pytest.mark.parametrize(
    "variant", [one for one in variants() if one.kind == "correct" or not one.full_verdict], ids=str
)
def test_quick_gate(variant: ProofVariant, verifier: Callable[[str], Verifier]) -> None:
    verdict = verdict_on(verifier(variant.kernel), variant, "quick")
    assert (verdict.equivalent is True) == (variant.kind == "correct"), verdict.reason


@pytest.mark.full_verdict
@pytest.mark.parametrize("variant", [one for one in variants() if chosen_for_full_verdict(one)], ids=str)
def test_full_verdict(variant: ProofVariant, verifier: Callable[[str], Verifier]) -> None:
    verdict = verdict_on(verifier(variant.kernel), variant, "full")
    assert (verdict.equivalent is True) == (variant.kind == "correct"), verdict.reason
