"""Makes the small Nsight Compute reports that tests read, in a folder whose paths say nothing of the machine.

    python benchmarks/record_reports.py OUT_FOLDER          (needs a GPU, ncu, nvcc, ncu-report)

Writes the reports, and beside each what ncu's rules said of it and how long ncu took. The program is built in FOLDER
and runs with an empty environment, since a report keeps the command line and paths of what it watched.
"""

from __future__ import annotations

import json
import lzma
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optiml_core.device.cuda.tools import SECTIONS
from optiml_core.toolchain import discover

FOLDER = Path("/tmp/optiml-record")
SOURCES = Path(__file__).parents[1] / "tests" / "profiling" / "recorded"
RULES = (
    *SECTIONS,
    *("MemoryWorkloadAnalysis_Tables", "SchedulerStats"),
)
# Name of the report -> (compiled with line information, ncu's arguments).
REPORTS: dict[str, tuple[bool, list[str]]] = {
    "several": (True, [word for section in dict.fromkeys(RULES) for word in ("--section", section)]),
    "product": (True, [word for section in SECTIONS for word in ("--section", section)]),
    "no_lines": (False, ["--set", "basic", "--launch-count", "1"]),
    "one_counter": (True, ["--metrics", "gpu__time_duration.sum", "--launch-count", "1"]),
    "with_source": (True, ["--section", "SourceCounters", "--import-source", "yes", "--launch-count", "2"]),
}


def build(nvcc: str, lines: bool) -> Path:
    """The program of tests/profiling/recorded, built in FOLDER."""
    program = FOLDER / ("several" if lines else "several_no_lines")
    libraries = Path(nvcc).parents[1]
    command = [nvcc, "-O3", "-arch=sm_90", "-DWITH_MAIN", f"-L{libraries}/lib", f"-L{libraries}/lib64"]
    command += ["-lineinfo"] if lines else []
    subprocess.run([*command, "several.cu", "-o", program.name], cwd=FOLDER, check=True)
    return program


def actions(report: Path) -> Iterator[Any]:
    import ncu_report

    context = ncu_report.load_report(str(report))
    for r in range(context.num_ranges()):
        for a in range(context.range_by_idx(r).num_actions()):
            yield context.range_by_idx(r).action_by_idx(a)


def without_machine(data: bytes, ncu: str) -> bytes:
    """A report with ncu's folder and the machine's name blanked out, byte for byte: its fields have lengths."""
    for text in (str(Path(ncu).resolve().parent), "/opt/nvidia/nsight-compute", platform.node()):
        # A short name is a field of its own, with its length before it; elsewhere the same letters may mean anything.
        old = text.encode() if len(text) > 8 else bytes([len(text)]) + text.encode()
        new = b"-" * len(text) if len(text) > 8 else bytes([len(text)]) + b"-" * len(text)
        data = data.replace(old, new)
    return data


def plain(value: Any) -> Any:
    """Rule results as JSON: enumerations become their text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def main(out: Path) -> None:
    toolchain = discover()
    ncu, nvcc = toolchain.tool("ncu"), toolchain.tool("nvcc")
    if ncu.path is None or nvcc.path is None:
        raise SystemExit(f"{ncu.reason} {nvcc.reason}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for source in SOURCES.glob("*.cu*"):
        shutil.copy(source, FOLDER)
    shutil.copytree(SOURCES, out / "sources", dirs_exist_ok=True)
    about: dict[str, Any] = {}
    for name, (lines, arguments) in REPORTS.items():
        program = build(nvcc.path, lines)
        report = FOLDER / f"{name}.ncu-rep"
        command = [ncu.path, "--force-overwrite", "--export", str(report), "--clock-control", "none", *arguments]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(FOLDER), "TMPDIR": str(FOLDER)}
        began = time.monotonic()
        done = subprocess.run(
            [*command, str(program)], cwd=FOLDER, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - began
        if done.returncode != 0 or not report.is_file():
            about[name] = {"failed": done.stdout[-2000:] + done.stderr[-2000:]}
            print(name, about[name], file=sys.stderr)
            continue
        data = without_machine(report.read_bytes(), ncu.path)
        (out / f"{report.name}.xz").write_bytes(lzma.compress(data, preset=9))
        about[name] = {
            "seconds": seconds,
            "bytes": report.stat().st_size,
            "arguments": arguments,
            "output": done.stdout[-1500:],
            "kernels": [
                {
                    "names": {
                        "function": action.name(action.NameBase_FUNCTION),
                        "demangled": action.name(action.NameBase_DEMANGLED),
                        "mangled": action.name(action.NameBase_MANGLED),
                    },
                    "metrics": {key: plain(action.metric_by_name(key).value()) for key in action.metric_names()},
                    "instances": {
                        key: action.metric_by_name(key).num_instances()
                        for key in action.metric_names()
                        if action.metric_by_name(key).num_instances()
                    },
                    "sections": [section.identifier() for section in action.sections()],
                    "rules": [plain(rule) for rule in action.rule_results_as_dicts()],
                }
                for action in actions(report)
            ],
        }
        print(f"{name}: {seconds:.1f} s, {report.stat().st_size} bytes", file=sys.stderr)
    (out / "about.json").write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    main(target)
