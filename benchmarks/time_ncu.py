"""How long Nsight Compute takes for one launch, with the sections that profiles use and with others.

python benchmarks/time_ncu.py OUT.json          (needs a GPU, ncu, ncu-report, the extra `cuda`)
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "emulator_against_ncu"))
import cases

from optiml_core.device.cuda import CudaDevice, tools
from optiml_core.profiling.nsight.run import count_launch
from optiml_core.records import Failure
from optiml_core.search.devices import open_device
from optiml_core.toolchain import discover

SETS: dict[str, tuple[str, ...]] = {
    "as profiles use it": tools.SECTIONS,
    "without instruction and compute workload": (
        *("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats", "WarpStateStats", "SourceCounters"),
    ),
    "source counters, occupancy, launch, warp states": ("SourceCounters", "Occupancy", "LaunchStats", "WarpStateStats"),
    "source counters alone": ("SourceCounters",),
    "speed of light alone": ("SpeedOfLight",),
    "with memory tables": (*tools.SECTIONS, "MemoryWorkloadAnalysis_Tables"),
}
TURNS = 3
KERNELS = ("transpose_naive", "sgemm_shared_tile")


def main(out: Path) -> None:
    device = open_device("cuda:0", discover())
    assert isinstance(device, CudaDevice), device
    rows: list[dict[str, Any]] = []
    own = tools.SECTIONS
    for kernel in KERNELS:
        case = cases.make_case(kernel)
        built = device.build(case.variant, case.launch.template_arguments)
        assert not isinstance(built, Failure), built
        for name, sections in SETS.items():
            tools.SECTIONS = sections
            times, said = [], ""
            for _ in range(TURNS):
                began = time.monotonic()
                found = count_launch(device, built, case.launch, case.contents)
                times.append(time.monotonic() - began)
                if isinstance(found, Failure):
                    said = found.message
                else:
                    passes = found.metrics.get("profiler__replayer_passes")
                    said = f"{len(found.metrics)} metrics, {len(found.rules)} rules, {passes} passes"
            rows.append({"kernel": kernel, "sections": name, "seconds": times, "said": said})
            print(kernel, name, f"{statistics.median(times):.2f} s", said, file=sys.stderr, flush=True)
        tools.SECTIONS = own
    device.close()
    out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
