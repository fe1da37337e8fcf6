"""The device part of a file as the emulator compiles it: one text and the project's headers it includes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from optiml_core.device.emulator.allow_list import check_source
from optiml_core.device.emulator.prepare import prepare_body
from optiml_core.records import Failure, Kernel
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import device_slice


@frozen
class EmulatorSource:
    """``text`` with the file's line numbers; ``headers``: name by which it includes them -> text; ``paths``: the
    same names -> the files they came from.

    ``missing``: headers that were not found, named only if the compiler misses something.
    """

    text: str
    headers: Mapping[str, str] = field(factory=dict)
    paths: Mapping[str, str] = field(factory=dict)
    missing: tuple[str, ...] = ()


def slice_for_emulator(
    unit: TranslationUnit, kernel: Kernel, template_arguments: Sequence[str], flags: Sequence[str], widened: bool
) -> EmulatorSource | Failure:
    """Cuts, checks and prepares. A Failure names the line, in the file or in the header it lies in."""
    cut = device_slice(unit, kernel, "emulator", template_arguments=template_arguments, flags=flags)
    if isinstance(cut, Failure):
        return cut
    texts = {"": (unit.source.path, cut.text), **{h.name: (h.path, h.text) for h in cut.headers}}
    ready: dict[str, str] = {}
    for name, (path, text) in texts.items():
        problem = check_source(text)
        body = problem or prepare_body(text, widened)
        if isinstance(body, Failure):
            return Failure(body.kind, body.message, path, body.line, body.column, body.cure)
        ready[name] = body
    return EmulatorSource(ready.pop(""), ready, {h.name: h.path for h in cut.headers}, cut.dropped_includes)
