"""Every feature of the language server over stdio, with its bad input."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient

from .conftest import SOURCE, apply_edits, change_text, execute, open_text, until

KERNEL_LINE = next(i for i, line in enumerate(SOURCE.splitlines()) if "__global__" in line)
STORE_LINE = next(i for i, line in enumerate(SOURCE.splitlines()) if "out[x * rows" in line)
LAUNCH_LINE = next(i for i, line in enumerate(SOURCE.splitlines()) if "<<<" in line)
ANYWHERE = types.Range(types.Position(0, 0), types.Position(0, 0))


def document(client: Any) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(client.uri)


async def hover(client: LanguageClient, line: int, column: int = 20) -> str:
    params = types.HoverParams(document(client), types.Position(line, column))
    found = await client.text_document_hover_async(params)
    return "" if found is None else found.contents.value  # type: ignore[union-attr]


async def diagnostics(client: LanguageClient) -> list[types.Diagnostic]:
    params = types.DocumentDiagnosticParams(text_document=document(client))
    report = await client.text_document_diagnostic_async(params)
    return list(report.items)  # type: ignore[union-attr]


async def lenses(client: LanguageClient) -> list[types.CodeLens]:
    found = await client.text_document_code_lens_async(types.CodeLensParams(document(client))) or []
    return [await client.code_lens_resolve_async(lens) for lens in found]


async def actions(client: LanguageClient, line: int, found: list[types.Diagnostic], only: Any = None) -> Any:
    place = types.Range(types.Position(line, 4), types.Position(line, 4))
    context = types.CodeActionContext(diagnostics=found, only=only)
    return await client.text_document_code_action_async(types.CodeActionParams(document(client), place, context))


@pytest.mark.asyncio
async def test_capabilities(client: LanguageClient) -> None:
    offered = client.result.capabilities  # type: ignore[attr-defined]
    assert offered.hover_provider
    assert offered.code_lens_provider.resolve_provider
    assert offered.diagnostic_provider.identifier == "optiml"
    assert "optiml.optimize" in offered.execute_command_provider.commands
    # Good neighbours: no completion, no symbols, no formatting.
    assert not offered.completion_provider
    assert not offered.document_symbol_provider
    assert not offered.document_formatting_provider
    await until(lambda: client.seen.registrations)  # type: ignore[attr-defined]


@pytest.mark.asyncio
async def test_profile_fills_lens_hover_and_diagnostics(client: LanguageClient) -> None:
    before = await lenses(client)
    assert len(before) == 3
    answer = await execute(client, "optiml.profile", client.uri, "transpose")  # type: ignore[attr-defined]
    assert answer["status"] == "profiled"
    after = await lenses(client)
    assert len(after) == 3
    assert "predicted" in after[0].command.title  # type: ignore[union-attr]
    assert "predicted for" in await hover(client, KERNEL_LINE, 20)
    found = await diagnostics(client)
    wasted = [d for d in found if d.code == "uncoalesced-access"]
    assert wasted
    assert wasted[0].range.start.line == STORE_LINE
    assert wasted[0].source == "OptiML"
    assert wasted[0].severity == types.DiagnosticSeverity.Information
    assert "bytes per sector" in await hover(client, STORE_LINE)
    # A change of the kernel makes the profile stale, a comment does not.
    change_text(client, client.uri, 2, SOURCE.replace("if (x < cols", "/* a */ if (x < cols"))  # type: ignore[attr-defined]
    assert "before the last edit" not in (await lenses(client))[0].command.title  # type: ignore[union-attr]
    change_text(client, client.uri, 3, SOURCE.replace("x < cols &&", "x < cols - 0 &&"))  # type: ignore[attr-defined]
    assert "before the last edit" in (await lenses(client))[0].command.title  # type: ignore[union-attr]
    # A static finding of the new text may stand for the stale one; a gain is claimed of neither as if it were fresh.
    stale = [d for d in await diagnostics(client) if "est." in d.message]
    assert all("before the last edit" in d.message for d in stale)


@pytest.mark.asyncio
async def test_unchanged_diagnostics_are_not_sent_again(client: LanguageClient) -> None:
    await until(lambda: client.seen.registrations)  # type: ignore[attr-defined]
    first = await client.text_document_diagnostic_async(types.DocumentDiagnosticParams(text_document=document(client)))
    again = await client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(text_document=document(client), previous_result_id=first.result_id)
    )
    assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)


@pytest.mark.asyncio
async def test_optimize_offers_a_patch_and_applies_it_on_a_yes(client: LanguageClient) -> None:
    client.seen.choose = "Apply"  # type: ignore[attr-defined]
    began = time.monotonic()
    task = asyncio.ensure_future(execute(client, "optiml.optimize", client.uri, "transpose"))  # type: ignore[attr-defined]
    await asyncio.sleep(0.5)
    asked = time.monotonic()
    await hover(client, KERNEL_LINE)
    assert time.monotonic() - asked < 0.5  # nothing blocks the editor
    answer = await task
    assert answer["status"] == "better", answer
    assert "predicted" in answer["summary"]
    assert time.monotonic() - began < 60
    edit = client.seen.edits[0].edit.document_changes[0]  # type: ignore[attr-defined]
    assert edit.text_document.version == 1
    after = apply_edits(SOURCE, edit.edits)
    assert "__shared__" in after
    assert "int main()" in after
    assert "transpose" in client.seen.questions[0].message  # type: ignore[attr-defined]
    report = await execute(client, "optiml.showReport", client.uri, "transpose")  # type: ignore[attr-defined]
    assert "<html" in report["html"]
    assert "script-src" not in report["html"]
    assert "<script" not in report["html"]
    content = await client.workspace_text_document_content_async(types.TextDocumentContentParams(answer["candidate"]))
    assert content.text == after
    # The text moved on in the kernel: the result is refused and kept. Elsewhere: it is rebased.
    change_text(client, client.uri, 2, SOURCE.replace("x < cols &&", "x < cols - 0 &&"))  # type: ignore[attr-defined]
    refused = await execute(client, "optiml.applyResult", answer["job"])
    assert refused["status"] == "failed"
    assert "kept" in refused["message"]
    change_text(client, client.uri, 3, "// a new first line\n" + SOURCE)  # type: ignore[attr-defined]
    assert (await execute(client, "optiml.applyResult", answer["job"]))["status"] == "applied"
    moved = client.seen.edits[-1].edit.document_changes[0]  # type: ignore[attr-defined]
    assert apply_edits("// a new first line\n" + SOURCE, moved.edits) == "// a new first line\n" + after


@pytest.mark.asyncio
async def test_cancel_ends_a_job_within_a_second_or_so(client: LanguageClient) -> None:
    client.set_configuration({"runOnOpen": False, "device": "emulator", "seconds": 100}, section="optiml")
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
    await asyncio.sleep(0.3)
    task = asyncio.ensure_future(execute(client, "optiml.optimize", client.uri, "transpose"))  # type: ignore[attr-defined]
    await asyncio.sleep(2.0)
    began = time.monotonic()
    stopped = await execute(client, "optiml.stopJob")
    assert stopped["jobs"] == 1
    answer = await task
    assert answer["status"] in ("cancelled", "better", "no-improvement")
    assert time.monotonic() - began < 3.0


@pytest.mark.asyncio
async def test_code_actions(client: LanguageClient) -> None:
    await execute(client, "optiml.profile", client.uri, "transpose")  # type: ignore[attr-defined]
    found = [d for d in await diagnostics(client) if d.range.start.line == STORE_LINE]
    offered = await actions(client, STORE_LINE, found)
    titles = [action.title for action in offered]
    assert any(title.startswith("Optimize kernel") for title in titles)
    # One fix a finding, which tries every rewrite that answers it.
    fixed = [title for title in titles if title.startswith("Verify and apply ")]
    assert len(fixed) == len([one for one in found if one.data["rewrites"]])
    assert any("swap-thread-roles, shared-tile-transpose" in title for title in fixed)
    only = await actions(client, STORE_LINE, found, [types.CodeActionKind.SourceOrganizeImports])
    assert not only
    fixes = await actions(client, STORE_LINE, found, [types.CodeActionKind.QuickFix])
    assert fixes
    assert all(action.kind == types.CodeActionKind.QuickFix for action in fixes)
    resolved = await client.code_action_resolve_async(offered[0])
    assert resolved.title == offered[0].title
    outside = await actions(client, 0, [])
    assert [action.title for action in outside] == ["Synthesize kernel from this comment"]


@pytest.mark.asyncio
async def test_hover_on_a_launch_and_nowhere(client: LanguageClient) -> None:
    assert "launch of **transpose**" in await hover(client, LAUNCH_LINE)
    assert await hover(client, 0) == ""


BAD = {
    "an unknown kernel": ("optiml.optimize", "URI", "nothing"),
    "an unknown document": ("optiml.optimize", "file:///nowhere.cu", "transpose"),
    "an unknown job": ("optiml.applyResult", "no-such-job"),
    "an unknown kernel to profile": ("optiml.profile", "URI", "nothing"),
    "no repository": ("optiml.verifyAgainstHead", "URI", "transpose"),
    "no such kernel to declare": ("optiml.declareWorkload", "URI", "nothing"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.asyncio
async def test_bad_input_is_a_message(client: LanguageClient, name: str) -> None:
    command, *arguments = BAD[name]
    given = [client.uri if argument == "URI" else argument for argument in arguments]  # type: ignore[attr-defined]
    answer = await execute(client, command, *given)
    assert answer["status"] == "failed"
    assert answer["message"]
    assert client.messages
    assert "Traceback" not in client.messages[-1].message


@pytest.mark.asyncio
async def test_wrong_arguments_and_unknown_candidates_are_protocol_errors(client: LanguageClient) -> None:
    with pytest.raises(JsonRpcException):
        await execute(client, "optiml.optimize", 1, 2, 3, 4)
    with pytest.raises(JsonRpcException):
        await client.workspace_text_document_content_async(types.TextDocumentContentParams("optiml-candidate:///x"))


TEXTS = {
    "empty": "",
    "broken": "__global__ void broken(float* x) { if (",
    "not ASCII": "// Größe 数据 🚀\n__global__ void k(float* größe) { größe[0] = 1.0; /* 🚀 */ }\n",
    "CRLF": SOURCE.replace("\n", "\r\n"),
    "no kernel": "int main() { return 0; }\n",
    "long": "\n".join(f"__device__ int f{i}() {{ return {i}; }}" for i in range(3000)) + "\n" + SOURCE,
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.asyncio
async def test_any_text_is_served(client: LanguageClient, name: str) -> None:
    uri = client.uri.replace("transpose.cu", "other.cu")  # type: ignore[attr-defined]
    open_text(client, uri, TEXTS[name])
    client.uri = uri  # type: ignore[attr-defined]
    await diagnostics(client)
    found = await lenses(client)
    assert len(found) % 3 == 0
    for line in range(min(4, TEXTS[name].count("\n") + 1)):
        await hover(client, line)
        await actions(client, line, [])


@pytest.mark.asyncio
async def test_other_languages_are_left_alone(client: LanguageClient) -> None:
    uri = client.uri.replace("transpose.cu", "notes.txt")  # type: ignore[attr-defined]
    open_text(client, uri, SOURCE, "plaintext")
    client.uri = uri  # type: ignore[attr-defined]
    assert await lenses(client) == []
    assert await diagnostics(client) == []
    assert await hover(client, KERNEL_LINE) == ""


@pytest.mark.asyncio
async def test_wrong_settings_are_logged_and_defaults_hold(client: LanguageClient) -> None:
    client.set_configuration({"device": "toaster", "seconds": "many", "codeLens": False}, section="optiml")
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
    await until(lambda: any("optiml.device" in m.message for m in client.log_messages))
    assert await lenses(client) == []


@pytest.mark.asyncio
async def test_changes_of_the_configuration_are_asked_for(client: LanguageClient) -> None:
    """VS Code sends none to a server that did not register for its section."""
    method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
    await until(lambda: any(one.method == method for one in client.seen.registrations))  # type: ignore[attr-defined]
    (asked,) = [one for one in client.seen.registrations if one.method == method]  # type: ignore[attr-defined]
    assert asked.register_options == {"section": "optiml"}


@pytest.mark.asyncio
async def test_debug_information(client: LanguageClient) -> None:
    assert "OptiML" in await execute(client, "optiml.debugInformation")


@pytest.mark.asyncio
async def test_declare_workload(client: LanguageClient) -> None:
    text = "\n".join(line for line in SOURCE.splitlines() if "optiml:" not in line) + "\n"
    change_text(client, client.uri, 2, text)  # type: ignore[attr-defined]
    answer = await execute(client, "optiml.declareWorkload", client.uri, "transpose")  # type: ignore[attr-defined]
    assert answer["status"] == "applied"
    edit = client.seen.edits[0].edit.document_changes[0]  # type: ignore[attr-defined]
    after = apply_edits(text, edit.edits)
    lines = after.splitlines()
    kernel = next(i for i, line in enumerate(lines) if "__global__" in line)
    assert lines[kernel - 1].startswith("// optiml:")
    assert [line for line in lines if "optiml:" not in line] == text.splitlines()
