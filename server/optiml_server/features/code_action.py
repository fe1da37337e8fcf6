"""Code actions under our own kind: nothing of ours runs on save or with "fix all"."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.workspace import TextDocument

from optiml_core.records import Kernel
from optiml_server.documents import Parsed, kernel_around, lines_of
from optiml_server.findings import SOURCE
from optiml_server.session import OptimlServer

KIND = "refactor.rewrite.optiml"


def _action(title: str, command: str, arguments: list[Any], **more: Any) -> types.CodeAction:
    return types.CodeAction(
        title=title, kind=more.pop("kind", KIND), command=types.Command(title, command, arguments=arguments), **more
    )


def quick_fixes(uri: str, diagnostics: list[types.Diagnostic]) -> list[types.CodeAction]:
    """One for each finding: tries the rewrites that answer it and nothing else, and offers what passed and helped most.

    Which of them helps depends on the kernel: swapping the roles of the threads mends a kernel whose accesses all walk
    the same way, and leaves a transpose as slow as it was. So all are tried, and nobody has to choose blindly.
    """
    actions = []
    for diagnostic in diagnostics:
        data = diagnostic.data
        if diagnostic.source != SOURCE or not isinstance(data, dict):
            continue
        rewrites = [str(one) for one in data.get("rewrites") or ()]
        if not rewrites:
            continue
        actions.append(
            _action(
                f"Verify and apply {_listed(rewrites)}",
                "optiml.tryRewrite",
                [uri, data.get("kernel"), rewrites],
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[diagnostic],
                is_preferred=True,
            )
        )
    return actions


def _listed(names: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or 2 more``."""
    if len(names) <= 2:
        return " or ".join(names)
    return f"{names[0]}, {names[1]} or {len(names) - 2} more"


def kernel_actions(server: OptimlServer, uri: str, parsed: Parsed, kernel: Kernel) -> list[types.CodeAction]:
    name = kernel.qualified
    actions = [_action(f"Optimize kernel '{kernel.name}'", "optiml.optimize", [uri, name])]
    from optiml_core.workload import parse_declaration

    if parse_declaration(parsed.unit.source.text, kernel).is_empty:
        title = f"Declare the inferred workload of '{kernel.name}'"
        actions.append(_action(title, "optiml.declareWorkload", [uri, name]))
    if server.trusted:
        title = f"Verify '{kernel.name}' against the last commit"
        actions.append(_action(title, "optiml.verifyAgainstHead", [uri, name]))
    return actions


def comment_actions(document: TextDocument, line: int) -> list[types.CodeAction]:
    """On a comment outside a kernel: make a kernel from it."""
    lines = lines_of(document)
    if line >= len(lines) or not lines[line].lstrip().startswith(("//", "/*", "*")) or "optiml:" in lines[line]:
        return []
    return [_action("Synthesize kernel from this comment", "optiml.synthesize", [document.uri, line])]


def register(server: OptimlServer) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[KIND, types.CodeActionKind.QuickFix], resolve_provider=True),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        document = server.cuda_document(params.text_document.uri)
        if document is None:
            return []
        parsed = server.documents.parsed(document)
        kernel = kernel_around(parsed, document, params.range.start)
        actions: list[types.CodeAction] = []
        if server.trusted:
            actions += quick_fixes(document.uri, list(params.context.diagnostics))
            if kernel is not None:
                actions += kernel_actions(server, document.uri, parsed, kernel)
            else:
                actions += comment_actions(document, params.range.start.line)
        wanted = params.context.only
        if wanted is None:
            return actions
        return [a for a in actions if any(_covers(kind, a.kind) for kind in wanted)]

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        # VS Code resolves every action, also those that carry only a command.
        return action


def _covers(wanted: object, kind: object) -> bool:
    """Whether a kind that a client asks for covers ours: kinds are hierarchies of dotted words."""
    outer, inner = str(getattr(wanted, "value", wanted)), str(getattr(kind, "value", kind))
    return outer == "" or inner == outer or inner.startswith(outer + ".")
