"""Reads one report in a process of its own and prints what it holds as JSON.

    python child.py REPORT FOLDER_OF_NCU_REPORT

NVIDIA's reader is native code and the file may come from anywhere: whatever the reader does to this process, the one
that asked gets an answer or learns that there is none. Imports nothing of OptiML.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

# Counters with one value an instruction that are worth their size.
PER_INSTRUCTION = (
    *("inst_executed", "thread_inst_executed", "thread_inst_executed_true", "smsp__pcsamp_sample_count"),
    *("memory_l1_tag_requests_global", "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"),
    *("memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"),
    *("memory_l2_theoretical_sectors_local", "memory_access_type", "memory_type", "memory_access_size_type"),
)
OPCODES = "sass__inst_executed_per_opcode"
STALLS = "smsp__pcsamp_warps_issue_stalled_"
LARGEST_TEXT = 4 << 20  # of one embedded source file


def plain(value: Any) -> Any:
    """JSON's types; enumerations of the native module become their text, numbers that JSON lacks become null."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def metrics_of(action: Any) -> dict[str, Any]:
    found = {}
    for name in action.metric_names():
        if not name.startswith(STALLS):
            found[name] = plain(action.metric_by_name(name).value())
    return found


def instructions_of(action: Any) -> list[list[Any]]:
    """[file, line, SASS, {counter: value}] of every instruction that has a counter above 0."""
    by_place: dict[int, dict[str, float]] = {}
    names = list(action.metric_names())
    for name in names:
        if name not in PER_INSTRUCTION and not name.startswith(STALLS):
            continue
        metric = action.metric_by_name(name)
        if not metric.has_correlation_ids():
            continue
        places = metric.correlation_ids()
        for index in range(metric.num_instances()):
            value = metric.as_double(index)
            if value:
                by_place.setdefault(places.as_uint64(index), {})[name] = value
    rows = []
    for place in sorted(by_place):
        source = action.source_info(place)
        file, line = (source.file_name(), source.line()) if source is not None else ("", 0)
        rows.append([file, line, str(action.sass_by_pc(place)), by_place[place]])
    return rows


def opcodes_of(action: Any) -> dict[str, float]:
    """Executed warp instructions by opcode, which reports have even where their code cannot be disassembled."""
    metric = action.metric_by_name(OPCODES)
    if metric is None or not metric.has_correlation_ids():
        return {}
    names = metric.correlation_ids()
    return {names.as_string(index): metric.as_double(index) for index in range(metric.num_instances())}


def sources_of(action: Any) -> dict[str, str]:
    """The source texts that the report carries (``--import-source yes``)."""
    return {str(name): str(text) for name, text in action.source_files().items() if 0 < len(text) < LARGEST_TEXT}


def actions_of(context: Any) -> Iterator[Any]:
    for range_index in range(context.num_ranges()):
        found = context.range_by_idx(range_index)
        for index in range(found.num_actions()):
            yield found.action_by_idx(index)


def kernel_of(action: Any) -> dict[str, Any]:
    return {
        "function": action.name(action.NameBase_FUNCTION),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "mangled": action.name(action.NameBase_MANGLED),
        "is_kernel": action.workload_type() == action.WorkloadType_KERNEL,
        "metrics": metrics_of(action),
        "instructions": instructions_of(action),
        "opcodes": opcodes_of(action),
        "rules": plain(action.rule_results_as_dicts()),
        "sources": sources_of(action),
    }


def main(report: str, folder: str) -> int:
    sys.path.insert(0, folder)
    try:
        import ncu_report

        context = ncu_report.load_report(report)
        answer: dict[str, Any] = {"kernels": [kernel_of(action) for action in actions_of(context)]}
    except Exception as error:  # noqa: BLE001 - the native reader raises its own types for damaged files
        answer = {"error": f"{error}" or type(error).__name__}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
