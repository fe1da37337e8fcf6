"""Profiles a variant: runs some of its blocks with counts, compiles it, and puts both together."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from optiml_core.device.protocol import Built, Contents, Device, RunOptions, RunResult
from optiml_core.profiling.assemble import ModelInputs, SampledCounts, assemble_profile, buffer_sizes, total_blocks
from optiml_core.records import Failure, Launch, Profile, Variant
from optiml_core.toolchain import GpuFacts, Toolchain
from optiml_core.workload import Workload, make_contents, resolve_launch

# Accesses (of single lanes) that a sample may cost, and seconds.
SAMPLE_ACCESSES = 4_000_000
SAMPLE_SECONDS = 8.0
MOST_BLOCKS = 8
# Buffers larger than this together are never filled just to count accesses.
MOST_BYTES = 1 << 30


def profile_on_device(
    variant: Variant,
    workload: Workload,
    device: Device,
    gpu: GpuFacts,
    toolchain: Toolchain,
    *,
    index: int = 0,
    warm: bool = True,
) -> Profile | Failure:
    """A profile of launch ``index`` of the workload as ``variant`` makes it, with a predicted time for ``gpu``.

    ``warm``: the launch finds in L2 what an earlier one left there, as in a loop of launches.
    """
    launch = resolve_launch(workload, index, None, variant.launch_change)
    if isinstance(launch, Failure):
        return launch
    built = device.build(variant, launch.template_arguments)
    if isinstance(built, Failure):
        return built
    counts = sample_counts(device, built, launch)
    if isinstance(counts, Failure):
        return counts
    return assemble_profile(
        counts, ModelInputs(kernel=variant.kernel, gpu=gpu, launch=launch, resources=built.resources, warm=warm)
    )


def sample_blocks(grid: tuple[int, int, int], count: int) -> tuple[int, ...]:
    """At most ``count`` linear block numbers of a grid.

    One in the middle, its neighbours in x and in y (they show what blocks share), the first, the last, and
    others evenly between them.
    """
    total = grid[0] * grid[1] * grid[2]
    if total <= count:
        return tuple(range(total))
    middle = total // 2
    chosen = [middle]
    wanted = [middle + 1, middle + grid[0] if grid[1] > 1 else middle + 2, total - 1, 0]
    wanted += [round(i * (total - 1) / max(1, count - 1)) for i in range(1, count - 1)]
    for block in wanted:
        if len(chosen) < count and 0 <= block < total and block not in chosen:
            chosen.append(block)
    return tuple(sorted(chosen))


def sample_counts(device: Device, built: Built, launch: Launch) -> SampledCounts | Failure:
    """Runs as many blocks as the budget of accesses allows, one first to see what a block costs."""
    if sum(buffer_sizes(launch).values()) > MOST_BYTES:
        return Failure("unsupported", "the buffers of this launch are too large to count its accesses here")
    made = make_contents(launch, seed=0)
    if isinstance(made, Failure):
        return made
    contents = Contents(made)
    total = total_blocks(launch)
    first = _run(device, built, launch, contents, sample_blocks(launch.grid, 1))
    if isinstance(first, Failure):
        return first
    cost = max(1.0, first.metrics.get("accesses", 0.0))
    affordable = int(min(MOST_BLOCKS, total, SAMPLE_ACCESSES // cost))
    if affordable <= 1:
        return SampledCounts(first.accesses, first.metrics, 1)
    blocks = sample_blocks(launch.grid, affordable)
    several = _run(device, built, launch, contents, blocks)
    if isinstance(several, Failure):
        return several
    return SampledCounts(several.accesses, several.metrics, len(blocks))


def _run(
    device: Device, built: Built, launch: Launch, contents: Contents, blocks: Sequence[int]
) -> RunResult | Failure:
    options = RunOptions(checks=False, counts=True, blocks=tuple(blocks), seconds=SAMPLE_SECONDS)
    result = device.run(built, launch, contents, options)
    if isinstance(result, RunResult):
        stopped = [fault for fault in result.faults if fault.kind in ("step-limit", "launch-limit", "assertion")]
        if stopped:
            return Failure("refused", f"the sampled run stopped: {stopped[0].note}", line=stopped[0].line)
    return result


def without_time(profile: Profile) -> Profile:
    """The same counts with no time, for callers that hold a measured one."""
    return evolve(profile, time=None, time_kind=None)
