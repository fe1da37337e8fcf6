"""Code lenses: always three a kernel, filled from what is known, so that no line ever jumps."""

from __future__ import annotations

from lsprotocol import types

from optiml_core.report.numbers import resource_name, time_text
from optiml_server.documents import find_kernel, kernel_text, to_client
from optiml_server.findings import kernel_findings
from optiml_server.results import digest_of
from optiml_server.session import OptimlServer

KINDS = ("limit", "profile", "optimize")


def lens_command(server: OptimlServer, uri: str, kernel_name: str, kind: str) -> types.Command:
    """The title and the command of one lens, from the store; nothing is computed for it."""
    arguments = [uri, kernel_name]
    if kind == "profile":
        return types.Command(title="Profile", command="optiml.profile", arguments=arguments)
    if kind == "optimize":
        search = server.results.searches.get((uri, kernel_name))
        speedup = search.value.get("speedup") if search is not None and search.after is not None else None
        title = f"Optimize (last: {speedup['value']:.2f}x {speedup['kind']})" if speedup else "Optimize this kernel"
        return types.Command(title=title, command="optiml.optimize", arguments=arguments)
    return types.Command(title=_limit(server, uri, kernel_name), command="optiml.showReport", arguments=arguments)


def _limit(server: OptimlServer, uri: str, kernel_name: str) -> str:
    document = server.cuda_document(uri)
    if document is None:
        return "$(info) not open"
    parsed = server.documents.parsed(document)
    kernel = find_kernel(parsed, kernel_name)
    if kernel is None:
        return kernel_name
    profile = server.results.profiles.get((uri, kernel.qualified))
    if profile is None:
        found = kernel_findings(server, uri, parsed, kernel)
        return f"{len(found)} static finding{'s' * (len(found) > 1)}" if found else "not profiled yet"
    fresh = profile.digest == digest_of(kernel_text(parsed, kernel))
    parts = []
    if profile.value.get("time_us") is not None:
        parts.append(f"{time_text(profile.value['time_us'] * 1e-6)} {profile.value['kind']}")
    roofline = profile.value.get("roofline")
    if roofline:
        parts.append(f"bound by {resource_name(roofline['bound_by'])}, {roofline['fraction']:.0%} of the roofline")
    if not parts:
        parts.append("static findings only" if profile.value.get("findings") else "nothing found")
    return ", ".join(parts) + ("" if fresh else " (before the last edit)")


def register(server: OptimlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions())
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        document = server.cuda_document(params.text_document.uri)
        if document is None or not server.settings.code_lens:
            return []
        parsed = server.documents.parsed(document)
        return [
            types.CodeLens(place, data={"uri": document.uri, "kernel": kernel.qualified, "kind": kind})
            for kernel in parsed.unit.kernels
            for place in (to_client(document, kernel.name_range),)
            for kind in KINDS
        ]

    @server.feature(types.CODE_LENS_RESOLVE)
    def resolve(lens: types.CodeLens) -> types.CodeLens:
        data = lens.data
        if isinstance(data, dict) and {"uri", "kernel", "kind"} <= data.keys():
            lens.command = lens_command(server, str(data["uri"]), str(data["kernel"]), str(data["kind"]))
        return lens
