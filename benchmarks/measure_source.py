"""Measures the room `source` on a folder of real files.

    python benchmarks/measure_source.py FOLDER [--sample N] [--list]

Counts the ``__global__`` definitions that an independent token scan (below; it shares no code with
the parser) finds outside comments, strings, directives and inactive branches, and how many of them
`parse` gives as kernels; times `parse` per 1,000 lines and the re-parse after one typed character.
Byte-identical files are counted once.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tree_sitter import Parser

from optiml_core.source import SourceFile, TranslationUnit, accesses, arrays_in, barriers, calls_in, loops, parse
from optiml_core.source.grammar import cuda_language
from optiml_core.source.kernel_reading import function_at

SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".inl", ".inc")


def code_only(data: bytes) -> bytes:
    """The file with comments, literals, directives and what ``#if 0`` hides as blanks."""
    out = bytearray(data)
    hidden: list[bool] = []  # per open conditional: is this branch off?
    taken: list[bool] = []
    at, size = 0, len(data)
    line_is_blank = True

    def wipe(start: int, end: int) -> None:
        for i in range(start, min(end, size)):
            if out[i] not in b"\r\n":
                out[i] = 0x20

    while at < size:
        one, two = data[at : at + 1], data[at : at + 2]
        end = at + 1
        if two == b"//":
            end = _end_of_line(data, at)
            wipe(at, end)
        elif two == b"/*":
            found = data.find(b"*/", at + 2)
            end = size if found < 0 else found + 2
            wipe(at, end)
        elif one == b"#" and line_is_blank:
            end = _end_of_line(data, at)
            opened = data.find(b"/*", at, end)
            if opened >= 0:
                end = opened  # the comment is read next
            words = data[at + 1 : end].split(b"//")[0].split()
            word = words[0] if words else b""
            if word in (b"if", b"ifdef", b"ifndef"):
                hidden.append(word == b"if" and words[1:] == [b"0"])
                taken.append(word == b"if" and words[1:] == [b"1"])
            elif word in (b"else", b"elif") and hidden:
                hidden[-1] = taken[-1]
            elif word == b"endif" and hidden:
                hidden.pop()
                taken.pop()
            wipe(at, end)
        elif any(hidden):
            wipe(at, at + 1)
        elif two == b'R"':
            fence = data[at + 2 : max(at + 2, data.find(b"(", at))]
            found = data.find(b")" + fence + b'"', at)
            end = size if found < 0 else found + len(fence) + 2
            wipe(at, end)
        elif one == b'"' or (one == b"'" and not data[at - 1 : at].isalnum()):
            while end < size and data[end : end + 1] not in (one, b"\n"):
                end += 2 if data[end : end + 1] == b"\\" else 1
            end += 1
            wipe(at, end)
        if one == b"\n":
            line_is_blank = True
        elif not one.isspace() and two != b"/*":
            line_is_blank = False
        at = max(end, at + 1)
    return bytes(out)


def _end_of_line(data: bytes, at: int) -> int:
    """The end of the logical line: a backslash before the line end continues it."""
    while True:
        end = data.find(b"\n", at)
        if end < 0:
            return len(data)
        if not data[:end].endswith((b"\\", b"\\\r")):
            return end
        at = end + 1


def expected_definitions(data: bytes) -> list[int]:
    """Offsets of the ``__global__`` of each definition: a parameter list and a ``{`` follow before any ``;``."""
    found: list[int] = []
    if b"__global__" not in data:
        return found
    code = code_only(data)
    at = code.find(b"__global__")
    while at >= 0:
        behind = at + len(b"__global__")
        outside = code[at - 1 : at] + code[behind : behind + 1]
        is_word = not (outside.replace(b"_", b"a")[:1].isalnum() or outside.replace(b"_", b"a")[1:].isalnum())
        end, depth, lists = behind, 0, 0
        while is_word and end < len(code):
            byte = code[end]
            if byte == 0x28:
                depth += 1
            elif byte == 0x29:
                depth -= 1
                lists += depth == 0
            elif depth == 0 and byte in b";}{":
                break
            end += 1
        twice = bool(found) and b"{" not in code[found[-1] : at]
        if is_word and lists and code[end : end + 1] == b"{" and not twice:
            found.append(at)
        at = code.find(b"__global__", behind)
    return found


def one_edit(data: bytes) -> bytes:
    """The file with one blank typed at the start of its middle line."""
    at = 0
    for _ in range(data.count(b"\n") // 2):
        at = data.find(b"\n", at) + 1
    return data[:at] + b" " + data[at:]


def best_of(times: int, action: Callable[[], object]) -> float:
    """The shortest of some runs, in seconds of processor time (the machine may be shared)."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def files_of(folder: Path) -> list[Path]:
    """Distinct CUDA files: every .cu, and every header that defines a kernel."""
    seen: set[bytes] = set()
    distinct: list[Path] = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        data = path.read_bytes()
        key = hashlib.sha256(data).digest()
        if key in seen or (path.suffix != ".cu" and b"__global__" not in data):
            continue
        seen.add(key)
        distinct.append(path)
    return distinct


def touch_everything(unit: TranslationUnit) -> None:
    """Reads whatever is read on demand, so that a crash in it shows."""
    _ = (unit.includes, unit.macros, unit.device_functions, unit.globals, unit.structs, unit.type_aliases)
    for kernel in unit.kernels:
        _ = (loops(unit, kernel), accesses(unit, kernel), arrays_in(unit, kernel), barriers(unit, kernel))
        _ = calls_in(unit, kernel)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder", type=Path)
    reader.add_argument("--sample", type=int, default=None, help="look at this many files, drawn with seed 0")
    reader.add_argument("--list", action="store_true", help="list what was missed and what has a syntax error")
    options = reader.parse_args()
    files = files_of(options.folder)
    if options.sample is not None and options.sample < len(files):
        files = sorted(random.Random(0).sample(files, options.sample))
    unequal = tree_only = 0
    tree_total = 0.0
    expected = missed = extra = kernels = erroneous = without_node = crashes = lines = 0
    per_thousand: list[float] = []
    again: list[float] = []
    total = 0.0
    for path in files:
        source = SourceFile.read(path)
        if not isinstance(source, SourceFile):
            print(f"not read: {path}: {source.message}", file=sys.stderr)
            continue
        try:
            unit = parse(source)
            touch_everything(unit)
            seconds = best_of(2, lambda: parse(SourceFile(source.path, source.data)))  # noqa: B023
            edited = one_edit(source.data)
            reparse = best_of(2, lambda: parse(SourceFile(source.path, edited), unit))  # noqa: B023
            whole, again_unit = parse(SourceFile(source.path, edited)), parse(SourceFile(source.path, edited), unit)
            if (whole.kernels, whole.launch_sites) != (again_unit.kernels, again_unit.launch_sites):
                unequal += 1
                print(f"UNEQUAL re-parse {path}", file=sys.stderr)
            tree_seconds = best_of(1, lambda: Parser(cuda_language()).parse(unit.blanked.text))  # noqa: B023
            tree_only += sum(function_at(unit.tree.root_node, t) is not None for t in unit.tokens)
        except Exception:  # noqa: BLE001 (any exception is what is being counted)
            crashes += 1
            print(f"CRASH {path}\n{traceback.format_exc()}", file=sys.stderr)
            continue
        count = len(source.line_starts)
        lines += count
        total += seconds
        tree_total += tree_seconds
        if count >= 50:
            per_thousand.append(seconds / count * 1e6)
            again.append(reparse * 1e3)
        wanted = expected_definitions(source.data)
        ranges = [(k.range.start_byte, k.body_range.start_byte) for k in unit.kernels]
        lost = [at for at in wanted if not any(a <= at < b for a, b in ranges)]
        surplus = [r for r in ranges if not any(r[0] <= at < r[1] for at in wanted)]
        expected += len(wanted)
        missed += len(lost)
        extra += len(surplus)
        kernels += len(unit.kernels)
        bad = [k for k in unit.kernels if k.has_syntax_error]
        erroneous += len(bad)
        without_node += sum(unit.node(k) is None for k in unit.kernels)
        if options.list:
            for at in lost:
                print(f"missed {path}:{source.line_of(at)}")
            for a, _ in surplus:
                print(f"extra {path}:{source.line_of(a)}")
            for k in bad:
                print(f"error {path}:{k.range.start_line} {k.qualified} node={unit.node(k) is not None}")
    per_thousand.sort()
    again.sort()
    found = expected - missed
    share = 100 * erroneous / max(1, kernels)
    print(f"files {len(files)}, lines {lines}, crashes {crashes}")
    print(f"definitions {expected}, found {found} ({100 * found / max(1, expected):.2f} %), missed {missed}")
    print(f"kernels {kernels}, of them made by macros or otherwise beyond the scan {extra}")
    print(f"of the kernels, the file's own tree has {tree_only} ({100 * tree_only / max(1, kernels):.2f} %)")
    print(f"kernels with a syntax error {erroneous} ({share:.2f} %), without a node {without_node}")
    print(f"parse, ms per 1,000 lines: all {total / max(1, lines) * 1e6:.2f}; by file {_quantiles(per_thousand)}")
    print(f"of that the grammar, ms per 1,000 lines: {tree_total / max(1, lines) * 1e6:.2f}")
    print(f"re-parse, ms: {_quantiles(again)}; unequal to a fresh parse: {unequal}")
    return 1 if crashes else 0


def _quantiles(values: list[float]) -> str:
    if len(values) < 2:
        return "too few"
    cuts = statistics.quantiles(values, n=100)
    return f"median {cuts[49]:.2f}, 95th {cuts[94]:.2f}, 99th {cuts[98]:.2f}, most {values[-1]:.2f}"


if __name__ == "__main__":
    sys.exit(main())
