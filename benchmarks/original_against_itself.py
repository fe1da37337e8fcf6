"""Times originals against themselves a hundred times, and against Nsight Compute's duration, on a GPU.

    python benchmarks/original_against_itself.py OUT.json [SECONDS]        (needs a GPU and ncu; SECONDS: default 130)
    python benchmarks/original_against_itself.py --table OUT.json          (writes benchmarks/results/measurement.md)

The proof of our paired measurement: of a hundred comparisons of an original with itself, at least 92 should have 1.00
inside their interval, with a median half-width of at most 1 % above 50 us; and times should agree with ncu's duration.
"Itself" is the very same build, and in a second hundred a build of the same source under another kernel name, which is
another module at another address, as a candidate is.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "emulator_against_ncu"))
import cases

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.cuda.device import lay_out
from optiml_core.device.cuda.requests import LaunchNumbers, TimeRequest
from optiml_core.device.protocol import Contents
from optiml_core.measurement import PreparedRun, measure_prepared_pairs
from optiml_core.records import Failure, Variant
from optiml_core.search.devices import open_device
from optiml_core.search.timing import FINAL_PLAN
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import discover
from optiml_core.workload import find_workload, make_contents, resolve_launch

RUNS = 100
HEAD = """# Paired measurement: originals against themselves, and against Nsight Compute

{gpu}, driver 580.159 (CUDA 13.0), {date}: `python benchmarks/original_against_itself.py OUT.json`, with the plan that
the final measurement of a search uses (intervals of 95 %, stopped at a half-width of 1 % after at least 12 pairs).

## A hundred comparisons of an original with itself

Demanded: 1.00 inside at least 92 of 100 intervals, and a median half-width of at most 1 % above 50 us. "Another module"
is a build of the same source under another kernel name, at another address, as a candidate is.

| kernel | L2 | compared with | us | 1.00 inside | median half-width | median pairs | median ratio | worst |
|---|---|---|---:|---:|---:|---:|---:|---:|
{itself}

## Times against Nsight Compute's duration

Demanded: within 3 % above 50 us. Ours by CUDA events (warm: batches of five in a graph; flushed: one launch after L2
was emptied); ncu's `gpu__time_duration.sum`, median of ten launches, `--clock-control none`, with
`--cache-control none` (warm) and `all` (flushed).

| kernel | warm us | ncu | | flushed us | ncu | |
|---|---:|---:|---:|---:|---:|---:|
{times}
"""
# label -> kernel of benchmarks/prediction/kernels and the sizes in its workload
KERNELS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "copy of 80 MiB": ("copy_scalar", {"n": "20971520"}),
    "transposition": ("transpose16_tiled", {}),
    "copy of 4 MiB": ("copy_scalar", {"n": "1048576"}),
    "axpy in place": ("axpy_coarsened", {"n": "33554432"}),
    "Black-Scholes": ("black_scholes", {}),
    "gather": ("gather", {}),
    "product of small matrices": ("sgemm_shared_tile", {"m": "1024", "n": "1024", "k": "1024"}),
}
# What is compared a hundred times: label, whether caches are flushed, whether the other side is a renamed build.
COMPARED = (
    *(("copy of 80 MiB", False, False), ("transposition", False, False), ("copy of 4 MiB", False, False)),
    *(("copy of 80 MiB", False, True), ("transposition", False, True), ("copy of 4 MiB", False, True)),
    *(("copy of 80 MiB", True, True), ("axpy in place", False, True), ("copy of 4 MiB", True, True)),
    *(("copy of 4 MiB", True, False), ("transposition", True, False)),
)
# The same with the sides exchanged: a difference that stays on one side would be the measurement's, one that changes
# sides is between the two modules.
EXCHANGED = (("copy of 4 MiB", True, True),)
LAUNCHES = 12


def prepared(device: CudaDevice, name: str, sizes: Mapping[str, str], contents: Contents | None, again: bool) -> Any:
    """The kernel ready to launch; ``again`` renames it, which makes it another module."""
    text = cases.smaller((cases.KERNELS / f"{name}.cu").read_text(), sizes)
    unit = parse(SourceFile(f"{name}.cu", text.encode()))
    kernel = unit.kernels[-1]
    launch = resolve_launch(find_workload(unit, kernel))
    assert not isinstance(launch, Failure), launch
    if contents is None:
        made = make_contents(launch, 0)
        assert not isinstance(made, Failure), made
        contents = Contents(made)
    qualified = kernel.qualified
    if again:
        text, qualified = re.sub(rf"\b{kernel.name}\b", f"{kernel.name}_again", text), f"{qualified}_again"
    built = device.build(Variant(f"{name}.cu", text.encode(), qualified), launch.template_arguments)
    assert not isinstance(built, Failure), built
    return PreparedRun(built, launch, contents)


def against_itself(device: CudaDevice, one: PreparedRun, other: PreparedRun, flush: bool, until: float) -> Any:
    """A hundred comparisons, fewer if the time is up."""
    from attrs import evolve

    found = []
    began = time.monotonic()
    with device.exclusive():
        for seed in range(RUNS):
            result = measure_prepared_pairs(one, other, device, "GPU", evolve(FINAL_PLAN, flush=flush, seed=seed))
            if isinstance(result, Failure):
                found.append({"failure": result.message})
            else:
                found.append(
                    {
                        "ratio": result.speedup,
                        "low": result.low,
                        "high": result.high,
                        "pairs": result.samples,
                        "time": result.original_time,
                        "inconclusive": result.inconclusive,
                    }
                )
            if time.monotonic() > until:
                break
    good = [run for run in found if "ratio" in run]
    inside = sum(run["low"] <= 1.0 <= run["high"] for run in good)
    widths = [0.5 * (run["high"] - run["low"]) / run["ratio"] for run in good]
    return {
        "runs": len(found),
        "failures": [run["failure"] for run in found if "failure" in run][:3],
        "inside": inside,
        "median_half_width": statistics.median(widths) if widths else None,
        "median_time": statistics.median(run["time"] for run in good) if good else None,
        "median_pairs": statistics.median(run["pairs"] for run in good) if good else None,
        "inconclusive": sum(run["inconclusive"] for run in good),
        "worst_ratio": max((max(r["ratio"], 1 / r["ratio"]) for r in good), default=None),
        "seconds": time.monotonic() - began,
        "ratios": [round(run["ratio"], 5) for run in good],
    }


def event_times(device: CudaDevice, side: PreparedRun, flush: bool) -> list[float]:
    repetitions = 1 if flush else 5
    with device.exclusive():
        times = [
            device.time_launches(side.built, side.launch, side.contents, repetitions, flush) for _ in range(LAUNCHES)
        ]
    assert not any(isinstance(each, Failure) for each in times), times
    return times  # type: ignore[return-value]


def launch_for_ncu(folder: Path, names: list[str]) -> None:
    """Runs in the process that ncu watches."""
    from optiml_core.device.cuda.driver import Gpu, argument_buffer

    gpu = Gpu(0)
    for name in names:
        image, request = pickle.loads((folder / name).read_bytes())
        gpu.load(image)
        buffers = gpu._session_buffers(request)
        function = gpu._prepare(request.token, request.launch, request.globals)
        arguments = argument_buffer(request.parameters, buffers)
        for _ in range(LAUNCHES):
            gpu._launch(function, request.launch, arguments)
        gpu._stream.synchronize()
        gpu.end_session(request.session)
    gpu.close()


def ncu_times(device: CudaDevice, sides: Mapping[str, PreparedRun], ncu: str, cache: str) -> dict[str, Any]:
    """Durations of each launch by ncu, with its caches flushed (``all``) or left alone (``none``)."""
    import ncu_report

    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        names = []
        for index, side in enumerate(sides.values()):
            laid = lay_out(side.launch, side.contents)
            image = device.image_of(side.built)
            numbers = LaunchNumbers(side.launch.grid, side.launch.block, side.launch.shared)
            request = TimeRequest(
                side.built.token, numbers, laid.parameters, laid.buffers, laid.globals, str(index), 1, False
            )
            (folder / str(index)).write_bytes(pickle.dumps((image, request)))
            names.append(str(index))
        report = folder / "times.ncu-rep"
        command = [ncu, "--export", str(report), "--clock-control", "none", "--cache-control", cache]
        command += ["--metrics", "gpu__time_duration.sum,gpc__cycles_elapsed.avg.per_second"]
        command += ["--target-processes", "all", sys.executable, str(Path(__file__).resolve()), "--launch"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        done = subprocess.run(
            [*command, str(folder), *names], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        if not report.is_file():
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        found = ncu_report.load_report(str(report)).range_by_idx(0)
        actions = [found.action_by_idx(index) for index in range(found.num_actions())]
        times: dict[str, Any] = {}
        for index, label in enumerate(sides):
            part = actions[index * LAUNCHES : (index + 1) * LAUNCHES]
            durations = [action.metric_by_name("gpu__time_duration.sum").as_double() * 1e-9 for action in part]
            clocks = [action.metric_by_name("gpc__cycles_elapsed.avg.per_second").as_double() for action in part]
            times[label] = {
                "median": statistics.median(durations[2:]),
                "all": durations,
                "clock": statistics.median(clocks[2:]),
            }
        return times


def table(result: Mapping[str, Any]) -> str:
    """The page of results."""
    rows = []
    for row in result["against_itself"]:
        cache = "flushed" if row["cold"] else "warm"
        other = "another module" if row["renamed"] else "the same build"
        other = "the other way round" if row.get("exchanged") else other
        inside = f"{row['inside']} of {row['runs']}"
        width = f"{100 * row['median_half_width']:.2f} %"
        cells = [row["kernel"], cache, other, f"{row['median_time'] * 1e6:.1f}", inside, width]
        cells += [f"{row['median_pairs']:.0f}", f"{statistics.median(row['ratios']):.4f}", f"{row['worst_ratio']:.4f}"]
        rows.append("| " + " | ".join(cells) + " |")
    times = []
    for label, entry in result["times"].items():
        cells = [label]
        for ours, theirs in (("warm", "ncu warm"), ("cold", "ncu cold")):
            one, other = entry[ours]["median"], entry[theirs]["median"]
            cells += [f"{one * 1e6:.2f}", f"{other * 1e6:.2f}", f"{100 * (one / other - 1):+.1f} %"]
        times.append("| " + " | ".join(cells) + " |")
    return HEAD.format(gpu=result["gpu"], date=result["date"], itself="\n".join(rows), times="\n".join(times))


def main(out: Path, seconds: float) -> None:
    began = time.monotonic()
    toolchain = discover()
    device = open_device("cuda:0", toolchain)
    assert isinstance(device, CudaDevice), device
    state = device.state()
    assert not isinstance(state, Failure), state
    result: dict[str, Any] = {
        "gpu": state.name,
        "driver": state.driver,
        "date": str(datetime.date.today()),
        "against_itself": [],
        "times": {},
    }

    def save() -> None:
        result["seconds"] = time.monotonic() - began
        out.write_text(json.dumps(result, indent=1, default=float))

    sides = {}
    for label, (name, sizes) in KERNELS.items():
        sides[label] = prepared(device, name, sizes, None, False)
        result["times"][label] = {}
        for flush in (False, True):
            measured = event_times(device, sides[label], flush)
            entry = {"median": float(np.median(measured)), "all": measured}
            result["times"][label]["cold" if flush else "warm"] = entry
            print(f"{label}: {entry['median'] * 1e6:.2f} us, flush {flush}", file=sys.stderr)
    print(f"prepared after {time.monotonic() - began:.0f} s", file=sys.stderr)
    save()
    ncu = toolchain.tool("ncu").path
    for cache in ("none", "all"):
        if ncu is not None:
            for label, entry in ncu_times(device, sides, ncu, cache).items():
                result["times"][label]["ncu " + ("warm" if cache == "none" else "cold")] = entry
                print(f"ncu {cache}: {label}: {entry['median'] * 1e6:.2f} us", file=sys.stderr)
        save()
    print(f"ncu done after {time.monotonic() - began:.0f} s", file=sys.stderr)
    rows = [(row, False) for row in COMPARED] + [(row, True) for row in EXCHANGED]
    for index, ((label, flush, again), exchanged) in enumerate(rows):
        name, sizes = KERNELS[label]
        one = sides[label]
        other = prepared(device, name, sizes, one.contents, True) if again else one
        if exchanged:
            one, other = other, one
        left = began + seconds - time.monotonic()
        until = time.monotonic() + max(2.0, 2.0 * left / (len(rows) - index))
        found = against_itself(device, one, other, flush, until)
        row = {"kernel": label, "cold": flush, "renamed": again, "exchanged": exchanged, **found}
        result["against_itself"].append(row)
        print({key: value for key, value in row.items() if key != "ratios"}, file=sys.stderr)
        save()
        if time.monotonic() > began + seconds:
            break
    device.close()


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        launch_for_ncu(Path(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1] == "--table":
        page = Path(__file__).parent / "results" / "measurement.md"
        page.write_text(table(json.loads(Path(sys.argv[2]).read_text())))
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 130.0)
