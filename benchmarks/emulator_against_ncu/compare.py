"""Compares the emulator's counts with ncu's, line by line, and writes benchmarks/results/emulator_against_ncu.md.

    python benchmarks/emulator_against_ncu/compare.py [NCU.json]      (needs g++; no GPU)

NCU.json is what measure.py wrote; without it, what benchmarks/results/emulator_against_ncu.json kept of it is used.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import cases

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import RunOptions
from optiml_core.profiling.nsight.profile import LineFilter, access_counts
from optiml_core.profiling.nsight.report import InstructionCounters
from optiml_core.records import AccessCounts, Failure

RESULTS = Path(__file__).parents[1] / "results"
KEPT = RESULTS / "emulator_against_ncu.json"
Site = tuple[int, str, str]
COUNTS = ("requests", "sectors", "ideal_sectors", "lines", "wavefronts", "ideal_wavefronts")
OF_SPACE = {
    "global": ("requests", "sectors", "ideal_sectors", "lines"),
    "shared": ("requests", "wavefronts", "ideal_wavefronts"),
}


def by_site(accesses: Iterable[AccessCounts]) -> dict[Site, dict[str, int]]:
    """Counts by line, kind and space: the two compilers need not agree on widths."""
    sums: dict[Site, dict[str, int]] = {}
    for access in accesses:
        if access.space in OF_SPACE and access.line > 0:
            row = sums.setdefault((access.line, access.kind, access.space), defaultdict(int))
            for name in OF_SPACE[access.space]:
                row[name] += getattr(access, name)
            row["bytes"] += access.bytes
    return {site: dict(row) for site, row in sums.items()}


def of_ncu(kernel: Mapping[str, Any], name: str) -> dict[Site, dict[str, int]]:
    rows = (
        InstructionCounters(file, line, text, values)
        for line, file, text, values in kernel["lines"]
        if file == f"{name}.cu"
    )
    return by_site(access_counts(rows, LineFilter(None)))


def of_emulator(device: EmulatorDevice, case: cases.Case) -> dict[Site, dict[str, int]]:
    built = device.build(case.variant, case.launch.template_arguments)
    assert not isinstance(built, Failure), built
    options = RunOptions(checks=False, counts=True, seconds=60.0)
    result = device.run(built, case.launch, case.contents, options)
    assert not isinstance(result, Failure), result
    return by_site(result.accesses)


def differences(emulated: dict[Site, dict[str, int]], counted: dict[Site, dict[str, int]]) -> list[dict[str, Any]]:
    """One row a site and count: the emulator's and ncu's (None: it has no such site)."""
    rows = []
    for site in sorted({*emulated, *counted}):
        for name in OF_SPACE[site[2]]:
            ours, theirs = emulated.get(site), counted.get(site)
            rows.append(
                {
                    "line": site[0],
                    "kind": site[1],
                    "space": site[2],
                    "count": name,
                    "emulator": None if ours is None else ours[name],
                    "ncu": None if theirs is None else theirs[name],
                }
            )
    return rows


def compare(kernels: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found = {}
    with EmulatorDevice() as device:
        for name in cases.SIZES:
            if name in kernels:
                case = cases.make_case(name)
                found[name] = differences(of_emulator(device, case), of_ncu(kernels[name], name))
    return found


def text(value: float | None) -> str:
    return "none" if value is None else f"{value:,}"


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT
    measured = json.loads(path.read_text())
    found = compare(measured["kernels"])
    for name, rows in found.items():
        for row in rows:
            if row["emulator"] != row["ncu"]:
                print(name, *row.values())
    print(sum(len(r) for r in found.values()), sum(row["emulator"] == row["ncu"] for r in found.values() for row in r))


if __name__ == "__main__":
    main()
