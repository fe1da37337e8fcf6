"""A result as a workspace edit: minimal, versioned, annotated, one undo step; rebased if only other text changed."""

from __future__ import annotations

import difflib

from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_core.records import Failure
from optiml_server.documents import find_kernel, kernel_text, lines_of, path_of
from optiml_server.results import OptimizeResult, digest_of
from optiml_server.session import OptimlServer

ANNOTATION = "optiml"


def text_edits(document: TextDocument, before: str, after: str) -> list[types.TextEdit]:
    """The lines that differ, as edits in the client's units. ``before`` is the document's text."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    edits = []
    for tag, low, high, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        place = types.Range(_line_start(old, low), _line_start(old, high))
        edits.append(
            types.TextEdit(
                document.position_codec.range_to_client_units(lines_of(document), place), "".join(new[first:last])
            )
        )
    return edits


def _line_start(lines: list[str], index: int) -> types.Position:
    if index < len(lines) or not lines or lines[-1].endswith(("\n", "\r")):
        return types.Position(index, 0)
    return types.Position(index - 1, len(lines[-1]))


def workspace_edit(
    server: OptimlServer, document: TextDocument, after: str, label: str, description: str
) -> types.WorkspaceEdit:
    """The edit in the richest form the client takes; a client with versions refuses it if the text moved on."""
    edits = text_edits(document, document.source, after)
    workspace = server.client_capabilities.workspace
    able = workspace.workspace_edit if workspace else None
    if not (able and able.document_changes):
        return types.WorkspaceEdit(changes={document.uri: edits})
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    if not able.change_annotation_support:
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, list(edits))])
    annotated: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [
        types.AnnotatedTextEdit(ANNOTATION, edit.range, edit.new_text) for edit in edits
    ]
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(identifier, annotated)],
        # A confirmation would open the preview with every box unticked; the diff has been shown before.
        change_annotations={ANNOTATION: types.ChangeAnnotation(label, False, description)},
    )


def rebased(server: OptimlServer, document: TextDocument, result: OptimizeResult) -> str | Failure:
    """The result's text on top of the document as it is now.

    Unchanged text takes it as it is; where the kernel itself is untouched the patch is applied around other edits;
    a changed kernel is a Failure: what was verified is not what stands there now.
    """
    assert result.after is not None
    if document.source == result.before:
        return result.after
    parsed = server.documents.parsed(document)
    kernel = find_kernel(parsed, result.kernel)
    if kernel is None or digest_of(kernel_text(parsed, kernel)) != result.digest:
        return Failure("text-changed", f"{result.kernel} was edited since the search began; the result is kept")
    from optiml_core.language_models.reading import apply_diff
    from optiml_core.source import unified_diff

    diff = unified_diff(result.before.encode(), result.after.encode(), path_of(document))
    changed = apply_diff(parsed.data, diff)
    if isinstance(changed, Failure):
        return Failure("text-changed", f"the text around the patch changed; the result is kept: {changed.message}")
    return changed.decode("utf-8", "surrogatepass")


async def apply_result(server: OptimlServer, result: OptimizeResult) -> str:
    """Asks the client to apply a result; why it did not, or an empty string."""
    document = server.cuda_document(result.uri)
    if document is None:
        return "the document is not open"
    if result.after is None:
        return "there is nothing to apply"
    after = rebased(server, document, result)
    if isinstance(after, Failure):
        return after.message
    edit = workspace_edit(server, document, after, f"OptiML: {result.kernel}", result.summary())
    answer = await server.workspace_apply_edit_async(
        types.ApplyWorkspaceEditParams(edit=edit, label=f"OptiML: optimize {result.kernel}")
    )
    if answer.applied:
        return ""
    return f"the editor refused the edit ({answer.failure_reason or 'the text changed'}); the result is kept"
