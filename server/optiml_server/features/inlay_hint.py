"""Inlay hints, off by default: what each access costs, at the end of its line."""

from __future__ import annotations

from lsprotocol import types

from optiml_server.documents import line_to_client
from optiml_server.findings import kernel_findings
from optiml_server.session import OptimlServer

SHORT = {
    "uncoalesced-access": "sectors wasted",
    "shared-bank-conflict": "bank conflicts",
    "narrow-access": "narrow",
    "register-spill": "spills",
    "divergence": "divergent",
    "atomic-contention": "contended",
    "memory-latency": "waits",
}


def register(server: OptimlServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        document = server.cuda_document(params.text_document.uri)
        if document is None or not server.settings.inlay_hints:
            return []
        parsed = server.documents.parsed(document)
        hints = []
        for kernel in parsed.unit.kernels:
            for finding in kernel_findings(server, document.uri, parsed, kernel):
                place = line_to_client(document, finding.line).end
                if finding.kind in SHORT and params.range.start.line <= place.line <= params.range.end.line:
                    tooltip = finding.message
                    hints.append(types.InlayHint(place, f" {SHORT[finding.kind]}", tooltip=tooltip, padding_left=True))
        return hints
