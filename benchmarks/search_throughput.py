"""How many variants a second a search evaluates, and where their time goes.

    python benchmarks/search_throughput.py [--device cuda:0] [--seconds 30] [--profile none] [--out JSON] [FILE ...]

Runs `optiml optimize --fresh` as a user would. A variant counts once it was built, verified by the quick gate and
timed (or predicted), or once one of these ended it; refusals and duplicates do not count. The rate runs from the
original's evaluation to the last variant; start-up and the final verdict, ablation and measurement are shown apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[1] / "examples" / "transpose.cu"


def measure(file: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """One search: variants, rates (per second), seconds by phase and by what evaluations spent them on."""
    command = [sys.executable, "-m", "optiml_core", "optimize", str(file), "--fresh", "--json", "--progress", "json"]
    command += ["--device", arguments.device, "--seconds", str(arguments.seconds), "--profile", arguments.profile]
    if arguments.jobs:
        command += ["--jobs", str(arguments.jobs)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    wall = time.monotonic() - began
    try:
        result = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"optiml optimize answered {done.returncode}: {done.stderr[-800:]}") from None
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    started = next(event["seconds"] for event in events if event["event"] == "started")
    evaluated = [event for event in events if event["event"] == "evaluated"]
    last = max((event["seconds"] for event in evaluated), default=started)
    variants = result["evaluations"]
    states: dict[str, int] = {}
    for event in evaluated:
        states[event["state"]] = states.get(event["state"], 0) + 1
    return {
        "file": file.name,
        "device": result["device"],
        "variants": variants,
        "states": states,
        "rate in the search": variants / max(last - started, 1e-9),
        "seconds": {"original": started, "search": last - started, "final": result["seconds"] - last, "all": wall},
        "spent": result["spent"],
        "speedup": result["speedup"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[EXAMPLE])
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--profile", default="none", choices=["all", "best", "none"])
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, --profile {arguments.profile}")
    rows = []
    for file in arguments.files:
        row = measure(file, arguments)
        rows.append(row)
        seconds = ", ".join(f"{name} {value:.1f} s" for name, value in row["seconds"].items())
        spent = ", ".join(f"{name} {value / max(row['variants'], 1):.2f}" for name, value in row["spent"].items())
        print(f"{row['file']}: {row['variants']} variants, {row['rate in the search']:.2f} a second in the search")
        print(f"  {seconds}\n  process seconds a variant: {spent}\n  {row['states']}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
