"""Few warps fit on a multiprocessor, so waiting is not hidden."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, percent
from optiml_core.records import Finding
from optiml_core.toolchain import occupancy

KIND = "low-occupancy"
MOST = 0.5  # theoretical occupancy


def find(context: FindingContext) -> tuple[Finding, ...]:
    """A finding at the kernel's name when at most half of the warps that a multiprocessor holds can be resident."""
    gpu, launch, resources = context.gpu, context.launch, context.profile.resources
    fraction = context.metrics.get("theoretical_occupancy")
    if gpu is None or launch is None or fraction is None or fraction > MOST:
        return ()
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    registers = resources.registers if resources is not None else 32
    shared = launch.shared + (resources.shared if resources is not None else 0)
    fit = occupancy(gpu, threads, registers, shared)
    reasons = {
        "registers": f"{registers} registers a thread",
        "shared": f"{shared} bytes of shared memory a block",
        "blocks": f"blocks of only {threads} threads",
        "warps": f"blocks of {threads} threads",
        "barriers": "the barriers it uses",
    }
    why = " and ".join(reasons[name] for name in fit.limited_by)
    resident = context.metrics.get("resident_blocks", 1.0)
    wanted = resident / max(fraction, 1 / 64)
    # More resident blocks help only if the grid has them.
    available = context.metrics.get("blocks", 1.0) / gpu.multiprocessors
    gain = context.gain_if({"resident_blocks": max(resident, min(wanted, available))})
    message = (
        f"{why} leave room for {fit.warps} of {gpu.warps_per_multiprocessor} warps a multiprocessor "
        f"({percent(fit.fraction)} occupancy)"
    )
    evidence: dict[str, float | str] = {
        "theoretical_occupancy": fit.fraction,
        "limited_by": ", ".join(fit.limited_by),
        "registers": float(registers),
        "shared_bytes": float(shared),
        "threads_per_block": float(threads),
    }
    return (context.finding(KIND, context.kernel.name_range, message, evidence, gain, ("launch-shape",)),)
