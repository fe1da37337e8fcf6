"""Records two short searches on a GPU, for tests that replay them with none.

    python benchmarks/record_search.py OUT_FOLDER          (needs a GPU, ncu, compute-sanitizer, g++, the extra `cuda`)

``edits``: the edits of tests/search/recorded/edits are proposed, as a model would; what a replay needs does not change
with our rewrites. ``rewrites``: two of our rewrites on the same kernel; record it again when their texts change.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
from pathlib import Path
from typing import Any

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.recorded import RecordingDevice
from optiml_core.records import Failure, Variant
from optiml_core.search.budget import Budget
from optiml_core.search.devices import open_device
from optiml_core.search.evaluation import Evaluator
from optiml_core.search.optimize import GrownTree, grow
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import Proposal
from optiml_core.search.serial import SerialEvaluations
from optiml_core.search.tree import Node, SearchTree
from optiml_core.toolchain import discover

SOURCES = Path(__file__).parents[1] / "tests" / "search" / "recorded"
KERNEL = "transpose"
REWRITES = ("shared-tile-transpose", "unroll-loop", "coarsen-grid-stride", "vectorize-access")
EVALUATIONS = {"edits": 6, "rewrites": 8}


class GivenEdits:
    """Proposes whole files once, for the original."""

    def __init__(self, edits: dict[str, bytes]) -> None:
        self._edits = edits
        self._root: Node | None = None

    def submit(self, tree: SearchTree, node: Node) -> None:
        if node.parent is None:
            self._root = node

    def collect(self) -> list[tuple[Node, tuple[Proposal, ...]]]:
        root, self._root = self._root, None
        if root is None:
            return []
        return [(root, tuple(Proposal(name, {}, "an edit", 1.0, "edits", data) for name, data in self._edits.items()))]

    def waiting(self) -> bool:
        return self._root is not None


def edits() -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in sorted((SOURCES / "edits").glob("*.cu"))}


def problem_of(kind: str, device: str, gpu: str) -> SearchProblem:
    """The search, for the device that records or replays it. ``edits`` names no rewrite that there is."""
    data = (SOURCES / "transpose.cu").read_bytes()
    rewrites = REWRITES if kind == "rewrites" else ("none",)
    return SearchProblem(Variant("transpose.cu", data, KERNEL), device, gpu, rewrites=rewrites)


def search(kind: str, problem: SearchProblem, evaluator: Evaluator) -> GrownTree:
    return grow(
        problem,
        SerialEvaluations(evaluator),
        Budget(seconds=None, evaluations=EVALUATIONS[kind], roofline_fraction=2.0),
        late=GivenEdits(edits()) if kind == "edits" else None,
    )


def tree_of(grown: GrownTree) -> dict[str, Any]:
    """What a replay must come to again: every node, and the best one as it was measured last."""
    best = grown.best
    return {
        "nodes": [
            {
                "parent": node.parent,
                "step": node.step.name if node.step else None,
                "parameters": dict(node.step.parameters) if node.step else {},
                "state": node.state,
                "time": node.time,
                "speedup": node.speedup,
                "reward": node.reward,
                "visits": node.visits,
            }
            for node in grown.tree.records()
        ],
        "sources": [node.outcome.source_key if node.outcome else "" for node in grown.tree.nodes],
        "counted": [node.identifier for node in grown.tree.nodes if node.outcome and node.outcome.counters],
        "best": None
        if best is None or best.measurement is None
        else {
            "steps": [step.name for step in best.variant.steps],
            "speedup": best.measurement.speedup,
            "low": best.measurement.low,
            "high": best.measurement.high,
            "target": best.measurement.target,
        },
        "stopped": grown.stopped,
        "evaluations": grown.evaluations,
    }


def main(out: Path) -> None:
    toolchain = discover()
    hide = (sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix, os.getcwd())
    hide = (*hide, "/opt/nvidia/nsight-compute", os.path.expanduser("~"), platform.node())
    hide = (*hide, *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    for kind in EVALUATIONS:
        device = open_device("cuda:0", toolchain)
        assert isinstance(device, CudaDevice), device
        state = device.state()
        assert not isinstance(state, Failure), state
        recording = RecordingDevice(device, EmulatorDevice(), out / kind, [text for text in hide if len(text) > 5])
        problem = problem_of(kind, "cuda:0", state.name)
        evaluator = Evaluator(problem, recording)
        grown = search(kind, problem, evaluator)
        tree = tree_of(grown)
        about = {
            "gpu": state.name,
            "driver": state.driver,
            "ncu": toolchain.tool("ncu").version,
            "date": datetime.date.today().isoformat(),
            "command": "python benchmarks/record_search.py OUT_FOLDER",
            "tree": tree,
        }
        record = recording.save(about)
        evaluator.close()
        print(kind, len(record.answers), "questions,", len(record.reports), "reports", file=sys.stderr)
        for node in tree["nodes"]:
            print("  ", *(node[key] for key in ("parent", "step", "parameters", "state", "speedup")), file=sys.stderr)
        for node in grown.tree.nodes:
            outcome = node.outcome
            if outcome is not None and outcome.failure is not None:
                print("  ", node.identifier, outcome.failure.kind, outcome.failure.message[:200], file=sys.stderr)
        print("  ", tree["best"], grown.stopped, grown.notes, grown.baseline.notes, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
