"""Answers of a device as JSON, and back."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from optiml_core.device.protocol import Array, Fault, RunResult
from optiml_core.device.recorded.record import array_digest
from optiml_core.records import Check, Failure, ResourceUsage

Json = Mapping[str, Any]


def failure_json(failure: Failure) -> Json:
    return {"failure": attrs.asdict(failure)}


def failure_in(answer: Json) -> Failure | None:
    return Failure(**answer["failure"]) if "failure" in answer else None


def array_json(array: Array, computed: Array | None) -> Json:
    """A digest where ``computed`` (the emulator's) has the same bits, else the bytes."""
    digest = array_digest(array)
    if computed is not None and array_digest(computed) == digest:
        return {"digest": digest}
    return {"digest": digest, "bytes": base64.b85encode(zlib.compress(array.tobytes(), 9)).decode()}


def array_of(answer: Json, like: Array, computed: Array | None) -> Array | None:
    """The recorded array: ``like`` has its shape and dtype. None where neither the record nor ``computed`` has it."""
    if "bytes" in answer:
        data = zlib.decompress(base64.b85decode(answer["bytes"]))
        found: Array | None = np.frombuffer(data, like.dtype).reshape(like.shape).copy()
    else:
        found = computed
    return found if found is not None and array_digest(found) == answer["digest"] else None


def buffers_json(buffers: Mapping[str, Array], computed: Mapping[str, Array]) -> dict[str, Json]:
    """Each buffer once: those that share memory, or came out alike, name the one that has the bytes."""
    found: dict[str, Json] = {}
    owners: dict[str, str] = {}
    for name, array in buffers.items():
        entry = array_json(array, computed.get(name))
        owner = owners.setdefault(entry["digest"], name)
        found[name] = entry if owner == name or "bytes" not in entry else {"digest": entry["digest"], "same_as": owner}
    return found


def run_json(result: RunResult, computed: RunResult | None) -> Json:
    return {
        "buffers": buffers_json(result.buffers, computed.buffers if computed is not None else {}),
        "faults": [attrs.asdict(fault) for fault in result.faults],
        "guards_intact": result.guards_intact,
        "seconds": result.seconds,
        "output": result.output,
    }


def run_of(answer: Json, like: Mapping[str, Array], computed: RunResult | None) -> RunResult | None:
    """The recorded result; None where the record relies on the emulator and the emulator computed something else."""
    buffers: dict[str, Array] = {}
    for name, entry in answer["buffers"].items():
        entry = answer["buffers"][entry["same_as"]] if "same_as" in entry else entry
        array = array_of(entry, like[name], computed.buffers.get(name) if computed is not None else None)
        if array is None:
            return None
        buffers[name] = array
    faults = tuple(Fault(**{**fault, **_tuples(fault)}) for fault in answer["faults"])
    return RunResult(
        buffers, faults, answer["guards_intact"], seconds=answer["seconds"], output=answer.get("output", "")
    )


def _tuples(fault: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(fault[name]) if fault[name] is not None else None for name in ("block", "thread")}


def build_json(resources: ResourceUsage | None, log: str) -> Json:
    return {"resources": attrs.asdict(resources) if resources is not None else None, "log": log}


def resources_of(answer: Json) -> ResourceUsage | None:
    return ResourceUsage(**answer["resources"]) if answer["resources"] is not None else None


def check_json(check: Check) -> Json:
    return attrs.asdict(check)


def check_of(answer: Json) -> Check:
    return Check(**answer)
