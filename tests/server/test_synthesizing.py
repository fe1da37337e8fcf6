"""A kernel from a comment in the buffer: inserted as one versioned edit, or a question and no edit."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_lsp import LanguageClient

from optiml_server.synthesizing_job import with_kernel

from .conftest import apply_edits, execute, open_text

COMMENT = "// Sum over each row of a float matrix m\n// (rows x cols), into sums\nint after;\n"


async def synthesized(client: Any, uri: str, text: str, line: int, choose: str | None = "Insert") -> dict[str, Any]:
    client.seen.choose = choose
    open_text(client, uri, text)
    answer: dict[str, Any] = await execute(client, "optiml.synthesize", uri, line)
    return answer


@pytest.mark.asyncio
@pytest.mark.parametrize("line", [0, 1])
async def test_a_kernel_is_inserted_below_its_comment(client: LanguageClient, line: int) -> None:
    uri = "untitled:Untitled-1"
    answer = await synthesized(client, uri, COMMENT, line)
    assert answer["status"] == "inserted", answer
    seen = client.seen  # type: ignore[attr-defined]
    assert "m (rows x cols): input" in seen.questions[0].message
    (change,) = seen.edits[0].edit.document_changes
    assert change.text_document.version == 1
    after = apply_edits(COMMENT, change.edits)
    assert after.startswith("// Sum over each row of a float matrix m\n// (rows x cols), into sums\n")
    assert after.endswith("int after;\n")
    assert "__global__ void row_sum(" in after
    assert "// optiml: m[rows * cols]: normal, sums[rows]" in after


@pytest.mark.asyncio
async def test_nothing_is_inserted_unasked(client: LanguageClient) -> None:
    answer = await synthesized(client, "untitled:Untitled-2", COMMENT, 0, choose=None)
    assert answer["status"] == "declined"
    assert client.seen.edits == []  # type: ignore[attr-defined]


@pytest.mark.asyncio
async def test_a_question_changes_nothing(client: LanguageClient) -> None:
    text = "// Prefix sum of the n floats in x, into y\n"
    answer = await synthesized(client, "untitled:Untitled-3", text, 0)
    assert answer["status"] == "question"
    assert "inclusive" in answer["question"]
    assert client.seen.edits == []  # type: ignore[attr-defined]


@pytest.mark.asyncio
async def test_a_line_without_a_comment_is_said(client: LanguageClient) -> None:
    answer = await synthesized(client, "untitled:Untitled-4", COMMENT, 2)
    assert answer["status"] == "failed"
    assert "no comment" in answer["message"]


@pytest.mark.parametrize(
    ("text", "line", "after"),
    [
        ("// c", 0, "// c\nk\n"),
        ("// c\r\nx\r\n", 0, "// c\r\nk\r\nx\r\n"),
        ("a\n/* b\n c */\nd\n", 2, "a\n/* b\n c */\nk\nd\n"),
    ],
)
def test_the_text_keeps_its_line_endings(text: str, line: int, after: str) -> None:
    assert with_kernel(text, line, "k\n") == after
