"""Training pairs on disk: JSON lines with a prompt and its answer, read whole and checked line by line.

A line is ``{"prompt": "...", "answer": "...", "generator": "...", "group": "..."}``. ``generator`` says what made the
pair. ``group`` joins pairs that come from one kernel, so that none of them is trained on while another is held out;
without it a pair's prompt is its group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from optiml_core.mixture_of_thoughts.mixture import Pair
from optiml_core.records import Failure


@frozen
class TrainingPair:
    """A pair with where it came from. ``line`` counts from 1."""

    pair: Pair
    generator: str
    group: str
    line: int


@frozen
class TrainingData:
    """``digest`` names the file's contents. ``too_long``: pairs left out for their length."""

    trained: tuple[TrainingPair, ...]
    held_out: tuple[TrainingPair, ...]
    digest: str
    too_long: int = 0


def read_training_data(path: Path, held_out: float = 0.05, longest: int = 8192) -> TrainingData | Failure:
    """Reads pairs and sets a share of their groups apart.

    ``held_out``: the share, of groups. ``longest``: bytes of prompt and answer together. The first bad line is the
    Failure, with file and line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        return Failure("bad-input", f"cannot be read: {error.strerror}", str(path))
    trained: list[TrainingPair] = []
    apart: list[TrainingPair] = []
    too_long = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        found = _read_line(line, number)
        if isinstance(found, str):
            cure = 'a line is {"prompt": "...", "answer": "..."}'
            return Failure("bad-input", found, str(path), number, cure=cure)
        if len(found.pair.prompt) + len(found.pair.answer) > longest:
            too_long += 1
        elif _share_of(found.group) < held_out:
            apart.append(found)
        else:
            trained.append(found)
    if not trained:
        reason = f"all {too_long} pairs are longer than {longest} bytes" if too_long else "no pairs to train on"
        return Failure("bad-input", reason, str(path), cure="`optiml training-pairs` makes some")
    return TrainingData(tuple(trained), tuple(apart), hashlib.sha256(data).hexdigest(), too_long)


def _read_line(line: bytes, number: int) -> TrainingPair | str:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        return "not UTF-8"
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(value, dict):
        return f"not a JSON object but {type(value).__name__}"
    prompt = _text(value, "prompt")
    answer = _text(value, "answer")
    if isinstance(prompt, Failure):
        return prompt.message
    if isinstance(answer, Failure):
        return answer.message
    group = value.get("group")
    return TrainingPair(
        Pair(prompt, answer), str(value.get("generator", "")), prompt.decode() if group is None else str(group), number
    )


def _text(value: Mapping[str, Any], key: str) -> bytes | Failure:
    text = value.get(key)
    if text is None:
        return Failure("bad-input", f'no "{key}"')
    if not isinstance(text, str):
        return Failure("bad-input", f'"{key}" is no text but {type(text).__name__}')
    if not text.strip():
        return Failure("bad-input", f'"{key}" is empty')
    try:
        return text.encode()
    except UnicodeEncodeError:
        return Failure("bad-input", f'"{key}" holds half a character (a lone surrogate)')


def _share_of(group: str) -> float:
    """Where a group lies between 0 and 1, for ever the same."""
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:6], "big") / 2**48
