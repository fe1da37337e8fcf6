"""Values that did not fit into registers go through local memory."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, line_range
from optiml_core.records import Finding, SourceRange

KIND = "register-spill"


def find(context: FindingContext) -> tuple[Finding, ...]:
    """One finding at the line that spills most (the kernel's name if no line is known)."""
    resources = context.profile.resources
    if resources is None or resources.spill_stores + resources.spill_loads == 0:
        return ()
    metrics = context.metrics
    lines = {
        line: values["local_memory_lines"]
        for line, values in context.profile.line_metrics.items()
        if "local_memory_lines" in values
    }
    place: SourceRange = context.kernel.name_range
    where = ""
    if lines:
        line = max(lines, key=lambda number: lines[number])
        place, where = line_range(context, line), f", most of them in line {line}"
    local = metrics.get("local_memory_lines", 0.0)
    gain = context.gain_if(
        {"local_memory_lines": 0.0, "warp_instructions": metrics.get("warp_instructions", 0.0) - local}
    )
    message = (
        f"{resources.spill_stores} bytes are spilled to memory and {resources.spill_loads} read back "
        f"at {resources.registers} registers a thread{where}"
    )
    evidence: dict[str, float | str] = {
        "spill_store_bytes": float(resources.spill_stores),
        "spill_load_bytes": float(resources.spill_loads),
        "registers": float(resources.registers),
    }
    return (context.finding(KIND, place, message, evidence, gain, ("launch-shape", "unroll-loop")),)
