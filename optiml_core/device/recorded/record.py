"""The record of a device: which question had which answers, by digests of what was asked.

A folder holds ``record.json.gz`` and the Nsight Compute reports it names. Outputs are kept as digests where the
emulator computes the same bits, so that a record stays small; the bytes themselves are kept where it does not.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from optiml_core.device.protocol import Array, Contents, RunOptions
from optiml_core.records import Failure, Launch, Variant

FILE = "record.json.gz"
FORMAT = 1
REPORT_SUFFIX = ".ncu-rep.xz"
LARGEST = 64 << 20  # bytes of JSON that a record may unpack to


@frozen
class DeviceRecord:
    """``about``: the GPU, driver, date and command, and whatever a replay is compared with. ``answers``: kind of
    question and digest -> the answers in the order in which they were given. ``reports``: names of files added."""

    about: Mapping[str, Any]
    answers: Mapping[str, tuple[Mapping[str, Any], ...]]
    folder: Path
    reports: tuple[str, ...] = field(default=())


def read_record(folder: Path) -> DeviceRecord | Failure:
    """The record in ``folder``; a damaged or missing one is a Failure that says so."""
    path = folder / FILE
    try:
        with gzip.open(path) as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            return Failure("bad-input", "the record is too large", str(path))
        content = json.loads(data)
        if content["format"] != FORMAT:
            return Failure(
                "bad-input", f"a record of format {content['format']}, this version reads {FORMAT}", str(path)
            )
        answers = {key: tuple(entries) for key, entries in content["answers"].items()}
        return DeviceRecord(content["about"], answers, folder)
    except FileNotFoundError:
        return Failure("bad-input", f"no record: {FILE} is not there", str(folder))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Failure("bad-input", f"not a record of a device: {type(error).__name__}: {error}", str(path))


def write_record(record: DeviceRecord) -> None:
    """Writes the record into its folder; the same content gives the same bytes."""
    record.folder.mkdir(parents=True, exist_ok=True)
    answers = {key: list(record.answers[key]) for key in sorted(record.answers)}
    text = json.dumps({"format": FORMAT, "about": dict(record.about), "answers": answers}, separators=(",", ":"))
    with (record.folder / FILE).open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as opened:
        opened.write(text.encode())


# -------------------------------------------------------------------------------- what was asked


def key_of(kind: str, *facts: object) -> str:
    """``kind`` and a digest of the facts, each of which must have the same text in every process."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(repr(fact).encode())
        digest.update(b"\0")
    return f"{kind} {digest.hexdigest()[:32]}"


def variant_digest(variant: Variant, template_arguments: Sequence[str]) -> str:
    """Of what a compiler sees: how a variant came about does not matter."""
    digest = hashlib.sha256(variant.data)
    digest.update(repr((variant.kernel, variant.flags, tuple(template_arguments))).encode())
    return digest.hexdigest()


def launch_facts(launch: Launch) -> str:
    """What a device sees of a launch. Contents are digested by themselves; how they came about does not matter."""
    arguments = [
        (argument.name, argument.element.spelling, getattr(argument, "value", None), getattr(argument, "length", None))
        for argument in (*launch.arguments, *launch.globals)
    ]
    return repr((launch.grid, launch.block, launch.shared, arguments))


def option_facts(options: RunOptions) -> str:
    """The options that a GPU can follow; limits do not change an answer."""
    return repr((options.poison, options.guard))


def array_digest(array: Array) -> str:
    digest = hashlib.sha256(repr((array.dtype.str, array.shape)).encode())
    digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def contents_digest(contents: Contents) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(contents.buffers.items()):
        digest.update(f"{name} {array_digest(array)} ".encode())
    digest.update(repr((contents.offset_elements, sorted(contents.aliases.items()))).encode())
    return digest.hexdigest()
