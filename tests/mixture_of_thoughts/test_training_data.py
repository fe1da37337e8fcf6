"""Training data: each bad line is named with its file and number; groups are never torn apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `llm`")

from optiml_core.mixture_of_thoughts.training_data import TrainingData, read_training_data
from optiml_core.records import Failure

GOOD = json.dumps({"prompt": "p", "answer": "a"})


def read(tmp_path: Path, text: str | bytes, **options: float) -> TrainingData | Failure:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_training_data(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object but list"),
        ('{"prompt": "p"}', 'no "answer"'),
        ('{"answer": "a"}', 'no "prompt"'),
        ('{"prompt": 3, "answer": "a"}', '"prompt" is no text but int'),
        ('{"prompt": "p", "answer": " \\n"}', '"answer" is empty'),
        ('{"prompt": "p", "answer": "\\ud800"}', "lone surrogate"),
        (b'{"prompt": "\xff", "answer": "a"}', "not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str | bytes, says: str) -> None:
    data = line.encode() if isinstance(line, str) else line
    found = read(tmp_path, GOOD.encode() + b"\n\n" + data + b"\n" + GOOD.encode())
    assert isinstance(found, Failure)
    assert says in found.message
    assert (found.file, found.line) == (str(tmp_path / "pairs.jsonl"), 3)


@pytest.mark.parametrize("text", ["", "\n\n", json.dumps({"prompt": "p" * 90, "answer": "a"})])
def test_no_pairs_is_a_failure(tmp_path: Path, text: str) -> None:
    assert isinstance(read(tmp_path, text, longest=50), Failure)


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    found = read_training_data(tmp_path / "none.jsonl")
    assert isinstance(found, Failure)
    assert found.file == str(tmp_path / "none.jsonl")


def test_a_group_is_wholly_trained_or_wholly_held_out(tmp_path: Path) -> None:
    made = [(group, name) for group in range(60) for name in "abc"]
    lines = [{"prompt": f"{g} {n}", "answer": "a", "group": f"g{g}", "generator": "x"} for g, n in made]
    found = read(tmp_path, "\n".join(map(json.dumps, lines)), held_out=0.3)
    assert isinstance(found, TrainingData)
    trained, apart = {one.group for one in found.trained}, {one.group for one in found.held_out}
    assert not trained & apart
    assert 8 <= len(apart) <= 30
    assert len(found.trained) + len(found.held_out) == 180
    assert {one.generator for one in found.trained} == {"x"}


def test_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD + "\n" + json.dumps({"prompt": "p" * 90, "answer": "a"}), held_out=0.0, longest=50)
    assert isinstance(found, TrainingData)
    assert (len(found.trained), found.too_long) == (1, 1)


def test_generated_pairs_are_read() -> None:
    """A few pairs as `optiml training-pairs` wrote them: the two commands agree on the form."""
    path = Path(__file__).parents[1] / "bench" / "fixtures" / "training_pairs.jsonl"
    found = read_training_data(path, held_out=0.0)
    assert isinstance(found, TrainingData)
    assert len(found.trained) == 10
    assert len({one.generator for one in found.trained}) == 10
    assert all(one.pair.prompt.endswith(b"\n") and one.pair.answer.endswith(b"```\n") for one in found.trained)
