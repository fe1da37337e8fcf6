"""From the grown tree to what is offered: trajectory, patch, node records."""

from __future__ import annotations

import os
from pathlib import Path

from optiml_core.records import Launch
from optiml_core.search.node_evidence import evidence_of
from optiml_core.search.optimize import GrownTree
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import Outcome, SearchResult, TrajectoryStep
from optiml_core.source import unified_diff
from optiml_core.workload import Workload


def search_result(problem: SearchProblem, grown: GrownTree, workload: Workload, launches: list[Launch]) -> SearchResult:
    """Joins a grown tree with its problem. The patch is empty unless a best variant has a full verdict."""
    best = grown.best
    verdict = best.verdict if best is not None else None
    if verdict is None or verdict.equivalent is not True or verdict.level != "full":
        best = None
    return SearchResult(
        kernel=problem.original.kernel,
        device="recorded" if problem.device.startswith("recorded:") else problem.device,
        target=problem.gpu,
        origin=workload.origin,
        launches=tuple(launch_text(launch) for launch in launches),
        baseline=grown.baseline,
        best=best,
        trajectory=trajectory_steps(grown.baseline, grown.chain) if best is not None else (),
        patch=patch_text(problem, best) if best is not None else "",
        nodes=grown.tree.records(),
        evaluations=grown.evaluations,
        seconds=grown.seconds,
        stopped=grown.stopped,
        notes=(*grown.baseline.notes, *grown.notes, *(best.notes if best is not None else ())),
        spent=time_spent(grown),
    )


def time_spent(grown: GrownTree) -> dict[str, float]:
    """Where the evaluations' time went, in seconds over all processes: build, verify, profile, measure ..."""
    total: dict[str, float] = {}
    for node in grown.tree.nodes:
        for kind, seconds in (node.outcome.seconds if node.outcome else {}).items():
            total[kind] = total.get(kind, 0.0) + seconds
    return total


def trajectory_steps(baseline: Outcome, chain: tuple[Outcome, ...]) -> tuple[TrajectoryStep, ...]:
    """Each step with what it changed and its gain over the variant before."""
    steps = []
    before = baseline
    for after in chain:
        gain = None
        if before.measurement is not None and after.measurement is not None and after.measurement.time > 0:
            gain = before.measurement.time / after.measurement.time
        steps.append(TrajectoryStep(after.variant.steps[-1], evidence_of(before, after), gain))
        before = after
    return tuple(steps)


def patch_text(problem: SearchProblem, best: Outcome) -> str:
    """A unified diff whose paths are relative to the repository's root, for ``git apply`` there."""
    parts = [unified_diff(problem.original.data, best.variant.data, relative_path(problem.original.file, problem.root))]
    for path, data in best.variant.companions:
        parts.append(unified_diff(problem.other_files[path], data, relative_path(path, problem.root)))
    return "".join(parts)


def relative_path(file: str, root: str) -> str:
    """``file`` relative to ``root`` with forward slashes; its name alone if it lies elsewhere."""
    path = os.path.relpath(os.path.abspath(file), os.path.abspath(root or os.path.dirname(os.path.abspath(file))))
    return Path(file).name if path.startswith("..") else path.replace(os.sep, "/")


def launch_text(launch: Launch) -> str:
    """``grid (64, 256, 1), block (32, 8, 1), rows = 2048``."""
    parts = [f"grid {launch.grid}", f"block {launch.block}"]
    if launch.shared:
        parts.append(f"shared {launch.shared}")
    if launch.template_arguments:
        parts.append(f"<{', '.join(launch.template_arguments)}>")
    parts += [f"{name} = {value}" for name, value in launch.names.items()]
    return ", ".join(parts)
