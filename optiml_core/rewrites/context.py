"""What a rewrite is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from optiml_core.records import Edit, Finding, Kernel, Launch, LaunchChange, LaunchSite
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts
from optiml_core.workload import Workload

ParameterValue = int | float | str | bool


@frozen
class OutsideLaunch:
    """A launch site of the kernel in another file of the workspace."""

    unit: TranslationUnit
    site: LaunchSite


@frozen
class RewriteContext:
    """The variant that a rewrite is to change, and what is known about it.

    ``unit`` and ``kernel``: the variant's own text, parsed. ``workload`` and ``launch``: how it is
    launched now (the launch evaluated, after ``launch_change``), or None where that is not known.
    ``launch_change``: the variant's launch relative to the original's. ``allow``: facts and freedoms
    that the user granted (``no-alias``, ``aligned``, ``launch`` ...).
    ``other_launch_sites``: where other files of the workspace launch the kernel; None says that
    nobody searched, so that callers may exist which nobody knows.
    """

    unit: TranslationUnit
    kernel: Kernel
    workload: Workload | None = None
    launch: Launch | None = None
    findings: tuple[Finding, ...] = ()
    allow: frozenset[str] = frozenset()
    gpu: GpuFacts | None = None
    other_launch_sites: tuple[OutsideLaunch, ...] | None = None
    launch_change: LaunchChange = field(factory=LaunchChange)


@frozen
class Option:
    """One way to apply a rewrite. ``parameters`` tell ``apply`` which; ``note`` tells people."""

    parameters: Mapping[str, ParameterValue] = field(factory=dict)
    note: str = ""


@frozen
class Refusal:
    """Why a rewrite does not apply, in one sentence for people."""

    reason: str


@frozen
class Rewritten:
    """What a rewrite changes.

    ``edits``: of the kernel, its workload comment and its launch sites; those of other files carry
    their path. ``launch_change``: the new variant's launch relative to the original's. ``not_checked``:
    what no run can show and nobody proved. ``guards``: run-time conditions under which the new path is taken.
    """

    edits: tuple[Edit, ...]
    launch_change: LaunchChange
    rationale: str
    not_checked: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()


@frozen
class Rewrite:
    """One entry of the catalogue: a name, the bottleneck kinds it answers, and its two functions.

    ``options(context)`` gives the ways to apply it, the most promising first, or a Refusal with the
    precondition that does not hold. ``apply(context, option)`` makes the edits of one of them.
    """

    name: str
    answers: tuple[str, ...]
    options: Callable[[RewriteContext], tuple[Option, ...] | Refusal]
    apply: Callable[[RewriteContext, Option], Rewritten | Refusal]
