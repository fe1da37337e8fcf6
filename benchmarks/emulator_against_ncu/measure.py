"""Counts every case with Nsight Compute's source counters on a GPU, all kernels in one run of ncu.

    python benchmarks/emulator_against_ncu/measure.py OUT.json        (needs a GPU, ncu, ncu-report, the extra `cuda`)

OUT.json holds, per kernel, ncu's counters of the launch and, per source line and instruction, the source counters.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import cases

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.cuda.device import lay_out
from optiml_core.device.cuda.requests import LaunchNumbers, RunRequest
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover

SECTIONS = ("SourceCounters", "MemoryWorkloadAnalysis_Tables", "InstructionStats", "LaunchStats")
WANTED = ("l1tex__", "lts__t_", "smsp__inst", "smsp__sass", "sm__inst", "sm__sass", "launch__", "gpu__time", "memory_")


def prepare(folder: Path) -> list[str]:
    """Writes one launch request a case; cases that do not compile are said and left out."""
    device = open_device("cuda:0", discover())
    assert isinstance(device, CudaDevice), device
    names = []
    for name in cases.SIZES:
        case = cases.make_case(name)
        built = device.build(case.variant, case.launch.template_arguments)
        image = None if isinstance(built, Failure) else device.image_of(built)
        if isinstance(built, Failure) or image is None:
            print(f"{name}: {built}", file=sys.stderr)
            continue
        laid = lay_out(case.launch, case.contents)
        numbers = LaunchNumbers(case.launch.grid, case.launch.block, case.launch.shared)
        request = RunRequest(built.token, numbers, laid.parameters, laid.buffers, laid.globals, 256, 0)
        (folder / name).write_bytes(pickle.dumps((image, request)))
        names.append(name)
    device.close()
    return names


def launch(folder: Path, names: list[str]) -> None:
    """Runs in the process that ncu watches: every prepared launch once, in order."""
    from optiml_core.device.cuda.driver import Gpu

    gpu = Gpu(0)
    for name in names:
        image, request = pickle.loads((folder / name).read_bytes())
        answer = gpu.load(image) or gpu.run(request)
        if isinstance(answer, Failure):
            raise SystemExit(f"{name}: {answer.message}")
        with (folder / "launched").open("a") as launched:
            launched.write(name + "\n")
    gpu.close()


def instances(action: Any, metric: Any) -> list[tuple[int, float]]:
    """(program counter, value) of a metric that has one value an instruction."""
    if metric.num_instances() == 0 or not metric.has_correlation_ids():
        return []
    places = metric.correlation_ids()
    return [(places.as_uint64(index), metric.as_double(index)) for index in range(metric.num_instances())]


def counters(action: Any) -> dict[str, Any]:
    """One kernel of a report: ``metrics`` of the launch, ``lines``: [line, file, SASS, {metric: value}]."""
    metrics: dict[str, float] = {}
    by_counter: dict[int, dict[str, float]] = {}
    for name in action.metric_names():
        if not name.startswith((*WANTED, "inst_executed", "thread_inst", "smsp__pcsamp", "branch")):
            continue
        metric = action.metric_by_name(name)
        try:
            value = metric.as_double()
        except Exception:  # noqa: BLE001 - text metrics have no number
            continue
        metrics[name] = value
        for place, each in instances(action, metric):
            if each and not name.startswith("smsp__pcsamp_warps_issue_stalled"):
                by_counter.setdefault(place, {})[name] = each
    lines = []
    for place in sorted(by_counter):
        source = action.source_info(place)
        text = str(action.sass_by_pc(place))
        lines.append(
            [source.line() if source else 0, Path(source.file_name()).name if source else "", text, by_counter[place]]
        )
    return {"metrics": metrics, "lines": lines}


def main(out: Path) -> None:
    import ncu_report

    ncu = discover().tool("ncu")
    if ncu.path is None:
        raise SystemExit(ncu.reason)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        names = prepare(folder)
        report = folder / "report.ncu-rep"
        command = [ncu.path, "--export", str(report), "--clock-control", "none", "--target-processes", "all"]
        for section in SECTIONS:
            command += ["--section", section]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        command += [sys.executable, str(Path(__file__).resolve()), "--launch", str(folder), *names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
        if done.returncode != 0 or not report.is_file():
            print(done.stdout[-3000:] + done.stderr[-3000:], file=sys.stderr)
        if not report.is_file():
            raise SystemExit("ncu wrote no report")
        names = (folder / "launched").read_text().split()
        context = ncu_report.load_report(str(report))
        actions = [
            context.range_by_idx(r).action_by_idx(a)
            for r in range(context.num_ranges())
            for a in range(context.range_by_idx(r).num_actions())
        ]
        if len(actions) != len(names):
            raise SystemExit(f"{len(names)} launches, {len(actions)} in the report")
        kernels = {}
        for name, action in zip(names, actions, strict=True):
            kernels[name] = {"kernel": action.name(), **counters(action)}
        first = actions[0]
        about = {
            key: str(first.metric_by_name(key).value())
            for key in ("device__attribute_display_name", "device__attribute_max_gpu_frequency_khz")
            if key in set(first.metric_names())
        }
    out.write_text(json.dumps({"about": {**about, "ncu": ncu.version}, "kernels": kernels}))
    print(f"{len(kernels)} kernels", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        launch(Path(sys.argv[2]), sys.argv[3:])
    else:
        main(Path(sys.argv[1]))
