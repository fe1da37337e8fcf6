"""Outcomes survive the store exactly; damaged ones read as absent."""

from __future__ import annotations

from optiml_core.records import (
    Check,
    Failure,
    Finding,
    LaunchChange,
    Measurement,
    Profile,
    ResourceUsage,
    Roofline,
    SourceRange,
    Step,
    Variant,
    Verdict,
)
from optiml_core.search.outcome_store import KIND, OutcomeStore
from optiml_core.search.records import Judgement, Outcome, Proposal
from optiml_core.store import Store

VARIANT = Variant(
    "k.cu",
    b"bytes \xff\x00 and text",
    "ns::k",
    ("-O3",),
    LaunchChange(grid=("ceil_div(n, 2)", "1", "1"), shared="4 * n"),
    (Step("unroll-loop", {"factor": 4, "name": "i", "full": True, "share": 0.5}, "why"),),
    ("aligned",),
)
OUTCOME = Outcome(
    "better",
    "2.00x predicted",
    0.7,
    VARIANT,
    "key",
    Verdict(True, "full", (Check("races", "passed", "none"),), ("graphs",), "", ("n = 1",), 1.5),
    Measurement("predicted", "H100", 1e-5, 2e-5, 2.0, 1.8, 2.2, notes=("a",)),
    Profile(
        *("k", "H100", "emulator", 1e-5, "predicted"),
        *({"sectors": 3.0}, {7: {"sectors": 3.0}}, (), ResourceUsage(32, 0, 0, 0, 0)),
    ),
    Roofline(0.5, "dram", 5e-6),
    (
        Finding(
            "divergence", SourceRange("k.cu", 1, 2, 1, 2, 1, 3), "low", "m", {"share": 0.5, "who": "x"}, 1.5, ("a",)
        ),
    ),
    (Proposal("pad-shared", {"columns": 1}, "r", 0.5, replacement=b"\x00new"),),
    Judgement(False, flags=("look",)),
    Failure("timeout", "m", "k.cu", 3),
    {"verify": 0.25},
)  # fmt: skip


def test_round_trip() -> None:
    with Store.in_memory() as store:
        outcomes = OutcomeStore(store)
        outcomes.put("one", OUTCOME)
        assert outcomes.get("one") == OUTCOME
        assert outcomes.get("two") is None


def test_damage_reads_as_absent() -> None:
    with Store.in_memory() as store:
        for blob in (b"", b"not zlib", __import__("zlib").compress(b'{"state": 3}')):
            store.put(KIND, "bad", {}, blob)
            assert OutcomeStore(store).get("bad") is None
