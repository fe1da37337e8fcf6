"""Exact element types of kernel parameters, by libclang with a small header of our own.

No CUDA toolkit, no system header and no file outside the sources given is ever opened: the text
that libclang reads has function bodies and unresolved includes blanked at equal length, so that a
cursor's offset is an offset of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from optiml_core.records import ElementType, Failure, Kernel, StructField
from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.function_ranges import function_ranges
from optiml_core.source.included_files import find_included, parse_with_includes
from optiml_core.source.lexical import blank
from optiml_core.source.source_file import SourceFile
from optiml_core.source.translation_unit import TranslationUnit

_HEADER = "/optiml/optiml_cuda_types.h"  # exists only among the texts that are handed over
_DEEPEST = 8  # nested structs
_ARGUMENTS = ("-x", "c++", "-std=c++17", "--target=x86_64-linux-gnu", "-nostdinc", "-nostdinc++", "-w",
              "-ferror-limit=0", "-include", _HEADER)  # fmt: skip

Types = tuple[ElementType | None, ...]


def exact_types(
    unit: TranslationUnit,
    flags: Sequence[str] = (),
    instantiations: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> dict[str, Types] | Failure:
    """The element type of every parameter of every kernel of the unit (of the pointee for a pointer).

    Keys are qualified names. A template has its plain name, with None where a type depends on a
    template parameter, and ``name<arguments>`` (joined by ``", "``) for each instantiation that the
    file uses and each of ``instantiations`` (by qualified name). None: a pointer to a pointer, a
    class that is no plain struct (bases, virtual functions, bit fields, pointers inside), or a type
    that is not declared in the file, in what it includes by quotes, or by CUDA itself.
    Of ``flags``, -D, -U and -std are used, and the folders of -I to look for quoted includes.
    A ``Failure`` if libclang is not installed or cannot read the text at all.
    """
    try:
        from clang import cindex
    except ImportError:
        return Failure("missing-tool", "libclang is not installed", cure="pip install libclang==18.1.1")
    if _is_deep(unit.source.data):
        return Failure("unsupported", "its brackets are nested too deeply for libclang", unit.source.path)
    probes = _probes(unit, instantiations or {})
    sources = _sources(unit, flags)
    main = Path(unit.source.path).absolute().as_posix()
    tail = "".join(f"\n{line}" for line in _probe_lines(unit, probes))
    texts = {path: text for path, text in sources.items() if path != main}
    whole = sources[main] + tail.encode("utf-8", "replace") + b"\n"
    unsaved: list[tuple[str, Any]] = [(main, whole), (_HEADER, _header()), *texts.items()]
    try:
        parsed = cindex.Index.create().parse(main, [*_ARGUMENTS, *_clang_flags(flags)], unsaved_files=unsaved)
    except cindex.TranslationUnitLoadError as error:
        return Failure("unsupported", f"libclang cannot read the file: {error}", unit.source.path)
    reader = _Reader(cindex, parsed, main, len(sources[main]))
    return reader.types_of(unit.kernels, probes)


_DEEPEST_BRACKETS = 200
_BRACKET = re.compile(rb"[<>(){}\[\];]")


def _is_deep(data: bytes) -> bool:
    """Whether some brackets lie so deep in one another that libclang's recursion would end this process. A `<` that
    compares is taken back where the statement ends."""
    depth = angles = 0
    for match in _BRACKET.finditer(data):
        match match.group():
            case b"<":
                angles += 1
            case b">":
                angles = max(angles - 1, 0)
            case b"(" | b"{" | b"[":
                depth += 1
            case b";":
                angles = 0
            case _:
                depth = max(depth - 1, 0)
                angles = 0 if match.group() == b"}" else angles
        if angles > _DEEPEST_BRACKETS or depth > _DEEPEST_BRACKETS:
            return True
    return False


def _probe_lines(unit: TranslationUnit, probes: Sequence[tuple[str, Kernel, tuple[str, ...]]]) -> list[str]:
    """Declarations whose types are the kernels', and uses that make libclang lay out what they point to."""
    lines = [f"decltype(&{name}<{', '.join(a)}>) optiml_probe_{i};" for i, (name, _, a) in enumerate(probes)]
    plain = [k.qualified for k in unit.kernels if not k.template_parameters and "<" not in k.qualified]
    lines.extend(f"decltype(&{name}) optiml_plain_{i};" for i, name in enumerate(plain))
    variables = [f"optiml_probe_{i}" for i in range(len(probes))] + [f"optiml_plain_{i}" for i in range(len(plain))]
    lines.extend(f'static_assert(optiml::complete<decltype({v})>::size + 1 > 0, "");' for v in variables)
    return lines


def _probes(
    unit: TranslationUnit, instantiations: Mapping[str, Sequence[Sequence[str]]]
) -> list[tuple[str, Kernel, tuple[str, ...]]]:
    """(qualified name, kernel, template arguments) for every instantiation to look at."""
    found: dict[tuple[str, tuple[str, ...]], Kernel] = {}
    for kernel in unit.kernels:
        if kernel.template_parameters and "<" not in kernel.qualified:
            for arguments in (*kernel.instantiations, *map(tuple, instantiations.get(kernel.qualified, ()))):
                found[(kernel.qualified, arguments)] = kernel
    return [(name, kernel, arguments) for (name, arguments), kernel in found.items()]


def _sources(unit: TranslationUnit, flags: Sequence[str]) -> dict[str, bytes]:
    """Text by absolute path: the unit's file and what it includes by quotes, without bodies."""
    main = unit.source

    def read(path: str) -> SourceFile | Failure:
        return main if Path(path).absolute() == Path(main.path).absolute() else SourceFile.read(path)

    included = parse_with_includes(main.path, _include_folders(flags), read)
    units = (unit,) if isinstance(included, Failure) else (unit, *included.units[1:])
    known = {os.path.realpath(u.source.path) for u in units}
    folders = _include_folders(flags)
    return {Path(u.source.path).absolute().as_posix(): declarations_only(u, known, folders) for u in units}


def declarations_only(unit: TranslationUnit, known_files: set[str], folders: Sequence[str]) -> bytes:
    """The file with function bodies as ``{}`` and includes of anything but known files (real paths) blanked.

    Bodies of ``constexpr`` functions stay: types may need their values.
    """
    out = bytearray(unit.source.data)
    skeleton = unit.blanked.skeleton
    for start, end in function_ranges(unit.scan, skeleton):
        opening = skeleton.find(b"{", start, end)
        if opening >= 0 and b"constexpr" not in skeleton[start:opening]:
            out[opening + 1 : end - 1] = blank(bytes(out[opening + 1 : end - 1]))
    for include in unit.includes:
        target = find_included(include.name, unit.source.path, folders) if include.quoted else None
        if target is None or os.path.realpath(target) not in known_files:
            start, end = include.range.start_byte, include.range.end_byte
            out[start:end] = blank(bytes(out[start:end]))
    for directive in unit.scan.directives:
        # ``#error`` of a header that expects another compiler, and includes by macro, say nothing of types.
        if directive.word in ("error", "import", "include_next", "embed") or (
            directive.word == "include" and directive.text[:1] not in ('"', "<")
        ):
            out[directive.start : directive.end] = blank(bytes(out[directive.start : directive.end]))
    return bytes(out)


@lru_cache(maxsize=1)
def _header() -> bytes:
    return files("optiml_core.source").joinpath("cuda_types.h").read_bytes()


def _clang_flags(flags: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for index, flag in enumerate(flags):
        if flag in ("-D", "-U") and index + 1 < len(flags):
            kept.extend((flag, flags[index + 1]))
        elif flag.startswith(("-D", "-U")) and len(flag) > 2:
            kept.append(flag)
        elif flag.startswith(("-std=", "--std=")):
            kept.append("-std=" + flag.split("=", 1)[1])
    kept.extend(f"-I{folder}" for folder in _include_folders(flags))
    return kept


def _include_folders(flags: Sequence[str]) -> list[str]:
    found: list[str] = []
    for index, flag in enumerate(flags):
        if flag in ("-I", "-isystem") and index + 1 < len(flags):
            found.append(flags[index + 1])
        elif flag.startswith("-I") and len(flag) > 2:
            found.append(flag[2:])
    return found


def _first_known(first: Types, second: Types) -> Types:
    return tuple(a if a is not None else b for a, b in zip(first, second, strict=True))


class _Reader:
    """Reads types out of one parsed translation unit. libclang's Python package has no types, hence Any."""

    def __init__(self, cindex: Any, parsed: Any, main: str, length: int) -> None:
        self.cindex = cindex
        self.parsed = parsed
        self.main = main
        self.length = length  # of the file's own text; probes stand behind it
        self.errors = sorted(
            d.location.offset
            for d in parsed.diagnostics
            if d.severity >= cindex.Diagnostic.Error and d.location.file is not None and d.location.file.name == main
        )

    def types_of(
        self, kernels: Sequence[Kernel], probes: Sequence[tuple[str, Kernel, tuple[str, ...]]]
    ) -> dict[str, Types]:
        functions: dict[int, Any] = {}
        variables: dict[str, Any] = {}
        self._collect(self.parsed.cursor, functions, variables)
        found: dict[str, Types] = {}
        for kernel in kernels:
            function = functions.get(kernel.name_range.start_byte)
            found[kernel.qualified] = _first_known(
                self._of_function(kernel, function), tuple(p.element for p in kernel.parameters)
            )
        for index, (name, kernel, arguments) in enumerate(probes):
            key = f"{name}<{', '.join(arguments)}>"
            substituted = self._of_probe(kernel, variables.get(f"optiml_probe_{index}"))
            found[key] = _first_known(substituted, found[kernel.qualified])
        return found

    def _collect(self, cursor: Any, functions: dict[int, Any], variables: dict[str, Any]) -> None:
        kinds = self.cindex.CursorKind
        for child in cursor.get_children():
            file = child.location.file
            if child.kind in (kinds.NAMESPACE, kinds.LINKAGE_SPEC, kinds.UNEXPOSED_DECL):
                self._collect(child, functions, variables)
            elif file is None or file.name != self.main:
                continue
            elif child.kind in (kinds.FUNCTION_DECL, kinds.FUNCTION_TEMPLATE):
                functions[child.location.offset] = child
            elif child.kind == kinds.VAR_DECL and child.location.offset >= self.length:
                variables[child.spelling] = child

    def _has_error(self, start: int, end: int) -> bool:
        return any(start <= at < end for at in self.errors)

    def _of_function(self, kernel: Kernel, function: Any) -> Types:
        if function is None:
            return tuple(None for _ in kernel.parameters)
        kinds = self.cindex.CursorKind
        declared = [c for c in function.get_children() if c.kind == kinds.PARM_DECL]
        if len(declared) != len(kernel.parameters):
            return tuple(None for _ in kernel.parameters)
        return tuple(
            # What libclang does not know it takes for an int: an error inside the parameter means None.
            None if self._has_error(p.range.start_byte, p.range.end_byte) else self.element(c.type)
            for p, c in zip(kernel.parameters, declared, strict=True)
        )

    def _of_probe(self, kernel: Kernel, variable: Any) -> Types:
        unknown: Types = tuple(None for _ in kernel.parameters)
        if variable is None or self._has_error(variable.extent.start.offset, variable.extent.end.offset + 1):
            return unknown
        function = variable.type.get_canonical().get_pointee().get_canonical()
        if function.kind != self.cindex.TypeKind.FUNCTIONPROTO:
            return unknown
        types = list(function.argument_types())
        if len(types) != len(kernel.parameters):
            return unknown
        return tuple(
            None if self._has_error(p.range.start_byte, p.range.end_byte) else self.element(t)
            for p, t in zip(kernel.parameters, types, strict=True)
        )

    def element(self, declared: Any, depth: int = 0) -> ElementType | None:
        """The element type of a parameter's type: one pointer, reference or array is looked through."""
        kinds = self.cindex.TypeKind
        kind = declared.get_canonical()
        if kind.kind in (kinds.POINTER, kinds.LVALUEREFERENCE):
            kind = kind.get_pointee().get_canonical()
        while kind.kind in (kinds.INCOMPLETEARRAY, kinds.CONSTANTARRAY):
            kind = kind.element_type.get_canonical()
        return self._plain(kind, depth)

    def _plain(self, kind: Any, depth: int) -> ElementType | None:
        kinds = self.cindex.TypeKind
        spelling = kind.spelling.replace("const ", "").replace("volatile ", "").strip()
        known = element_type_of(spelling)
        if known is not None:
            return known
        if kind.kind == kinds.ENUM:
            value = element_type_of(kind.get_declaration().enum_type.get_canonical().spelling)
            return ElementType(spelling, value.dtype, value.size, value.alignment) if value is not None else None
        if kind.kind == kinds.RECORD and depth < _DEEPEST:
            return self._record(kind, spelling, depth)
        return None

    def _record(self, kind: Any, spelling: str, depth: int) -> ElementType | None:
        cursors = self.cindex.CursorKind
        declaration = kind.get_declaration()
        members = list(declaration.get_children())
        if declaration.kind == cursors.UNION_DECL or any(c.kind == cursors.CXX_BASE_SPECIFIER for c in members):
            return None
        if any(c.kind == cursors.CXX_METHOD and c.is_virtual_method() for c in members) or kind.get_size() <= 0:
            return None
        fields: list[StructField] = []
        for member in kind.get_fields():
            inner, length = member.type.get_canonical(), 1
            while inner.kind == self.cindex.TypeKind.CONSTANTARRAY:
                length *= inner.element_count
                inner = inner.element_type.get_canonical()
            element = None if member.is_bitfield() else self._plain(inner, depth + 1)
            bits = member.get_field_offsetof()
            file = member.location.file
            broken = (
                file is not None
                and file.name == self.main
                and self._has_error(member.extent.start.offset, member.extent.end.offset + 1)
            )
            if element is None or bits < 0 or bits % 8 or broken or not member.spelling:
                return None
            fields.append(StructField(member.spelling, element, bits // 8, length))
        if not fields:
            return None
        return ElementType(spelling, "", kind.get_size(), kind.get_align(), 1, tuple(fields))
