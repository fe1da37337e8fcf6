"""Each kind of finding: found where it was planted, not found in the twin, well formed everywhere."""

from __future__ import annotations

import pytest

from optiml_core.profiling import find_findings, static_profile
from optiml_core.records import BOTTLENECK_KINDS, Finding
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import GpuFacts
from tests.profiling.conftest import Profiled, ProfileText
from tests.profiling.finding_cases import CASES, FindingCase

REWRITES = {
    "launch-shape", "swap-thread-roles", "shared-tile-transpose", "pad-shared", "register-accumulator",
    "restrict-readonly", "vectorize-access", "unroll-loop", "coarsen-grid-stride", "shuffle-reduction", "parallel-row",
    "privatize-atomics", "register-tile-matmul", "float-literals", "load-ahead", "recompute-element", "online-softmax",
    "unroll-and-jam", "keep-row",
}  # fmt: skip


def check_well_formed(result: Profiled) -> None:
    for finding in result.findings:
        assert finding.kind in BOTTLENECK_KINDS
        assert finding.rewrites
        assert set(finding.rewrites) <= REWRITES
        assert finding.evidence
        assert finding.message
        assert finding.estimated_gain is None or finding.estimated_gain >= 1.0
        assert 0 <= finding.range.start_byte < finding.range.end_byte <= len(result.unit.source.data)
        assert finding.range.start_line == 1 + result.unit.source.data[: finding.range.start_byte].count(b"\n")
    order = [{"high": 0, "medium": 1, "low": 2}[finding.severity] for finding in result.findings]
    assert order == sorted(order)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_planted_bottleneck_is_found_and_its_twin_is_clean(
    case: FindingCase, profiled: ProfileText, has_compiler: bool
) -> None:
    if case.needs_compiler and not has_compiler:
        pytest.skip("needs the CUDA compiler wheels (extra `cuda`)")
    result = profiled(case.text)
    check_well_formed(result)
    found = [finding for finding in result.findings if finding.kind == case.kind]
    here = [finding for finding in found if finding.range.start_line == case.line]
    assert here, (case.kind, result.findings)
    assert any(case.words in finding.message for finding in here), [finding.message for finding in here]
    assert any(case.rewrite in finding.rewrites for finding in here)
    if case.twin is not None:
        twin = profiled(case.twin)
        check_well_formed(twin)
        assert case.kind not in twin.kinds(), twin.findings
        assert result.profile.time is not None
        assert twin.profile.time is not None


@pytest.mark.parametrize(
    "name",
    [
        "strided store",
        "strided load by every row",
        "column of a square tile",
        "one float a thread",
        "one counter for all",
    ],
)
def test_a_serious_bottleneck_comes_first_and_promises_a_gain(name: str, profiled: ProfileText) -> None:
    case = next(case for case in CASES if case.name == name)
    result = profiled(case.text)
    first = [finding for finding in result.findings if finding.severity == result.findings[0].severity]
    assert case.kind in {finding.kind for finding in first}
    assert result.findings[0].estimated_gain is not None
    assert result.findings[0].estimated_gain > 1.2


def test_a_tuned_kernel_has_nothing_serious(profiled: ProfileText) -> None:
    twin = next(case for case in CASES if case.name == "one float a thread").twin
    assert twin is not None
    assert [finding for finding in profiled(twin).findings if finding.severity != "low"] == []


def test_ranges_name_the_code_not_the_blanks_before_it(profiled: ProfileText) -> None:
    result = profiled(CASES[0].text)
    finding = next(finding for finding in result.findings if finding.kind == "uncoalesced-access")
    assert result.text_of(finding) == "out[x * n + y]"


def test_machine_code_names_the_line_that_spills(profiled: ProfileText, has_compiler: bool) -> None:
    if not has_compiler:
        pytest.skip("needs the CUDA compiler wheels (extra `cuda`)")
    case = next(case for case in CASES if case.kind == "register-spill")
    result = profiled(case.text, reading="sass")
    spill = next(finding for finding in result.findings if finding.kind == "register-spill")
    assert 4 <= spill.range.start_line <= 8
    assert "most of them in line" in spill.message


def test_without_a_run_the_source_still_shows_doubles(gpu: GpuFacts) -> None:
    text = next(case for case in CASES if case.kind == "accidental-double").text
    unit = parse(SourceFile("kernel.cu", text.encode()))
    kernel = unit.kernels[-1]
    profile = static_profile(unit, kernel, None, gpu)
    found: tuple[Finding, ...] = find_findings(profile, unit, kernel, None)
    assert [(finding.kind, finding.range.start_line, finding.origin) for finding in found] == [
        ("accidental-double", 4, "static")
    ]


@pytest.mark.parametrize(
    "body",
    [
        "out[i] = in[i] * 0.3f;",
        "out[i] = in[i]; /* 0.3 */",
        'printf("0.3\\n");',
        "double d = in[i]; out[i] = d * 0.3;",
        "out[i] = in[i] * 3;",
        "out[i] = in[i] * 0x1p-3f;",
        "float sum = 0.0; out[i] = sum + in[i];",
        "float low = -1.5; out[i] = low;",
        "out[i] = fmaxf(in[i], 0.0);",
    ],
)
def test_doubles_that_are_meant_or_are_none_are_not_reported(body: str, gpu: GpuFacts) -> None:
    text = f"__global__ void k(const float* in, float* out) {{ int i = threadIdx.x; {body} }}"
    unit = parse(SourceFile("kernel.cu", text.encode()))
    kernel = unit.kernels[-1]
    assert find_findings(static_profile(unit, kernel, None, gpu), unit, kernel, None) == ()


@pytest.mark.parametrize(
    "body", ["out[i] = 2.0 * in[i];", "out[i] = in[i] / 3.0;", "out[i] = in[i] - 1e-3;", "if (in[i] > .5) out[i] = 1;"]
)
def test_a_double_operand_is_reported_without_a_compiler(body: str, gpu: GpuFacts) -> None:
    text = f"__global__ void k(const float* in, float* out) {{ int i = threadIdx.x; {body} }}"
    unit = parse(SourceFile("kernel.cu", text.encode()))
    kernel = unit.kernels[-1]
    found = find_findings(static_profile(unit, kernel, None, gpu), unit, kernel, None)
    assert [finding.kind for finding in found] == ["accidental-double"]


STATIC = """__global__ void k(const float* in, float* out, int n) {
  __shared__ float t[32][32];
  int x = threadIdx.x, y = threadIdx.y;
  t[y][x] = in[y * n + x];
  __syncthreads();
  out[x * n + y] = t[x][y];
  out[4 * x] = in[0];
  out[x] = in[in[x] > 0 ? x : 0];
}
"""


def test_without_a_run_indices_show_strides_and_conflicts(gpu: GpuFacts) -> None:
    unit = parse(SourceFile("kernel.cu", STATIC.encode()))
    kernel = unit.kernels[-1]
    profile = static_profile(unit, kernel, None, gpu)
    assert profile.time is None
    found = find_findings(profile, unit, kernel, None)
    assert [(finding.kind, finding.range.start_line) for finding in found] == [
        ("uncoalesced-access", 6),
        ("shared-bank-conflict", 6),
        ("uncoalesced-access", 7),
    ]
    assert "28 of 32 bytes per sector wasted" in found[0].message
    assert "24 of 32 bytes per sector wasted" in found[2].message
    assert "32.0 passes where 1 would do" in found[1].message
    assert {finding.estimated_gain for finding in found} == {None}
    assert {finding.origin for finding in found} == {"static"}
