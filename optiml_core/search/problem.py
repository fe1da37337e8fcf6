"""What a search is given: everything an evaluation process needs, as plain data that can be sent to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from optiml_core.records import Kernel, Profile, Step, Variant
from optiml_core.search.program_digest import program_digest
from optiml_core.search.records import Proposal
from optiml_core.source import TranslationUnit
from optiml_core.workload import Workload, find_workload

ProfileMode = Literal["all", "best", "none"]


@frozen
class SearchProblem:
    """The original kernel, how it is launched, where it runs and what it is for.

    ``original``: the file as it stood when the job began. ``toml``: the text of ``--workload``, if given.
    ``device``: ``"emulator"`` or ``"cuda:N"``. ``gpu``: name for predictions and occupancy.
    ``allow``: facts and freedoms the user granted (``no-alias``, ``fast-math`` ...).
    ``other_files``: workspace files that may launch the kernel too, path -> bytes.
    ``root``: the folder that paths in the patch are relative to.
    """

    original: Variant
    device: str
    gpu: str
    toml: str | None = None
    allow: frozenset[str] = frozenset()
    seed: int = 0
    profile: ProfileMode = "best"
    other_files: Mapping[str, bytes] = field(factory=dict)
    root: str = ""
    template_arguments: tuple[str, ...] | None = None
    rewrites: tuple[str, ...] = ()  # only these; empty means all
    kept_runs: str = ""  # a private folder in which the processes of one search share what the original does

    def key(self) -> str:
        """A digest of everything that decides an evaluation's outcome; the store is keyed by it."""
        digest = hashlib.sha256(program_digest().encode())
        digest.update(self.original.data)
        facts = [
            self.original.kernel,
            list(self.original.flags),
            self.device,
            self.gpu,
            self.toml or "",
            sorted(self.allow),
            self.seed,
            self.profile,
            list(self.template_arguments or ()),
            list(self.rewrites),
            sorted((path, hashlib.sha256(data).hexdigest()) for path, data in self.other_files.items()),
        ]
        digest.update(json.dumps(facts).encode())
        return digest.hexdigest()


def workload_of(problem: SearchProblem, unit: TranslationUnit, kernel: Kernel) -> Workload:
    """The workload of the problem's kernel: declared, else inferred from its file and the files around it."""
    return find_workload(unit, kernel, problem.toml)


@frozen
class EvaluationTask:
    """One node to evaluate: ``proposals`` applied in order to ``parent``. ``level`` says how far to go.

    ``known``: source keys already in the tree; meeting one ends the evaluation early as a duplicate.
    """

    parent: Variant
    proposals: tuple[Proposal, ...]
    level: Literal["quick", "full"] = "quick"
    known: frozenset[str] = frozenset()
    # How much faster than the original the parent was measured to be: decides whether ncu counts the node.
    parent_speedup: float = 1.0
    original_counters: Profile | None = None  # ncu's, for the reward's proxies

    def key(self, problem_key: str) -> str:
        """Identifies the task's outcome in the store, whatever else is in the tree."""
        digest = hashlib.sha256(problem_key.encode())
        digest.update(self.parent.data)
        digest.update(repr(self.parent.launch_change).encode())
        digest.update(self.level.encode())
        # Two chains of steps may come to one text; an outcome tells of its own chain.
        digest.update(repr((self.parent.not_checked, self.parent.companions)).encode())
        chain: tuple[Step | Proposal, ...] = (*self.parent.steps, *self.proposals)
        for step in chain:
            parameters = sorted((name, str(value)) for name, value in step.parameters.items())
            digest.update(json.dumps([step.name, step.proposer, parameters]).encode())
        digest.update(str(len(self.proposals)).encode())
        for proposal in self.proposals:
            digest.update(proposal.replacement or b"")
        return digest.hexdigest()
