"""Hover: a table over a kernel's name, the accesses of a line, what a launch launches."""

from __future__ import annotations

import time

from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_core.records import Kernel, LaunchSite
from optiml_core.report.numbers import metric_text, resource_name, time_text
from optiml_server.documents import Parsed, kernel_around, kernel_text, line_to_client, to_client
from optiml_server.findings import kernel_findings
from optiml_server.results import digest_of
from optiml_server.session import OptimlServer

SHOWN_METRICS = (
    ("achieved_occupancy", "occupancy"),
    ("registers", "registers a thread"),
    ("dram_bytes", "DRAM bytes"),
    ("global_sectors", "global sectors"),
    ("shared_wavefronts", "shared-memory wavefronts"),
    ("warp_instructions", "warp instructions"),
)


def kernel_table(server: OptimlServer, uri: str, parsed: Parsed, kernel: Kernel) -> str:
    """What is known of a kernel, as Markdown; says how to get the rest."""
    lines = [f"**{kernel.qualified}**", ""]
    profile = server.results.profiles.get((uri, kernel.qualified))
    fresh = profile is not None and profile.digest == digest_of(kernel_text(parsed, kernel))
    if profile is None:
        lines.append("Not profiled yet.")
    else:
        value = profile.value
        if not fresh:
            lines.append("*Before the last edit:*")
        lines += ["| | |", "|---|---:|"]
        if value.get("time_us") is not None:
            lines.append(f"| time | {time_text(value['time_us'] * 1e-6)} {value['kind']} for {value['target']} |")
        roofline = value.get("roofline")
        if roofline:
            bound_by = resource_name(roofline["bound_by"])
            lines.append(f"| bound by | {bound_by}, {roofline['fraction']:.0%} of the roofline |")
        metrics = value.get("metrics", {})
        for name, label in SHOWN_METRICS:
            if name in metrics:
                shown = f"{metrics[name]:.0%}" if name == "achieved_occupancy" else metric_text(metrics[name])
                lines.append(f"| {label} | {shown} |")
        requests = metrics.get("global_requests")
        if requests:
            lines.append(f"| sectors per request | {metrics.get('global_sectors', 0) / requests:.1f} |")
        if value.get("problem"):
            lines += ["", f"Static only: {value['problem']}"]
    for site in parsed.unit.launches_of(kernel):
        lines += ["", f"launched in line {site.range.start_line}: `<<<{site.grid}, {site.block}>>>`"]
    search = server.results.searches.get((uri, kernel.qualified))
    if search is not None:
        minutes = (time.time() - search.finished) / 60
        lines += ["", f"last search, {minutes:.0f} min ago: {search.summary()}"]
    return "\n".join(lines)


def line_text(server: OptimlServer, uri: str, parsed: Parsed, kernel: Kernel, line: int) -> str:
    """The findings of one line with their evidence, as Markdown; empty if there are none."""
    parts = []
    for finding in kernel_findings(server, uri, parsed, kernel):
        if finding.line != line:
            continue
        gain = f", est. {finding.estimated_gain:.1f}x" if finding.estimated_gain else ""
        parts.append(f"{finding.message} *({finding.severity}{gain})*")
        parts += [f"- {name.replace('_', ' ')}: {_value(value)}" for name, value in finding.evidence.items()]
        if finding.rewrites:
            parts.append(f"- answered by: {', '.join(finding.rewrites)}")
    return "\n".join(parts)


def _value(value: object) -> str:
    return metric_text(value) if isinstance(value, (int, float)) else str(value)


def launch_text(site: LaunchSite) -> str:
    """A launch in words, as Markdown."""
    shared = f", {site.shared} bytes of dynamic shared memory" if site.shared else ""
    return f"launch of **{site.kernel}**: grid `{site.grid}`, block `{site.block}`{shared}"


def hover_at(server: OptimlServer, document: TextDocument, position: types.Position) -> types.Hover | None:
    parsed = server.documents.parsed(document)
    kernel = kernel_around(parsed, document, position)
    line = position.line + 1
    if kernel is None:
        for site in parsed.unit.launch_sites:
            if site.range.start_line <= line <= site.range.end_line:
                return _hover(launch_text(site), to_client(document, site.range))
        return None
    if kernel.name_range.start_line == line:
        return _hover(kernel_table(server, document.uri, parsed, kernel), to_client(document, kernel.name_range))
    text = line_text(server, document.uri, parsed, kernel, line)
    return _hover(text, line_to_client(document, line)) if text else None


def _hover(text: str, place: types.Range) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), place)


def register(server: OptimlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document = server.cuda_document(params.text_document.uri)
        return None if document is None else hover_at(server, document, params.position)
