"""Runs some blocks of a launch on the emulator and counts: how many, which, and within which budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from attrs import frozen

from optiml_core.device.protocol import Built, RunOptions, RunResult
from optiml_core.profiling.assemble import SampledCounts, total_blocks
from optiml_core.records import Failure, Launch


@runtime_checkable
class SamplingDevice(Protocol):
    """What sampling needs of a device: the emulator has it."""

    def run_sampled(self, built: Built, launch: Launch, options: RunOptions) -> RunResult | Failure:
        """Counts some blocks of a launch of any size; see ``EmulatorDevice.run_sampled``."""
        ...


@frozen
class SampleBudget:
    """``accesses`` (of single lanes) that are worth spending on several blocks; ``most_accesses`` after which one
    block is cut off; ``seconds`` for one run; ``blocks`` at most."""

    accesses: int = 3_000_000
    most_accesses: int = 24_000_000
    seconds: float = 8.0
    blocks: int = 8


DEFAULT_BUDGET = SampleBudget()


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
    """Counts of as many blocks as the budget allows: one first to see what a block costs, then several.

    A block that is still not done after ``most_accesses`` gives the counts of what it did, with ``cut_off`` 1.0 in the
    metrics: the part of the loops that was not seen is missing from them.
    """
    first = _run(device, built, launch, sample_blocks(launch.grid, 1), budget)
    if isinstance(first, Failure):
        return first
    if first.blocks_run == 0:
        return SampledCounts(first.accesses, {**first.metrics, "cut_off": 1.0}, 1)
    cost = max(1.0, first.metrics.get("accesses", 0.0))
    affordable = int(min(budget.blocks, total_blocks(launch), budget.accesses // cost))
    if affordable <= 1:
        return first
    several = _run(device, built, launch, sample_blocks(launch.grid, affordable), budget)
    if isinstance(several, Failure):
        return several
    # The blocks cost more than the first one did, so much that not one of them ended.
    return several if several.blocks_run else first


def _run(
    device: SamplingDevice, built: Built, launch: Launch, blocks: Sequence[int], budget: SampleBudget
) -> SampledCounts | Failure:
    options = RunOptions(
        checks=False, counts=True, blocks=tuple(blocks), seconds=budget.seconds, steps=budget.most_accesses
    )
    result = device.run_sampled(built, launch, options)
    if isinstance(result, Failure):
        return result
    refused = [fault for fault in result.faults if fault.kind in ("launch-limit", "assertion", "deadlock")]
    if refused:
        return Failure("refused", f"the sampled run stopped: {refused[0].note}", line=refused[0].line)
    completed = int(result.metrics.get("blocks_completed", result.metrics.get("blocks", len(blocks))))
    return SampledCounts(result.accesses, result.metrics, completed)
