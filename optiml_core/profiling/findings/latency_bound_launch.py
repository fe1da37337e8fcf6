"""The launch has too few blocks or warps to fill the GPU."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext
from optiml_core.records import Finding, SourceRange

KIND = "latency-bound-launch"
LEAST_WARPS_SHARE = 0.25  # of the warps that the GPU could hold


def find(context: FindingContext) -> tuple[Finding, ...]:
    """A finding at the launch when multiprocessors stay empty or hold a quarter of their warps at most."""
    gpu, launch = context.gpu, context.launch
    blocks = context.metrics.get("blocks")
    warps = context.metrics.get("warps")
    if gpu is None or launch is None or blocks is None or warps is None:
        return ()
    possible = gpu.multiprocessors * gpu.warps_per_multiprocessor
    held = context.metrics.get("achieved_occupancy", 1.0)
    theoretical = context.metrics.get("theoretical_occupancy", 1.0)
    idle = blocks < gpu.multiprocessors
    if not idle and (held > LEAST_WARPS_SHARE or held >= 0.9 * theoretical):
        return ()
    if context.share_of_time("latency") < 0.5 and not idle:
        return ()
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    # As if the same work were spread over all multiprocessors, four warps on each scheduler.
    wanted = min(possible, 16.0 * gpu.multiprocessors)
    factor = max(1.0, wanted / warps)
    cycles = context.metrics.get("warp_cycles", 0.0)
    more_blocks = max(blocks, min(blocks * factor, 8.0 * gpu.multiprocessors))
    changes = {"blocks": more_blocks, "warps": max(warps, warps * more_blocks / blocks)}
    gain = context.gain_if(changes | context.with_shorter_warps(cycles * (1.0 - 1.0 / factor)))
    if idle:
        message = (
            f"{blocks:.0f} blocks leave {gpu.multiprocessors - blocks:.0f} of {gpu.multiprocessors} "
            "multiprocessors without work"
        )
    else:
        message = f"{warps:.0f} warps are {100 * warps / possible:.0f} % of what the GPU holds: too few to hide waiting"
    evidence: dict[str, float | str] = {
        "blocks": blocks,
        "warps": warps,
        "multiprocessors": float(gpu.multiprocessors),
        "achieved_occupancy": held,
        "threads_per_block": float(threads),
    }
    rewrites = ("launch-shape", "parallel-row", "coarsen-grid-stride")
    return (context.finding(KIND, _launch_range(context), message, evidence, gain, rewrites),)


def _launch_range(context: FindingContext) -> SourceRange:
    sites = context.unit.launches_of(context.kernel)
    return sites[0].range if sites else context.kernel.name_range
