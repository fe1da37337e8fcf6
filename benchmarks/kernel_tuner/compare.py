"""Kernel Tuner and OptiML on the same kernel and the same parameter space, in one run on a GPU.

    python benchmarks/kernel_tuner/compare.py [--seconds 60] [--out FOLDER]

Kernel Tuner (strategy greedy_ils, its defaults) and `optiml optimize --rewrite tune-constant` get the same time. Every
configuration of theirs is checked against a reference, of ours verified. Both bests are timed again side by side.
Needs Kernel Tuner and PyCUDA.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

KERNEL = Path(__file__).with_name("sgemm.cu")
SIZE = 2048
# The values that the kernel's comments declare, and the limits of every GPU: 48 KiB of shared memory, 1,024 threads,
# 65,536 registers (about 40 a thread besides its sums). Kernel Tuner stops at a configuration that fails its check.
_DEFINE = re.compile(r"#define (\w+) (\d+) +// optiml: ([\d, ]+)")
RESTRICTIONS = [
    "BLOCK_X * BLOCK_Y <= 1024",
    "BLOCK_X * BLOCK_Y >= 32",
    "BLOCK_X * BLOCK_Y * (TILE_X * TILE_Y + 40) <= 65536",
    "4 * TILE_K * (BLOCK_X * TILE_X + BLOCK_Y * TILE_Y) <= 49152",
]


def parameters() -> dict[str, list[int]]:
    """The values of every constant, the one that the file has first."""
    found = {}
    for name, value, others in _DEFINE.findall(KERNEL.read_text()):
        found[name] = list(dict.fromkeys([int(value), *(int(one) for one in others.split(","))]))
    return found


def with_kernel_tuner(space: dict[str, list[int]], strategy: dict[str, Any], iterations: int) -> list[dict[str, Any]]:
    """What Kernel Tuner measured: for every configuration ``time`` in milliseconds and ``seconds`` since the start."""
    from kernel_tuner import tune_kernel

    generator = np.random.default_rng(1)
    a = generator.standard_normal((SIZE, SIZE), dtype=np.float32)
    b = generator.standard_normal((SIZE, SIZE), dtype=np.float32)
    c = np.zeros_like(a)
    source = _DEFINE.sub("", KERNEL.read_text())
    began = time.time()
    records, _ = tune_kernel(
        "sgemm",
        source,
        (SIZE, SIZE),
        [a, b, c, np.int32(SIZE)],
        space,
        block_size_names=["BLOCK_X", "BLOCK_Y"],
        grid_div_x=["BLOCK_X", "TILE_X"],
        grid_div_y=["BLOCK_Y", "TILE_Y"],
        restrictions=RESTRICTIONS,
        answer=[None, None, a @ b, None],
        atol=1e-2,
        iterations=iterations,
        lang="CUDA",
        quiet=True,
        **strategy,
    )
    found = []
    for record in records:
        if isinstance(record.get("time"), float):
            stamp = datetime.fromisoformat(record["timestamp"])
            seconds = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp() - began
            own = {name: int(record[name]) for name in space}
            found.append({"time": float(record["time"]), "seconds": max(seconds, 0.0), "parameters": own})
    return found


def with_optiml(seconds: float) -> tuple[dict[str, Any], list[tuple[float, float]]]:
    """Our result, and (seconds, gain) whenever the best gain grew."""
    command = [sys.executable, "-m", "optiml_core", "optimize", str(KERNEL), "--device", "cuda:0", "--fresh", "--json"]
    command += ["--rewrite", "tune-constant", "--allow", "launch", "--profile", "none", "--seconds", str(seconds)]
    done = subprocess.run([*command, "--progress", "json"], capture_output=True, text=True, check=False, timeout=600)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"optiml optimize answered {done.returncode}: {done.stderr[-800:]}") from None
    steps: list[tuple[float, float]] = []
    for line in done.stderr.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        gain = event.get("best")
        value = gain.get("speedup") if isinstance(gain, dict) else None
        if isinstance(value, (int, float)) and (not steps or value > steps[-1][1]):
            steps.append((float(event["seconds"]), float(value)))
    return result, steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    space = parameters()
    total = int(np.prod([len(values) for values in space.values()]))
    print(f"{total} configurations before restrictions", flush=True)

    strategy = {"strategy": "greedy_ils", "strategy_options": {"time_limit": arguments.seconds, "max_fevals": total}}
    theirs = with_kernel_tuner(space, strategy, iterations=7)
    best = min(theirs, key=lambda record: record["time"])
    print(
        f"Kernel Tuner: {len(theirs)} configurations, best {best['time']:.3f} ms after {best['seconds']:.0f} s",
        flush=True,
    )

    ours, steps = with_optiml(arguments.seconds)
    chosen = {name: values[0] for name, values in space.items()}
    chosen |= {step["parameters"]["name"]: step["parameters"]["value"] for step in ours["steps"]}
    print(f"OptiML: {ours['evaluations']} variants in {ours['seconds']:.0f} s, steps {steps}", flush=True)
    print(f"spent {ours['spent']}", flush=True)

    again = {}
    for name, own in (("Kernel Tuner", best["parameters"]), ("OptiML", chosen), ("original", None)):
        point = own or {key: values[0] for key, values in space.items()}
        (timed,) = with_kernel_tuner({key: [value] for key, value in point.items()}, {}, iterations=40)
        again[name] = timed["time"]
        print(f"{name}: {timed['time']:.3f} ms with {point}", flush=True)
    record = {"kernel_tuner": theirs, "optiml": ours, "optiml_gains": steps, "again_ms": again, "size": SIZE}
    (arguments.out / "comparison.json").write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
