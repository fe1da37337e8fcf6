"""Reports that somebody else made: whose kernels they are, which lines they mean, and what to warn of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve, frozen

from optiml_core.profiling.findings import find_findings
from optiml_core.profiling.findings.context import context_of
from optiml_core.profiling.nsight.profile import DURATION, file_in_report, path_parts, profile_of
from optiml_core.profiling.nsight.report import ReportedKernel
from optiml_core.profiling.nsight.rules import joined, with_rules
from optiml_core.records import Failure, Finding, Kernel, Launch, Profile
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import gpu_facts

ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|_GLOBAL__N__\w+::")
CAST = re.compile(r"\((?:unsigned |signed )?(?:int|long|short|char|bool|long long)\)")


@frozen
class ImportedKernel:
    """One kernel of a source file with the counters that a report has of it.

    ``template_arguments``: as the report spells them. ``launches``: how many of it are in the report; the profile is
    of the longest. ``notes``: what to keep in mind, each a sentence.
    """

    unit: TranslationUnit
    kernel: Kernel
    template_arguments: tuple[str, ...]
    profile: Profile
    findings: tuple[Finding, ...]
    launches: int
    notes: tuple[str, ...]


@frozen
class Imported:
    """What a report says of some files; ``others``: names of the kernels in it that are in none of them."""

    kernels: tuple[ImportedKernel, ...]
    others: tuple[str, ...]


def split_name(demangled: str) -> tuple[str, tuple[str, ...]]:
    """``void a::f<float, (int)8>(const T1 *)`` as ``a::f`` and ``("float", "8")``. Anonymous namespaces are left out,
    as they have no name in the source either."""
    text = ANONYMOUS.sub("", demangled)
    depth, name, inner, arguments = 0, "", "", list[str]()
    for character in text:
        if character == "<":
            depth += 1
            if depth == 1:
                continue
        elif character == ">":
            depth -= 1
            if depth == 0:
                arguments.append(inner)
                inner = ""
                continue
        elif character == "," and depth == 1:
            arguments.append(inner)
            inner = ""
            continue
        elif character == "(" and depth == 0:
            break
        if depth:
            inner += character
        else:
            name += character
    qualified = name.strip().split(" ")[-1]
    return qualified, tuple(CAST.sub("", argument).strip() for argument in arguments)


def find_kernel(reported: ReportedKernel, units: Sequence[TranslationUnit]) -> tuple[TranslationUnit, Kernel] | None:
    """The source kernel that a reported launch is of. With several of the same name, the report's files decide."""
    qualified, _ = split_name(reported.demangled or reported.function)
    known = [(unit, kernel) for unit in units for kernel in unit.kernels if kernel.qualified == qualified]
    if len(known) > 1:
        files = {path_parts(instruction.file)[-1] for instruction in reported.instructions if instruction.file}
        known = [pair for pair in known if path_parts(pair[0].source.path)[-1] in files] or known
    return known[0] if known else None


def import_kernels(
    reported: Sequence[ReportedKernel], units: Sequence[TranslationUnit], launch_of: Launch | None = None
) -> Imported:
    """Profiles and findings of the kernels of ``units``, one for each kernel and its template arguments.

    ``launch_of`` stands for their launch where findings need one; a report's own numbers are used otherwise.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], list[ReportedKernel]] = {}
    found: dict[tuple[str, str, tuple[str, ...]], tuple[TranslationUnit, Kernel]] = {}
    others: dict[str, None] = {}
    for entry in reported:
        pair = find_kernel(entry, units)
        if pair is None:
            others[entry.demangled or entry.function] = None
            continue
        unit, kernel = pair
        key = (unit.source.path, kernel.qualified, split_name(entry.demangled or entry.function)[1])
        groups.setdefault(key, []).append(entry)
        found[key] = pair
    kernels = tuple(_imported(*found[key], key[2], entries, launch_of) for key, entries in groups.items())
    return Imported(kernels, tuple(others))


def _imported(
    unit: TranslationUnit,
    kernel: Kernel,
    arguments: tuple[str, ...],
    entries: Sequence[ReportedKernel],
    launch: Launch | None,
) -> ImportedKernel:
    longest = max(entries, key=lambda entry: entry.number(DURATION) or 0.0)
    profile = profile_of(longest, unit.source.path, kernel.qualified)
    findings = findings_of(longest, profile, unit, kernel, launch or launch_in(longest))
    return ImportedKernel(unit, kernel, arguments, profile, findings, len(entries), notes_on(longest, unit, kernel))


def findings_of(
    reported: ReportedKernel,
    profile: Profile,
    unit: TranslationUnit,
    kernel: Kernel,
    launch: Launch | None,
    others: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """Our findings on ncu's counters with the estimates of its rules, the most promising first.

    ``others``: findings on another profile of the same launch (the emulator's), which are joined with them.
    """
    own = find_findings(profile, unit, kernel, launch)
    together = joined([own, others])
    return in_order(with_rules(together, reported, context_of(profile, unit, kernel, launch)))


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The most promising first."""
    rank = {"high": 0, "medium": 1, "low": 2}
    return tuple(
        sorted(findings, key=lambda f: (rank[f.severity], -(f.estimated_gain or 1.0), f.range.start_byte, f.kind))
    )


def launch_in(reported: ReportedKernel) -> Launch | None:
    """The launch as far as the report tells: shape and shared memory, no arguments."""
    shape = [reported.number(f"launch__{what}_dim_{axis}") for what in ("grid", "block") for axis in "xyz"]
    numbers = [int(value) for value in shape if value is not None]
    if len(numbers) != 6:
        return None
    dynamic = int(reported.number("launch__shared_mem_per_block_dynamic") or 0)
    return Launch((numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5]), dynamic, ())


def notes_on(reported: ReportedKernel, unit: TranslationUnit, kernel: Kernel) -> tuple[str, ...]:
    """What a reader of the imported profile should know."""
    notes = []
    spelled = file_in_report(reported, unit.source.path)
    if not any(instruction.line for instruction in reported.instructions):
        notes.append("no source lines in the report: compile with -lineinfo and collect the section SourceCounters")
    elif spelled is None:
        notes.append(f"no instruction in the report comes from {path_parts(unit.source.path)[-1]}")
    else:
        lines = [i.line for i in reported.instructions if i.file == spelled]
        inside = [line for line in lines if kernel.range.start_line <= line <= kernel.range.end_line]
        text = reported.sources.get(spelled)
        if text is not None and text.replace("\r\n", "\n") != unit.source.text.replace("\r\n", "\n"):
            notes.append("the report was made of another version of this file: its lines may have moved")
        elif not inside:
            notes.append("none of the report's lines lies in this kernel: the file may have changed since")
    if isinstance(gpu_facts(reported.gpu), Failure):
        notes.append(f"gains are the report's own: nothing is known here of {reported.gpu}")
    return tuple(notes)


def with_launches(imported: ImportedKernel) -> Profile:
    """The profile with the number of launches that the report has of the kernel."""
    return evolve(
        imported.profile, metrics={**imported.profile.metrics, "launches_in_report": float(imported.launches)}
    )
