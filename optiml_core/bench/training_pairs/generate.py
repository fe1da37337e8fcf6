"""Writes training pairs to a file, unit after unit; a stopped run goes on where it was, and ends as if never stopped.

Each generator (a rewrite, a recipe's pattern) must pass one full verdict before any of its pairs is written; besides,
a share of all pairs gets one. What fails is counted and left out, and from then on every pair of that generator in that
family of kernels gets the full verdict. (What was written before stays: the counts name it.)
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from optiml_core.bench.training_pairs.pairs import UnitResult, VerifiedPair
from optiml_core.bench.training_pairs.workers import Workers, open_maker
from optiml_core.records import Failure

VERSION = 2  # of what a seed draws

OnUnit = Callable[["Progress", int, float], None]
Prove = Callable[[int, str], str]


@define
class Progress:
    """What is done: units, bytes of the file, and counts by generator. Written after every unit."""

    seed: int
    version: int = VERSION
    units: int = 0
    size: int = 0
    pairs: int = 0
    duplicates: int = 0
    written: dict[str, int] = field(factory=dict)
    refused: dict[str, int] = field(factory=dict)
    reasons: dict[str, str] = field(factory=dict)
    proved: dict[str, int] = field(factory=dict)
    disproved: dict[str, int] = field(factory=dict)
    suspect: dict[str, int] = field(factory=dict)  # generator and family with a failed full verdict
    seconds: float = 0.0


@frozen
class Generated:
    """``added`` pairs in ``seconds`` by this run; ``progress`` counts all runs."""

    progress: Progress
    added: int
    seconds: float
    finished: bool


def generate(
    path: Path,
    pairs: int,
    *,
    seed: int = 0,
    workers: int = 2,
    on_unit: OnUnit = lambda progress, added, seconds: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generated | Failure:
    """Makes units until the file holds at least ``pairs``. ``on_unit`` gets the pairs added and seconds so far.

    The file of another seed or version is refused. Raises OSError where the file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="optiml-pairs-") as scratch:
        cache = Path(scratch) / "emulator"
        crew = Workers(seed, workers, cache)
        try:
            with open_maker(seed, cache) as prover:
                return write_units(
                    path, pairs, seed, lambda first: crew.units(first, cancelled), prover.full_verdict, on_unit
                )
        finally:
            crew.close()


def write_units(
    path: Path,
    pairs: int,
    seed: int,
    units: Callable[[int], Iterator[tuple[int, UnitResult | Failure]]],
    prove: Prove,
    on_unit: OnUnit = lambda progress, added, seconds: None,
) -> Generated | Failure:
    """Appends what ``units(first)`` yields in order; ``prove(unit, digest)``: what a full verdict says against it."""
    progress = _resume(path, seed)
    if isinstance(progress, Failure):
        return progress
    started, before, earlier = time.monotonic(), progress.pairs, progress.seconds
    seen = {VerifiedPair(one["prompt"], one["answer"], "", {}).digest for one in _lines(path)}
    if progress.pairs < pairs:
        with path.open("ab") as file:
            for number, result in units(progress.units):
                if isinstance(result, Failure):
                    return result
                for pair in _accepted(number, result, progress, seen, prove):
                    file.write(_line(seed, number, pair))
                file.flush()
                progress.units = number + 1
                progress.size = file.tell()
                progress.seconds = earlier + time.monotonic() - started
                _write_progress(path, progress)
                on_unit(progress, progress.pairs - before, time.monotonic() - started)
                if progress.pairs >= pairs:
                    break
    return Generated(progress, progress.pairs - before, time.monotonic() - started, progress.pairs >= pairs)


def _accepted(number: int, result: UnitResult, progress: Progress, seen: set[str], prove: Prove) -> list[VerifiedPair]:
    """The unit's pairs that are new, not disproved, and of a generator with a full verdict. Counts everything."""
    for generator, (count, reason) in result.refused.items():
        _add(progress.refused, generator, count)
        progress.reasons.setdefault(generator, reason)
    found = []
    for pair in result.pairs:
        if pair.digest in seen:
            progress.duplicates += 1
            continue
        full, reason = pair.full, pair.reason
        kind = f"{pair.generator}, {pair.facts.get('family', '')}"
        if full == "not run" and (pair.generator not in progress.proved or kind in progress.suspect):
            reason = prove(number, pair.digest)
            full = "failed" if reason else "passed"
        if full == "failed":
            _add(progress.disproved, pair.generator, 1)
            _add(progress.suspect, kind, 1)
            progress.reasons.setdefault(f"{pair.generator}, full verdict", reason)
            continue
        if full == "passed":
            _add(progress.proved, pair.generator, 1)
        seen.add(pair.digest)
        _add(progress.written, pair.generator, 1)
        progress.pairs += 1
        found.append(VerifiedPair(pair.prompt, pair.answer, pair.generator, pair.facts, full))
    return found


def _line(seed: int, number: int, pair: VerifiedPair) -> bytes:
    value: dict[str, Any] = {
        "prompt": pair.prompt,
        "answer": pair.answer,
        "generator": pair.generator,
        "group": f"{seed}/{number}",
        "quick_gate": "passed",
        "full_verdict": pair.full,
        **pair.facts,
    }
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def progress_file(path: Path) -> Path:
    return path.with_name(path.name + ".progress")


def _write_progress(path: Path, progress: Progress) -> None:
    target = progress_file(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(progress), indent=1, sort_keys=True), encoding="utf-8")
    os.replace(temporary, target)


def _resume(path: Path, seed: int) -> Progress | Failure:
    """The progress of an earlier run, with the file cut to what it vouches for."""
    target = progress_file(path)
    if not target.exists():
        if path.exists() and path.stat().st_size:
            cure = "give another name, or remove the file"
            told = "there is a file without its progress; it is not overwritten"
            return Failure("bad-input", told, str(path), cure=cure)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return Progress(seed)
    try:
        progress = Progress(**json.loads(target.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        return Failure("bad-input", f"no readable progress: {error}", str(target))
    if (progress.seed, progress.version) != (seed, VERSION):
        told = f"the file is of seed {progress.seed} and version {progress.version}, not of {seed} and {VERSION}"
        return Failure("bad-input", told, str(path), cure="give its seed, or another file")
    if not path.exists() or path.stat().st_size < progress.size:
        return Failure("bad-input", "the file is shorter than its progress says", str(path), cure="remove both files")
    with path.open("rb+") as file:
        file.truncate(progress.size)
    return progress


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _add(counts: dict[str, int], key: str, count: int) -> None:
    counts[key] = counts.get(key, 0) + count
