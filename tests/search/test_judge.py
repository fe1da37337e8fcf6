"""The rule-based judge on variants that are too good to be true, and on honest ones it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from optiml_core.records import Measurement, Profile, Roofline, Verdict
from optiml_core.search.judge import Evidence, RuleJudge

ORIGINAL_SOURCE = """
__constant__ float weights[9];
__global__ void f(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = expf(x[i]);
}
"""
BEFORE = {
    "dram_bytes": 8e6,
    "compulsory_bytes": 8e6,
    "global_requests": 62500.0,
    "warp_instructions": 1e6,
    "global_sectors": 2.5e5,
    "achieved_occupancy": 0.5,
}


def profile(**changes: float) -> Profile:
    return Profile("f", "test", "ncu", 1e-5, "measured", {**BEFORE, **changes}, {})


def measured(speedup: float, **more: Any) -> Measurement:
    facts: dict[str, Any] = {"low": speedup * 0.98, "high": speedup * 1.02}
    return Measurement("measured", "test", 1e-5 / speedup, 1e-5, speedup, **{**facts, **more})


HONEST = Evidence(
    original=profile(),
    variant=profile(dram_bytes=4e6, global_sectors=2.4e5),
    measurement=measured(1.8),
    original_roofline=Roofline(0.4, "dram", 4e-6),
    roofline=Roofline(0.7, "dram", 4e-6),
    verdict=Verdict(True, "full", (), ()),
    original_source=ORIGINAL_SOURCE,
    variant_source=ORIGINAL_SOURCE,
    sizes={"n": 1_000_000},
)


def body(replacement: str, outside: str = "") -> str:
    return outside + ORIGINAL_SOURCE.replace("  if (i < n) y[i] = expf(x[i]);", replacement)


# name -> what differs from the honest variant
TOO_GOOD = {
    "an empty kernel": {"variant": profile(global_requests=0.0, dram_bytes=0.0)},
    "a third of the elements": {"variant": profile(global_sectors=8e4, dram_bytes=2.6e6)},
    "faster than the roofline's floor": {"measurement": measured(4.0)},
    "no time at all": {"measurement": measured(1.8, low=1.0, high=2.0), "_time": 0.0},
    "a speedup that is no number": {"measurement": measured(float("nan"))},
    "an endless speedup": {"measurement": measured(float("inf"))},
    "a speedup outside its interval": {"measurement": measured(1.8, low=0.9, high=1.1)},
    "more than the whole roofline": {"roofline": Roofline(1.4, "dram", 4e-6)},
    "an occupancy above one": {"variant": profile(achieved_occupancy=1.7)},
    "three times faster and no counter moved": {
        "variant": profile(),
        "measurement": measured(3.4),
        "original_roofline": None,
    },
    "half as fast again and no counter moved": {"variant": profile(), "measurement": measured(1.6)},
    "thirtyfold": {"measurement": measured(30.0), "original_roofline": None},
    "not equivalent": {"verdict": Verdict(False, "full", (), (), "y[3] differs")},
    "could not tell": {"verdict": Verdict(None, "full", (), (), "no shape ran")},
    "a timing that did not settle": {"measurement": measured(1.8, inconclusive=True)},
    "clocks that disagree": {"measurement": measured(1.8, notes=("event time is half the wall clock's",))},
    "a cached result in a device global": {
        "variant_source": body("  if (i < n) y[i] = cache[i];", "__device__ float cache[1048576];\n")
    },
    "a cached result in managed memory": {
        "variant_source": body("  if (i < n) y[i] = seen[i];", "__managed__ float seen[64];\n")
    },
    "a cached pointer in a static local": {
        "variant_source": body("  static const float* last; if (last == x) return; last = x;").replace(
            "static const float*", "static float*"
        )
    },
    "a stream of its own": {"variant_source": ORIGINAL_SOURCE + "void h() { cudaStream_t s; cudaStreamCreate(&s); }"},
    "lines pinned in L2": {"variant_source": ORIGINAL_SOURCE + "void h() { attr.accessPolicyWindow.hitRatio = 1; }"},
    "a look at the clock": {"variant_source": body("  if (clock64() & 1) y[i] = expf(x[i]);")},
    "inline assembly": {"variant_source": body('  asm volatile("exit;");')},
    "half precision": {"variant_source": body("  if (i < n) y[i] = float(half(expf(x[i])));")},
    "an approximate exponential": {"variant_source": body("  if (i < n) y[i] = __expf(x[i]);")},
    "the workload's size in the code": {"variant_source": body("  if (i < 1000000) y[i] = expf(x[i]);")},
}


def made(changes: dict[str, Any]) -> Evidence:
    evidence = evolve(HONEST, **{name: value for name, value in changes.items() if not name.startswith("_")})
    if "_time" in changes:
        evidence = evolve(evidence, measurement=evolve(evidence.measurement, time=changes["_time"]))
    return evidence


@pytest.mark.parametrize("name", TOO_GOOD)
def test_vetoes_or_flags_what_is_too_good_to_be_true(name: str) -> None:
    judgement = RuleJudge().review(made(TOO_GOOD[name]))
    assert judgement.veto or judgement.flags
    assert judgement.reason or judgement.flags


ALLOWED = {
    "the honest variant": {},
    "a comment that boasts": {"variant_source": body("  // uses half and clock64, 1000000 times faster\n  y[i] = 1;")},
    "more shared memory": {"variant_source": body("  __shared__ float tile[32]; static __shared__ float other[32];")},
    "a new constant table": {"variant_source": "__device__ const float table[4] = {1, 2, 3, 4};\n" + ORIGINAL_SOURCE},
    "a large gain that the counters explain": {"variant": profile(global_sectors=2e5), "measurement": measured(2.0)},
    "a gain by occupancy": {"variant": profile(achieved_occupancy=0.95), "measurement": measured(1.6)},
    "a state that the original keeps too": {
        "original_source": "__device__ int count;\n" + ORIGINAL_SOURCE,
        "variant_source": "__device__ int count;\n" + ORIGINAL_SOURCE,
    },
}


@pytest.mark.parametrize("name", ALLOWED)
def test_leaves_honest_variants_alone(name: str) -> None:
    judgement = RuleJudge().review(made(ALLOWED[name]))
    assert not judgement.veto
    assert not judgement.flags


def test_says_what_changed() -> None:
    assert "dram bytes went from 8e+06 to 4e+06" in RuleJudge().review(HONEST).diagnosis
