"""``RecordedDevice`` answers as a GPU did once: times, counters and the sanitizer's words come from the record."""

from __future__ import annotations

import contextlib
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from optiml_core.device.protocol import Built, Contents, Device, RunOptions, RunResult
from optiml_core.device.recorded.answers import check_of, failure_in, resources_of, run_of
from optiml_core.device.recorded.record import (
    DeviceRecord,
    contents_digest,
    key_of,
    launch_facts,
    option_facts,
    variant_digest,
)
from optiml_core.device.recorded.recorder import emulated_run
from optiml_core.records import Check, Failure, Launch, Variant

DEFAULT_OPTIONS = RunOptions()
CURE = "replay the search that was recorded, or record again: benchmarks/record_search.py"


class RecordedDevice:
    """A ``MeasuringDevice`` that replays a record.

    ``emulator`` gives back the outputs whose digests the record holds, and is checked against them: other bits are a
    Failure. A run that the record does not have is the emulator's alone and is counted in ``unrecorded_runs`` (those it
    has in ``recorded_runs``); a time, a count or a check that it does not have is a Failure ``not-recorded``.
    """

    def __init__(self, record: DeviceRecord, emulator: Device) -> None:
        self._record = record
        self._emulator = emulator
        self._given: dict[str, int] = {}
        self._now = 0.0
        self._digests: list[tuple[Contents, str]] = []
        self.recorded_runs = 0
        self.unrecorded_runs = 0

    @property
    def name(self) -> str:
        return "recorded"

    @property
    def record(self) -> DeviceRecord:
        return self._record

    def target(self) -> str | Failure:
        about = self._record.about
        return f"{about.get('gpu', 'unknown GPU')}, recorded {about.get('date', 'at an unknown date')}"

    def clock(self) -> float:
        """The recorded clock: it moves on by what each answer took when it was given."""
        return self._now

    def conditions(self) -> tuple[str, ...]:
        return (f"replayed from a record of {self._record.about.get('date', 'an unknown date')}",)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Failure | None]:
        yield None

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        digest = variant_digest(variant, template_arguments)
        answer = self._next(key_of("build", digest, widened), repeat=True)
        if answer is None:
            return Failure("not-recorded", "the record does not have this variant", cure=CURE)
        failure = failure_in(answer)
        if failure is not None:
            return failure
        return Built(digest, variant, resources_of(answer), widened, answer["log"])

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions = DEFAULT_OPTIONS
    ) -> RunResult | Failure:
        answer = self._next(self._key("run", built, launch, contents, option_facts(options)), repeat=True)
        failure = failure_in(answer) if answer is not None else None
        self.recorded_runs += answer is not None
        if failure is not None:
            return failure
        computed = emulated_run(self._emulator, built, launch, contents, options)
        if answer is not None:
            result = run_of(answer, contents.buffers, computed)
            return result or Failure("not-recorded", "the emulator computes other bits than the GPU did", cure=CURE)
        if computed is None:
            return Failure(
                "not-recorded", "the record does not have this run, and the emulator cannot do it", cure=CURE
            )
        self.unrecorded_runs += 1
        return computed

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        """The next recorded time of this launch. When they are used up there is none: a number is not given twice."""
        answer = self._next(self._key("time", built, launch, contents, repetitions, flush), repeat=False)
        if answer is None:
            return Failure("not-recorded", "the record has no further time of this launch", cure=CURE)
        failure = failure_in(answer)
        if failure is not None:
            return failure
        self._now += float(answer["passed"])
        return float(answer["seconds"])

    def sanitize(self, built: Built, launch: Launch, contents: Contents, checker: str) -> Check:
        answer = self._next(self._key("sanitize", built, launch, contents, checker), repeat=True)
        if answer is None:
            return Check(f"compute-sanitizer {checker}", "not_run", "the record does not have it")
        return check_of(answer)

    def write_ncu_report(self, built: Built, launch: Launch, contents: Contents, report: Path) -> str | Failure:
        answer = self._next(self._key("ncu", built, launch, contents), repeat=True)
        if answer is None:
            return Failure("not-recorded", "the record has no counters of this launch", cure=CURE)
        failure = failure_in(answer)
        if failure is not None:
            return failure
        kept = self._record.folder / Path(answer["report"]).name
        try:
            report.write_bytes(lzma.decompress(kept.read_bytes()))
        except (OSError, lzma.LZMAError) as error:
            return Failure("bad-input", f"a report of the record cannot be read: {error}", str(kept))
        return str(answer["symbol"])

    def close(self) -> None:
        """Nothing to end: the emulator is its owner's."""

    def _next(self, key: str, *, repeat: bool) -> Any:
        """The next answer to a question, the last one again where ``repeat``; None where there is none."""
        answers = self._record.answers.get(key, ())
        index = self._given.get(key, 0)
        if index >= len(answers):
            return answers[-1] if repeat and answers else None
        self._given[key] = index + 1
        return answers[index]

    def _key(self, kind: str, built: Built, launch: Launch, contents: Contents, *more: object) -> str:
        what = variant_digest(built.variant, launch.template_arguments)
        return key_of(kind, what, launch_facts(launch), self._contents(contents), *more)

    def _contents(self, contents: Contents) -> str:
        for known, digest in self._digests:
            if known is contents:
                return digest
        self._digests = [*self._digests[-3:], (contents, contents_digest(contents))]
        return self._digests[-1][1]
