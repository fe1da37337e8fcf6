"""The device part of a file for the emulator, with the file's line numbers."""

from __future__ import annotations

import re

from optiml_core.records import Kernel
from optiml_core.source import TranslationUnit
from optiml_core.source.file_scope import file_scope_nodes

_DEVICE = re.compile(rb"\b(?:__global__|__device__|constexpr)\b")


def slice_for_emulator(unit: TranslationUnit, kernel: Kernel) -> str:
    """The file's text with host functions blanked. Bytes that are no UTF-8 survive as surrogates."""
    data = bytearray(unit.plain)
    for node in file_scope_nodes(unit.tree.root_node):
        if node.type != "function_definition" or _DEVICE.search(unit.plain[node.start_byte : node.end_byte]):
            continue
        outer = node.parent if node.parent is not None and node.parent.type == "template_declaration" else node
        for position in range(outer.start_byte, outer.end_byte):
            if data[position] not in b"\r\n":
                data[position] = 32
    return data.decode("utf-8", "surrogateescape")
