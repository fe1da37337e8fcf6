"""Optimizes a list of kernels with `optiml optimize` and prints a table: original, best, gain, verdict, seconds.

    python benchmarks/optimize_kernels.py KERNELS.toml --root FOLDER [--device cuda:0] [--seconds 60] [--out FOLDER]

KERNELS.toml names each kernel: `[[kernel]] name, file (below FOLDER), kernel, workload (TOML text, optional),
expert_ms (measured elsewhere, optional)`. Every failure counts as 1.00x in the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from pathlib import Path
from typing import Any

from optiml_core.bench.searches import SearchRequest, searched


def run_one(entry: dict[str, Any], root: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """One search in a process of its own; its JSON with the wall time added."""
    return searched(
        SearchRequest(
            root / entry["file"],
            entry["kernel"],
            arguments.device,
            arguments.seconds,
            arguments.gpu,
            entry.get("workload", ""),
        )
    )


def row(entry: dict[str, Any], value: dict[str, Any]) -> tuple[str, float]:
    """A line of the table and the gain that counts (1.0 for every failure)."""
    if "error" in value:
        return f"| {entry['name']} | | | 1.00x | {value['error']['message'][:80]} | {value['wall']:.0f} |", 1.0
    baseline, best, speedup = value["baseline"], value["best"], value["speedup"]
    before = f"{baseline['time_us']:.1f} us {baseline['kind']}" if baseline else ""
    if best is None:
        reason = f"no improvement ({value['stopped']})"
        return f"| {entry['name']} | {before} | | 1.00x | {reason} | {value['wall']:.0f} |", 1.0
    after = f"{best['time_us']:.1f} us"
    interval = f" ({speedup['low']:.2f} to {speedup['high']:.2f})" if speedup["kind"] == "measured" else " predicted"
    expert = entry.get("expert_ms")
    reach = f"; expert {expert * 1000:.1f} us" if expert else ""
    steps = " + ".join(step["name"] for step in value["steps"])
    roofline = value["roofline"]
    bound = f", {roofline['fraction']:.0%} of {roofline['bound_by']}" if roofline else ""
    gain = speedup["value"]
    cells = [entry["name"], before, after + bound + reach, f"{gain:.2f}x{interval}", steps, f"{value['wall']:.0f}"]
    return f"| {' | '.join(cells)} |", gain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="comma-separated names")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    entries = tomllib.loads(arguments.kernels.read_text())["kernel"]
    wanted = {name for name in arguments.only.split(",") if name}
    print("| kernel | original | best | gain | steps or reason | wall s |")
    print("|---|---|---|---|---|---:|", flush=True)
    gains = []
    for entry in entries:
        if wanted and entry["name"].split()[0] not in wanted:
            continue
        value = run_one(entry, arguments.root, arguments)
        text, gain = row(entry, value)
        gains.append(gain)
        print(text, flush=True)
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / f"{entry['name'].split()[0]}.json").write_text(json.dumps(value, indent=1))
    if gains:
        print(f"\ngeometric mean {math.exp(sum(map(math.log, gains)) / len(gains)):.2f}x over {len(gains)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
