"""Runs some blocks of a launch on the emulator and counts: how many, which, and within which budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from attrs import evolve, frozen

from optiml_core.device.protocol import Built, RunOptions, RunResult
from optiml_core.profiling.assemble import SampledCounts, threads_per_block, total_blocks
from optiml_core.profiling.traffic import scaled
from optiml_core.records import AccessCounts, Failure, Launch


@runtime_checkable
class SamplingDevice(Protocol):
    """What sampling needs of a device: the emulator has it."""

    def run_sampled(self, built: Built, launch: Launch, options: RunOptions) -> RunResult | Failure:
        """Counts some blocks of a launch of any size; see ``EmulatorDevice.run_sampled``."""
        ...


@frozen
class SampleBudget:
    """What counting may cost: ``accesses`` (of single lanes) that are worth spending, ``most_accesses`` after which a
    run is cut off, ``seconds`` for one run; ``blocks`` at most."""

    accesses: int = 3_000_000
    most_accesses: int = 12_000_000
    seconds: float = 8.0
    blocks: int = 8


DEFAULT_BUDGET = SampleBudget()
MOST_STRIDE = 255


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


def sample_counts(
    device: SamplingDevice, built: Built, launch: Launch, budget: SampleBudget = DEFAULT_BUDGET
) -> SampledCounts | Failure:
    """Counts of as many blocks, or as many warps of one block, as the budget allows.

    One warp of the middle block shows what a block costs. A launch whose single warp does not end within
    ``most_accesses`` gives the counts of what the warp did, with ``cut_off`` 1.0 in the metrics: what it would
    have done later is missing from them.
    """
    warps = -(-threads_per_block(launch) // 32)
    stride = min(warps, MOST_STRIDE)
    probe = _run(device, built, launch, sample_blocks(launch.grid, 1), stride, budget)
    if isinstance(probe, Failure):
        return probe
    probed = -(-warps // stride)
    one = max(1.0, probe.metrics.get("accesses", 0.0) / probed)
    if probe.blocks_run == 0:
        return widened(evolve(probe, metrics={**probe.metrics, "cut_off": 1.0}), probed, None, 1, warps)
    affordable = int(min(budget.blocks, total_blocks(launch), budget.accesses // (one * warps)))
    if affordable >= 1:
        whole = _run(device, built, launch, sample_blocks(launch.grid, affordable), 1, budget)
        # The middle warp may have left early where others work: then the whole blocks are cut off.
        if isinstance(whole, Failure) or whole.blocks_run:
            return whole
    chosen = int(max(1, min(warps, budget.accesses // one)))
    stride = min(-(-warps // chosen), MOST_STRIDE)
    chosen = -(-warps // stride)
    if chosen <= probed:
        return widened(probe, probed, None, 1, warps)
    part = _run(device, built, launch, sample_blocks(launch.grid, 1), stride, budget)
    if isinstance(part, Failure):
        return part
    return widened(part, chosen, probe, probed, warps) if part.blocks_run else widened(probe, probed, None, 1, warps)


def widened(counts: SampledCounts, ran: int, fewer: SampledCounts | None, fewer_ran: int, warps: int) -> SampledCounts:
    """The counts of one block from those of ``ran`` of its ``warps`` warps.

    Requests grow with the warps. What caches miss grows with them only as far as warps touch lines of their own: how
    far shows in the counts of ``fewer`` warps (None: taken to be their own).
    """
    factor = warps / ran
    before = {_site(access): access for access in fewer.accesses} if fewer is not None else {}

    def grown(many: int, few: int | None) -> int:
        if few is None or few <= 0 or ran <= fewer_ran:
            return round(many * factor)
        each = (many / few - 1.0) / (ran / fewer_ran - 1.0)
        return round(many * (1.0 + (factor - 1.0) * min(1.0, max(0.0, each))))

    def grown_curve(many: Sequence[int], few: Sequence[int]) -> tuple[int, ...]:
        return tuple(grown(entry, few[index] if few else None) for index, entry in enumerate(many))

    accesses = []
    for access in counts.accesses:
        old = before.get(_site(access))
        distinct = access.distinct_sectors
        if distinct > 0:
            distinct = grown(distinct, old.distinct_sectors if old is not None else None)
        accesses.append(
            evolve(
                scaled(access, factor),
                distinct_sectors=distinct,
                sector_reuse=grown_curve(access.sector_reuse, old.sector_reuse if old is not None else ()),
                request_reuse=grown_curve(access.request_reuse, old.request_reuse if old is not None else ()),
            )
        )
    metrics = {name: value * (factor if name in _OF_WARPS else 1.0) for name, value in counts.metrics.items()}
    return SampledCounts(tuple(accesses), metrics, 1, ran / warps)


_OF_WARPS = frozenset(
    {"accesses", "warp_steps", "divergent_branches", "collectives", "local_accesses", "switches", "threads"}
)


def _site(access: AccessCounts) -> tuple[int, str, str, int, str]:
    return access.line, access.kind, access.space, access.size, access.buffer


def _run(
    device: SamplingDevice, built: Built, launch: Launch, blocks: Sequence[int], stride: int, budget: SampleBudget
) -> SampledCounts | Failure:
    options = RunOptions(
        checks=False, counts=True, blocks=tuple(blocks), warp_stride=stride, seconds=budget.seconds,
        steps=budget.most_accesses,
    )  # fmt: skip
    result = device.run_sampled(built, launch, options)
    if isinstance(result, Failure):
        return result
    refused = [fault for fault in result.faults if fault.kind in ("launch-limit", "assertion", "deadlock")]
    if refused:
        return Failure("refused", f"the sampled run stopped: {refused[0].note}", line=refused[0].line)
    completed = int(result.metrics.get("blocks_completed", result.metrics.get("blocks", len(blocks))))
    return SampledCounts(result.accesses, result.metrics, completed)
