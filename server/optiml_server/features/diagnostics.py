"""Diagnostics: pulled by clients that can, pushed to the others."""

from __future__ import annotations

from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_server.findings import kernel_findings, to_diagnostic
from optiml_server.session import OptimlServer


def document_diagnostics(server: OptimlServer, document: TextDocument) -> list[types.Diagnostic]:
    """All findings of a document, in the order of its kernels."""
    if not server.settings.diagnostics:
        return []
    parsed = server.documents.parsed(document)
    return [
        to_diagnostic(document, finding, kernel)
        for kernel in parsed.unit.kernels
        for finding in kernel_findings(server, document.uri, parsed, kernel)
    ]


def publish(server: OptimlServer, uri: str) -> None:
    """Pushes a document's diagnostics to a client that does not pull."""
    document = server.cuda_document(uri)
    if document is None or server.pulls_diagnostics:
        return
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(
            uri=uri, version=document.version, diagnostics=document_diagnostics(server, document)
        )
    )


def register(server: OptimlServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(identifier="optiml", inter_file_dependencies=False, workspace_diagnostics=False),
    )
    def pull(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        document = server.cuda_document(params.text_document.uri)
        if document is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        result_id = f"{document.version}-{server.results.generation}-{hash(server.settings) & 0xFFFFFF:x}"
        if params.previous_result_id == result_id:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result_id)
        return types.RelatedFullDocumentDiagnosticReport(
            items=document_diagnostics(server, document), result_id=result_id
        )
