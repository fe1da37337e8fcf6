"""Keeps what a GPU answers, while a search or anything else uses it."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from attrs import evolve

from optiml_core.device.protocol import Built, Contents, Device, MeasuringDevice, RunOptions, RunResult
from optiml_core.device.recorded.answers import build_json, check_json, failure_json, run_json
from optiml_core.device.recorded.record import (
    REPORT_SUFFIX,
    DeviceRecord,
    contents_digest,
    key_of,
    launch_facts,
    option_facts,
    variant_digest,
    write_record,
)
from optiml_core.records import Check, Failure, Launch, Variant

DEFAULT_OPTIONS = RunOptions()
MORE_TIMINGS = 24  # taken of every launch that was timed, so that a replay may ask for a few more than the search did


class RecordingDevice:
    """A ``MeasuringDevice`` that passes everything on to ``device`` and keeps the answers.

    ``emulator`` computes each run too: where it gets the same bits, the record needs only their digest.
    ``hide``: texts that only this machine knows (folders, say), which are blanked out wherever they stand.
    """

    def __init__(
        self,
        device: MeasuringDevice,
        emulator: Device,
        folder: Path,
        hide: Sequence[str] = (),
    ) -> None:
        self._device = device
        self._emulator = emulator
        self._folder = folder
        # The longest first: a folder's path begins with those of the folders around it.
        self._hide = sorted((text for text in hide if len(text) > 1), key=len, reverse=True)
        self._answers: dict[str, list[Mapping[str, Any]]] = {}
        self._reports: list[str] = []
        self._timed: dict[str, tuple[Built, Launch, Contents, int, bool]] = {}
        self._digests: list[tuple[Contents, str]] = []

    @property
    def name(self) -> str:
        return self._device.name

    def save(self, about: Mapping[str, Any]) -> DeviceRecord:
        """Takes the further timings and writes the record."""
        for key, (built, launch, contents, repetitions, flush) in self._timed.items():
            for _ in range(MORE_TIMINGS):
                self._time(key, built, launch, contents, repetitions, flush)
        answers = {key: tuple(entries) for key, entries in self._answers.items()}
        record = DeviceRecord(about, answers, self._folder, tuple(self._reports))
        write_record(record)
        return record

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        built = self._device.build(variant, template_arguments, widened)
        digest = variant_digest(variant, template_arguments)
        key = key_of("build", digest, widened)
        if isinstance(built, Failure):
            failure = evolve(built, message=self._clean(built.message), file=None)
            self._answers[key] = [failure_json(failure)]
            return built
        self._answers[key] = [build_json(built.resources, self._clean(built.log))]
        return built

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions = DEFAULT_OPTIONS
    ) -> RunResult | Failure:
        result = self._device.run(built, launch, contents, options)
        key = self._key("run", built, launch, contents, option_facts(options))
        if isinstance(result, Failure):
            self._answers[key] = [failure_json(evolve(result, message=self._clean(result.message)))]
            return result
        self._answers[key] = [run_json(result, emulated_run(self._emulator, built, launch, contents, options))]
        return result

    def target(self) -> str | Failure:
        return self._device.target()

    def clock(self) -> float:
        return self._device.clock()

    def conditions(self) -> tuple[str, ...]:
        return self._device.conditions()

    def exclusive(self) -> AbstractContextManager[Failure | None]:
        return self._device.exclusive()

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        key = self._key("time", built, launch, contents, repetitions, flush)
        self._timed[key] = (built, launch, contents, repetitions, flush)
        return self._time(key, built, launch, contents, repetitions, flush)

    def _time(
        self, key: str, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        began = self._device.clock()
        seconds = self._device.time_launches(built, launch, contents, repetitions, flush)
        passed = self._device.clock() - began
        answer = failure_json(seconds) if isinstance(seconds, Failure) else {"seconds": seconds, "passed": passed}
        self._answers.setdefault(key, []).append(answer)
        return seconds

    def sanitize(self, built: Built, launch: Launch, contents: Contents, checker: str) -> Check:
        check = self._device.sanitize(built, launch, contents, checker)
        self._answers[self._key("sanitize", built, launch, contents, checker)] = [
            check_json(evolve(check, detail=self._clean(check.detail)))
        ]
        return check

    def write_ncu_report(self, built: Built, launch: Launch, contents: Contents, report: Path) -> str | Failure:
        symbol = self._device.write_ncu_report(built, launch, contents, report)
        key = self._key("ncu", built, launch, contents)
        if isinstance(symbol, Failure):
            self._answers[key] = [failure_json(symbol)]
            return symbol
        data = report.read_bytes()
        for text in self._hide:
            # As many bytes as there were: a report's fields have lengths.
            data = data.replace(text.encode(), b"-" * len(text.encode()))
        name = hashlib.sha256(data).hexdigest()[:16] + REPORT_SUFFIX
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_bytes(lzma.compress(data, preset=9))
        self._reports.append(name)
        self._answers[key] = [{"report": name, "symbol": symbol}]
        return symbol

    def close(self) -> None:
        self._device.close()

    def _clean(self, text: str) -> str:
        for hidden in self._hide:
            text = text.replace(hidden, "-" * len(hidden))
        return text

    def _key(self, kind: str, built: Built, launch: Launch, contents: Contents, *more: object) -> str:
        what = variant_digest(built.variant, launch.template_arguments)
        return key_of(kind, what, launch_facts(launch), self._contents(contents), *more)

    def _contents(self, contents: Contents) -> str:
        """The digest of contents, which a comparison asks for again and again."""
        for known, digest in self._digests:
            if known is contents:
                return digest
        self._digests = [*self._digests[-3:], (contents, contents_digest(contents))]
        return self._digests[-1][1]


def emulated_run(
    emulator: Device, built: Built, launch: Launch, contents: Contents, options: RunOptions
) -> RunResult | None:
    """What the emulator computes for the same launch, unchecked; None where it cannot run it."""
    here = emulator.build(built.variant, launch.template_arguments)
    if isinstance(here, Failure):
        return None
    result = emulator.run(here, launch, contents, evolve(options, checks=False, counts=False))
    return None if isinstance(result, Failure) else result
