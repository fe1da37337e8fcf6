"""From a variant to a profile: sampling, compiling, predicting, and every way in which it can fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Built, Contents, RunOptions, RunResult
from optiml_core.profiling import Profiler, profile_on_device
from optiml_core.profiling.machine_code.ptx import read_ptx
from optiml_core.profiling.sampling import SampleBudget, sample_blocks, sample_counts
from optiml_core.profiling.source_loops import loop_trips, trip_count
from optiml_core.records import AccessCounts, Failure, Launch, LaunchChange, Profile, Variant
from optiml_core.source import SourceFile, loops, parse
from optiml_core.toolchain import CompilePool, GpuFacts, Toolchain
from optiml_core.workload import find_workload
from tests.profiling.conftest import ProfileText

KERNELS = Path(__file__).parents[2] / "benchmarks" / "prediction" / "kernels"

# ------------------------------------------------------------------------------------ sampling


@given(st.tuples(st.integers(1, 3000), st.integers(1, 50), st.integers(1, 5)), st.integers(1, 12))
def test_sampled_blocks_are_distinct_and_inside(grid: tuple[int, int, int], count: int) -> None:
    total = grid[0] * grid[1] * grid[2]
    blocks = sample_blocks(grid, count)
    assert list(blocks) == sorted(set(blocks))
    assert len(blocks) == min(count, total)
    assert all(0 <= block < total for block in blocks)


def test_a_sample_holds_neighbours_both_ways_and_the_ends() -> None:
    blocks = sample_blocks((100, 50, 1), 8)
    middle = 2500
    assert {0, middle, middle + 1, middle + 100, 4999} <= set(blocks)
    assert sample_blocks((100, 50, 1), 1) == (middle,)


class CountingDevice:
    """Answers as if each warp cost ``cost`` accesses, and remembers what it was asked."""

    def __init__(self, cost: int, warps: int = 4, private: bool = True) -> None:
        self.cost, self.warps, self.private = cost, warps, private
        self.asked: list[tuple[int, int]] = []

    def run_sampled(self, built: Built, launch: Launch, options: RunOptions) -> RunResult | Failure:
        assert options.blocks is not None
        assert options.counts
        assert not options.checks
        ran = -(-self.warps // options.warp_stride)
        self.asked.append((len(options.blocks), ran))
        completed = min(len(options.blocks), options.steps // (self.cost * ran))
        metrics = {"accesses": float(self.cost * ran * completed), "blocks_completed": float(completed)}
        metrics |= {"warp_steps": 10.0 * ran * completed, "barriers": 3.0 * completed, "longest_warp": 10.0}
        lines = 40 * (ran if self.private else 1) * completed
        access = AccessCounts(
            1, "load", "global", 4, 10 * ran * completed, 320 * ran, 1280 * ran, 40 * ran * completed,
            distinct_sectors=lines, sector_reuse=(lines,) * 21, request_reuse=(10 * ran * completed,) * 21, buffer="x",
        )  # fmt: skip
        return RunResult({}, (), True, (access,), metrics)


BUILT = Built("t", Variant("k.cu", b"", "k"))


def launch_of(blocks: int, threads: int = 128) -> Launch:
    return Launch((blocks, 1, 1), (threads, 1, 1), 0, ())


@pytest.mark.parametrize(
    ("cost", "blocks", "asked", "counted"),
    [
        (1000, 10_000, [(1, 1), (8, 4)], 8),  # cheap blocks: as many as are useful
        (1000, 3, [(1, 1), (3, 4)], 3),
        (250_000, 10_000, [(1, 1), (3, 4)], 3),  # three are worth their cost
        (700_000, 10_000, [(1, 1), (1, 4)], 1),
        (1_200_000, 10_000, [(1, 1), (1, 2)], 1),  # half of the warps of one block
        (10_000_000, 10_000, [(1, 1)], 1),  # one warp has to do
    ],
)
def test_the_budget_decides_what_runs(cost: int, blocks: int, asked: list[tuple[int, int]], counted: int) -> None:
    device = CountingDevice(cost)
    counts = sample_counts(device, BUILT, launch_of(blocks))
    assert not isinstance(counts, Failure)
    assert device.asked == asked
    assert counts.blocks_run == counted
    # Whatever ran, the counts are those of whole blocks.
    assert counts.accesses[0].requests == 40 * counted
    assert counts.metrics["warp_steps"] == 40 * counted
    assert counts.metrics["barriers"] == 3 * counted


@pytest.mark.parametrize(("private", "sectors"), [(True, 160), (False, 40)])
def test_what_warps_share_does_not_grow_with_them(private: bool, sectors: int) -> None:
    counts = sample_counts(CountingDevice(1_200_000, private=private), BUILT, launch_of(100))
    assert not isinstance(counts, Failure)
    assert counts.warp_share == 0.5
    assert counts.accesses[0].sectors == 160
    assert counts.accesses[0].sector_reuse[-1] == sectors
    assert counts.accesses[0].distinct_sectors == sectors


def test_a_warp_beyond_the_budget_is_cut_off_and_says_so() -> None:
    counts = sample_counts(CountingDevice(10**9), BUILT, launch_of(100), SampleBudget(most_accesses=10**6))
    assert not isinstance(counts, Failure)
    assert counts.metrics["cut_off"] == 1.0


# ---------------------------------------------------------------------------------- source loops


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("for (int i = 0; i < n; i++)", 100),
        ("for (int i = threadIdx.x; i < n; i += blockDim.x)", 4),
        ("for (int i = 0; i < 600; i++)", 600),
        ("for (int s = blockDim.x / 2; s > 0; s /= 2)", None),
        ("while (n > 0)", None),
        ("for (int i = 0; i < x[0]; i++)", None),
    ],
)
def test_iterations_by_the_head_of_a_loop(head: str, expected: float | None) -> None:
    text = f"__global__ void k(float* x, int n) {{ {head} {{ x[0] += 1.0f; }} }}"
    unit = parse(SourceFile("k.cu", text.encode()))
    (loop,) = loops(unit, unit.kernels[0])
    names = {"n": 100, "blockDim.x": 32, "threadIdx.x": 0}
    assert trip_count(loop, names) == expected


def test_machine_loops_take_their_iterations_from_the_source() -> None:
    text = (
        "__global__ void k(float* x) {\n  float v = x[0];\n  for (int i = 0; i < 300; i++) {\n    v = v * v;\n  }\n}\n"
    )
    unit = parse(SourceFile("k.cu", text.encode()))
    ptx = """
.visible .entry k(
)
{
	.loc	1 2 3
	ld.global.f32 	%f1, [%rd1];
$L__BB0_1:
	.loc	1 4 5
	mul.f32 	%f1, %f1, %f1;
	mul.f32 	%f1, %f1, %f1;
	mul.f32 	%f1, %f1, %f1;
	.loc	1 3 5
	@%p1 bra 	$L__BB0_1;
	.loc	1 6 5
$L__BB0_2:
	@%p1 bra 	$L__BB0_2;
	ret;
}
	.file	1 "k.cu"
"""
    code = read_ptx(ptx, "k.cu", "k")
    assert code is not None
    trips = loop_trips(code, unit, unit.kernels[0], Launch((1, 1, 1), (32, 1, 1), 0, ()))
    assert trips == {0: 300.0}


def test_an_unrolled_loop_and_its_remainder_share_the_iterations() -> None:
    text = (
        "__global__ void k(float* x) {\n  float v = x[0];\n  for (int i = 0; i < 400; i++) {\n    v = v * v;\n  }\n}\n"
    )
    unit = parse(SourceFile("k.cu", text.encode()))
    multiply, count = "\tmul.f32 \t%f1, %f1, %f1;\n", "\tadd.s32 \t%r1, %r1, 1;\n\tsetp.ne.s32 \t%p1, %r1, 0;\n"
    ptx = (
        ".visible .entry k(\n)\n{\n\t.loc\t1 4 5\n$L__BB0_1:\n" + 4 * multiply + count + "\t@%p1 bra \t$L__BB0_1;\n"
        "$L__BB0_2:\n" + multiply + count + '\t@%p1 bra \t$L__BB0_2;\n\tret;\n}\n\t.file\t1 "k.cu"\n'
    )
    code = read_ptx(ptx, "k.cu", "k")
    assert code is not None
    trips = loop_trips(code, unit, unit.kernels[0], Launch((1, 1, 1), (32, 1, 1), 0, ()))
    assert trips == {0: 100.0, 1: 0.0}


# -------------------------------------------------------------------------------------- profiles

COPY = """// optiml: n = 1048576, in[n]: normal, out[n], block = 256, grid = n / 256
__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
"""


def test_a_profile_is_scaled_to_the_whole_launch(profiled: ProfileText) -> None:
    profile = profiled(COPY).profile
    metrics = profile.metrics
    assert (profile.origin, profile.target, profile.time_kind) == ("emulator", "NVIDIA H200", "predicted")
    assert metrics["blocks"] == 4096
    assert metrics["warps"] == 32768
    assert metrics["global_requests"] == 2 * 32768
    assert metrics["global_sectors"] == 2 * 4 * 32768
    assert metrics["l2_read_bytes"] == metrics["l2_write_bytes"] == 4 * 1048576
    assert metrics["compulsory_bytes"] == 8 * 1048576
    assert metrics["dram_bytes"] == 0  # 8 MiB stay in L2
    assert profile.line_metrics[4]["requests"] == 2 * 32768
    assert profile.time is not None
    assert 2e-6 < profile.time < 2e-5


def test_the_first_launch_pays_for_dram(profiled: ProfileText) -> None:
    assert profiled(COPY, warm=False).profile.metrics["dram_read_bytes"] == 4 * 1048576


def test_machine_code_and_ptx_tell_nearly_the_same(profiled: ProfileText, has_compiler: bool) -> None:
    if not has_compiler:
        pytest.skip("needs the CUDA compiler wheels (extra `cuda`)")
    rough, exact = profiled(COPY).profile, profiled(COPY, reading="sass").profile
    assert rough.resources == exact.resources
    assert rough.resources is not None
    assert rough.metrics["warp_instructions"] == pytest.approx(exact.metrics["warp_instructions"], rel=0.35)
    assert rough.time == pytest.approx(exact.time, rel=0.2)


def test_a_row_of_50257_floats_times_8192_rows_takes_less_than_ten_seconds(profiled: ProfileText) -> None:
    text = (KERNELS / "softmax_row_per_thread.cu").read_text()
    started = time.monotonic()
    profile = profiled(text).profile
    assert time.monotonic() - started < 10.0
    assert profile.metrics["global_requests"] == pytest.approx(5 * 50257 * 256, rel=0.01)
    assert profile.time is not None
    # Measured on an H200: 78.9 ms.
    assert 0.03 < profile.time < 0.2


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        ("transpose_unpadded", "transpose_padded_4096"),
        ("gelu_double", "gelu_scalar"),
        ("matvec_row_per_thread", "matvec_warp_per_row"),
        ("histogram_global", "histogram_shared"),
        ("copy_strided", "copy_scalar"),
        ("copy_scalar", "copy_vector"),
    ],
)
def test_the_version_that_an_h200_measured_faster_is_predicted_faster(
    slow: str, fast: str, profiled: ProfileText, has_compiler: bool
) -> None:
    if not has_compiler:
        pytest.skip("needs the CUDA compiler wheels (extra `cuda`)")

    def time_of(name: str) -> float:
        if name == "transpose_padded_4096":
            text = (KERNELS / "transpose_padded.cu").read_text().replace("1024", "4096")
        else:
            text = (KERNELS / f"{name}.cu").read_text()
        time = profiled(text).profile.time
        assert time is not None
        return time

    assert time_of(slow) > 1.05 * time_of(fast)


# -------------------------------------------------------------------------------------- failures


def variant(text: str, **more: object) -> Variant:
    return Variant("kernel.cu", text.encode(), "k", **more)  # type: ignore[arg-type]


def profile_of(
    text: str, emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool, **more: object
) -> Profile | Failure:
    unit = parse(SourceFile("kernel.cu", text.encode()))
    workload = find_workload(unit, unit.kernels[-1])
    return profile_on_device(variant(text, **more), workload, emulator, gpu, toolchain, pool=pool)


def test_code_that_no_compiler_takes_is_a_failure_with_its_line(
    emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool
) -> None:
    result = profile_of(COPY.replace("out[i] = in[i]", "out[i] = inn[i]"), emulator, gpu, toolchain, pool)
    assert isinstance(result, Failure)
    assert result.kind == "compile-error"
    assert result.line == 4


def test_a_launch_that_cannot_be_is_a_failure(
    emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool
) -> None:
    result = profile_of(COPY.replace("block = 256", "block = 2048"), emulator, gpu, toolchain, pool)
    assert isinstance(result, Failure)


def test_a_changed_launch_is_what_is_profiled(
    emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool
) -> None:
    change = LaunchChange(grid=("grid.x * 2", "1", "1"), block=("128", "1", "1"))
    result = profile_of(COPY, emulator, gpu, toolchain, pool, launch_change=change)
    assert isinstance(result, Profile)
    assert result.metrics["blocks"] == 8192
    assert result.metrics["threads_per_block"] == 128


class DeviceThatOnlyRuns:
    """A device without counts, as a GPU is."""

    name = "cuda:0"

    def build(self, variant: Variant, template_arguments: object = (), widened: bool = False) -> Built:
        return BUILT

    def run(self, built: Built, launch: Launch, contents: Contents, options: RunOptions) -> Failure:
        return Failure("crash", "not asked for")

    def close(self) -> None:
        return None


def test_a_device_that_cannot_count_says_what_would(gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool) -> None:
    unit = parse(SourceFile("kernel.cu", COPY.encode()))
    workload = find_workload(unit, unit.kernels[-1])
    result = profile_on_device(variant(COPY), workload, DeviceThatOnlyRuns(), gpu, toolchain, pool=pool)  # type: ignore[arg-type]
    assert isinstance(result, Failure)
    assert result.kind == "unsupported"
    assert "emulator" in result.cure


def test_without_a_compiler_there_is_still_a_prediction(
    emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain
) -> None:
    from attrs import evolve

    nothing = {
        name: evolve(tool, path=None, reason="not here") if name in ("nvrtc", "nvcc", "nvdisasm") else tool
        for name, tool in toolchain.tools.items()
    }
    bare = evolve(toolchain, tools=nothing)
    unit = parse(SourceFile("kernel.cu", COPY.encode()))
    workload = find_workload(unit, unit.kernels[-1])
    with CompilePool(bare, 1) as pool, Profiler(emulator, gpu, bare, pool) as profiler:
        result = profiler.profile(variant(COPY), workload)
    assert isinstance(result, Profile)
    assert result.resources is None
    assert result.time is not None
    assert 2e-6 < result.time < 3e-5
