"""Findings of a document: static ones at once, a profile's where there is one, stale ones marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_core.records import Failure, Kernel
from optiml_server.documents import Parsed, kernel_text, line_to_client
from optiml_server.results import KernelProfileResult, digest_of
from optiml_server.session import OptimlServer

if TYPE_CHECKING:
    from optiml_core.toolchain import GpuFacts

SOURCE = "OptiML"
STALE = " (before the last edit)"
PAGES = "https://github.com/optiml/optiml/blob/main/docs/findings.md#"


@frozen
class ShownFinding:
    """One finding as it is shown: ``line`` from 1 in the current text."""

    kernel: str
    kind: str
    line: int
    severity: str
    message: str
    evidence: dict[str, Any]
    estimated_gain: float | None
    rewrites: tuple[str, ...]
    stale: bool
    kind_of_time: str | None


def target_gpu(server: OptimlServer) -> GpuFacts:
    """The GPU that static findings are for."""
    from optiml_core.toolchain import DEFAULT_GPU, gpu_facts

    facts = gpu_facts(server.settings.gpu or DEFAULT_GPU)
    if not isinstance(facts, Failure):
        return facts
    default = gpu_facts(DEFAULT_GPU)
    assert not isinstance(default, Failure)
    return default


def kernel_findings(server: OptimlServer, uri: str, parsed: Parsed, kernel: Kernel) -> list[ShownFinding]:
    """A kernel's findings: its profile's if that still holds, else static ones and the stale profile's."""
    profile = server.results.profiles.get((uri, kernel.qualified))
    if profile is not None and profile.digest == digest_of(kernel_text(parsed, kernel)):
        return _of_profile(profile, kernel, stale=False)
    shown = static_findings(server, parsed, kernel)
    if profile is not None:
        known = {(finding.kind, finding.line) for finding in shown}
        shown += [f for f in _of_profile(profile, kernel, stale=True) if (f.kind, f.line) not in known]
    return shown


def static_findings(server: OptimlServer, parsed: Parsed, kernel: Kernel) -> list[ShownFinding]:
    """What the text alone shows of a kernel. Found once for each of its texts, as long as the code around all kernels
    stays the same; an edit in one kernel of a large file then costs that kernel alone."""
    facts = target_gpu(server)
    key = (facts.name, parsed.around, kernel.qualified, kernel_text(parsed, kernel))
    known = server.documents.static_findings.get(key)
    first = kernel.range.start_line
    if known is None:
        from optiml_core.profiling import find_findings, static_profile

        found = find_findings(static_profile(parsed.unit, kernel, None, facts), parsed.unit, kernel, None)
        known = tuple(
            ShownFinding(
                kernel.qualified,
                finding.kind,
                finding.range.start_line - first,
                finding.severity,
                finding.message,
                dict(finding.evidence),
                finding.estimated_gain,
                finding.rewrites,
                False,
                None,
            )
            for finding in found
        )
        server.documents.remember_static(key, known)
        # The analysis keeps much of a large file; one kernel is analysed anew in no time.
        parsed.unit.memory.clear()
        parsed.unit.nodes.clear()
    return [evolve(finding, line=finding.line + first) for finding in known]


def _of_profile(profile: KernelProfileResult, kernel: Kernel, *, stale: bool) -> list[ShownFinding]:
    # The kernel may have moved as a whole since it was profiled: lines count from its first one.
    shift = kernel.range.start_line - int(profile.value.get("first_line", kernel.range.start_line))
    return [
        ShownFinding(
            kernel.qualified,
            finding["kind"],
            finding["range"]["start"]["line"] + shift,
            finding["severity"],
            finding["message"],
            finding["evidence"],
            finding["estimated_gain"],
            tuple(finding["rewrites"]),
            stale,
            profile.value.get("kind"),
        )
        for finding in profile.value.get("findings", [])
    ]


def to_diagnostic(document: TextDocument, finding: ShownFinding, kernel: Kernel) -> types.Diagnostic:
    """Information for what costs much, a hint for the rest; never a warning: the code is not wrong."""
    text = finding.message
    if finding.estimated_gain and finding.estimated_gain >= 1.05:
        text += f", est. {finding.estimated_gain:.1f}x"
    if finding.stale:
        text += STALE
    loud = finding.severity in ("high", "medium") and not finding.stale
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(document.uri, line_to_client(document, kernel.name_range.start_line)),
            f"in kernel {kernel.qualified}",
        )
    ]
    return types.Diagnostic(
        range=line_to_client(document, finding.line),
        message=text,
        severity=types.DiagnosticSeverity.Information if loud else types.DiagnosticSeverity.Hint,
        source=SOURCE,
        code=finding.kind,
        code_description=types.CodeDescription(PAGES + finding.kind),
        related_information=related if finding.line != kernel.name_range.start_line else None,
        data={"kernel": kernel.qualified, "rewrites": list(finding.rewrites), "line": finding.line},
    )
