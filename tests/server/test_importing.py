"""Nsight reports in the editor: asked for, or found by the watcher; recorded on an H200 (tests/profiling/recorded)."""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pytest_lsp import LanguageClient

from tests.server.conftest import ROOT, client, execute, open_text, until
from tests.server.test_server import hover

pytestmark = pytest.mark.asyncio

RECORDED = ROOT / "tests" / "profiling" / "recorded"
__all__ = ["client"]


def report(name: str = "several") -> bytes:
    return lzma.decompress((RECORDED / f"{name}.ncu-rep.xz").read_bytes())


async def pulled(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    found = await client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
    )
    return list(getattr(found, "items", []))


def opened(client: Any, tmp_path: Path) -> tuple[str, str]:
    """The report's own source is opened from another folder than it was profiled in."""
    text = (RECORDED / "several.cu").read_text()
    file = tmp_path / "several.cu"
    file.write_text(text)
    open_text(client, file.as_uri(), text)
    return file.as_uri(), text


def line_of(text: str, start: str) -> int:
    return next(number for number, line in enumerate(text.split("\n")) if start in line)


async def test_a_report_becomes_diagnostics_and_hovers(client: Any, tmp_path: Path) -> None:
    uri, text = opened(client, tmp_path)
    path = tmp_path / "elsewhere.bin"
    path.write_bytes(report())
    before = await pulled(client, uri)
    answer = await execute(client, "optiml.importReport", str(path))
    assert answer["status"] == "imported"
    assert "row_sums" in answer["kernels"]
    # The example has a kernel named `transpose` as well, which is not the report's: its file is another one.
    assert all(kernel != "transpose" or "transpose" in text for kernel in answer["kernels"])
    after = await pulled(client, uri)
    assert {one.message for one in after} != {one.message for one in before}
    assert "measured" in await hover_at(client, uri, line_of(text, "row_sums("))
    example = await hover(client, line_of((ROOT / "examples" / "transpose.cu").read_text(), "__global__"))
    assert "measured" not in example


async def hover_at(client: LanguageClient, uri: str, line: int) -> str:
    position = types.Position(line, 20)
    found = await client.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), position))
    return str(getattr(getattr(found, "contents", None), "value", ""))


BAD = {
    "missing": "cannot be read",
    "folder": "no plain file",
    "link": "no plain file",
    "pipe": "no plain file",
    "huge": "at most 256 MiB",
    "empty": "",
    "truncated": "",
    "text": "",
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_reports_are_messages(client: Any, tmp_path: Path, name: str) -> None:
    opened(client, tmp_path)
    path = tmp_path / f"{name}.report"
    match name:
        case "folder":
            path.mkdir()
        case "link":
            (tmp_path / "real").write_bytes(report())
            path.symlink_to(tmp_path / "real")
        case "pipe":
            os.mkfifo(path)
        case "huge":
            path.touch()
            os.truncate(path, 257 << 20)
        case "empty":
            path.touch()
        case "truncated":
            path.write_bytes(report()[:5000])
        case "text":
            path.write_text("this is no report\n" * 10)
    answer = await execute(client, "optiml.importReport", str(path))
    assert answer["status"] == "failed"
    assert BAD[name] in answer["message"]
    assert path.name in answer["message"] or "report" in answer["message"]
    assert "Traceback" not in answer["message"]


async def test_a_report_without_a_kernel_of_ours(client: Any, tmp_path: Path) -> None:
    """Only the transpose example is open; the report's `transpose` comes from another file."""
    path = tmp_path / "other.report"
    path.write_bytes(report())
    answer = await execute(client, "optiml.importReport", str(path))
    assert answer["status"] == "failed"
    assert "no kernel of an open file" in answer["message"]


async def test_a_report_that_appears_is_read_by_itself(client: Any, tmp_path: Path) -> None:
    uri, text = opened(client, tmp_path)
    await until(lambda: any("watching" in str(one.message) for one in client.log_messages), 20)
    (tmp_path / "run.ncu-rep").write_bytes(report())
    await until(lambda: any("tells of" in str(one.message) for one in client.log_messages), 40)
    assert "measured" in await hover_at(client, uri, line_of(text, "row_sums("))
