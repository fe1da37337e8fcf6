"""Declarations: the `// optiml:` lines above a kernel, and the TOML file with one `[kernel]` table each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from optiml_core.records import Failure, Kernel, Problem
from optiml_core.source import TranslationUnit
from optiml_core.workload.items import (
    Buffer,
    Item,
    Place,
    Requirement,
    Scalar,
    item_key,
    read_items,
    replaced,
)

# What errors in a workload file name where the caller gives no path.
WORKLOAD_FILE = "workload.toml"
_COMMENT = re.compile(r"^\s*//\s*optiml(?P<launch>\s+launch)?\s*:\s?", re.IGNORECASE)
_ALMOST = re.compile(r"^\s*//\s*optiml\b(?!\s*(?:launch\s*)?:)", re.IGNORECASE)
_BETWEEN = re.compile(r"^\s*(//.*|/\*.*|\*.*|.*\*/\s*|)$")


@frozen
class Declaration:
    """What a user declared about one kernel. ``launches``: the overriding items of each `launch` line.

    ``failures`` are errors: a workload with any of them cannot be launched. ``problems`` are remarks.
    """

    items: tuple[Item, ...] = ()
    launches: tuple[tuple[Item, ...], ...] = ()
    failures: tuple[Failure, ...] = ()
    problems: tuple[Problem, ...] = ()
    from_file: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.items or self.launches or self.failures)


def parse_declaration(
    text: str, kernel: Kernel, toml: str | None = None, toml_file: str = WORKLOAD_FILE
) -> Declaration:
    """The declaration of ``kernel`` in ``text`` (the whole file that defines it) and in ``toml`` (a file's text).

    An item of the TOML file replaces the comment's item of the same name, since it was named on purpose.
    Errors stand in ``.failures``, each with line and column in the file it is in.
    """
    declaration = _from_comments(text, kernel)
    if toml is not None:
        declaration = _added(declaration, _from_toml(toml, kernel, toml_file))
    return _checked(declaration, kernel)


def _added(first: Declaration, second: Declaration) -> Declaration:
    return Declaration(
        replaced(first.items, second.items),
        second.launches or first.launches,
        first.failures + second.failures,
        first.problems + second.problems,
        second.from_file,
    )


# ------------------------------------------------------------------------------------ comments


def lines_above(text: str, first_line: int) -> list[int]:
    """The 1-based lines directly above line ``first_line`` that hold only comments or nothing, top to bottom."""
    lines = text.split("\n")
    number = min(first_line - 1, len(lines))
    found: list[int] = []
    while number >= 1 and _BETWEEN.match(lines[number - 1].rstrip("\r")):
        found.append(number)
        number -= 1
    return found[::-1]


def declaration_lines(text: str, kernel: Kernel) -> list[int]:
    """The 1-based lines above a kernel that declare something about it."""
    lines = text.split("\n")
    return [number for number in lines_above(text, kernel.range.start_line) if _COMMENT.match(lines[number - 1])]


def stray_declarations(unit: TranslationUnit, kernel: Kernel) -> tuple[Problem, ...]:
    """Declarations between the kernel before this one and this one that stand directly above no kernel, and which
    nothing therefore reads."""
    text = unit.source.text
    lines = text.split("\n")
    before = max(
        (one.range.end_line for one in unit.kernels if one.range.end_line < kernel.range.start_line), default=0
    )
    read = set(declaration_lines(text, kernel))
    return tuple(
        Problem(
            "this declaration stands above no kernel, so nothing reads it",
            number,
            1,
            f"move it directly above `{kernel.name}`",
        )
        for number in range(before + 1, kernel.range.start_line)
        if number not in read and _COMMENT.match(lines[number - 1])
    )


def _from_comments(text: str, kernel: Kernel) -> Declaration:
    lines = text.split("\n")
    type_parameters = type_parameter_names(kernel)
    declaration = Declaration()
    for number in lines_above(text, kernel.range.start_line):
        line = lines[number - 1].rstrip("\r")
        match = _COMMENT.match(line)
        if match is None:
            if _ALMOST.match(line):
                problem = Problem(
                    "this comment begins like a declaration and is none",
                    number,
                    line.index("optiml") + 1 if "optiml" in line else 1,
                    "write `// optiml: ...` or `// optiml launch: ...`",
                )
                declaration = evolve(declaration, problems=(*declaration.problems, problem))
            continue
        place = Place(kernel.file, number, match.end() + 1)
        items, failures = read_items(line[match.end() :].rstrip(), place, type_parameters)
        declaration = evolve(declaration, failures=declaration.failures + failures)
        if match.group("launch"):
            declaration = evolve(declaration, launches=(*declaration.launches, items))
        else:
            declaration = evolve(
                declaration,
                items=(*declaration.items, *items),
                failures=declaration.failures + _repeated(declaration.items, items),
            )
    return declaration


def _repeated(known: tuple[Item, ...], added: tuple[Item, ...]) -> tuple[Failure, ...]:
    """Lines add up, so naming something twice is a mistake that nobody should have to guess about."""
    seen = {item_key(item) for item in known}
    failures = []
    for item in added:
        key = item_key(item)
        if key in seen and not isinstance(item, Requirement):
            place = item.place
            failures.append(
                Failure("bad-input", f"`{key}` is declared twice", place.file, place.line, place.column, "remove one")
            )
        seen.add(key)
    return tuple(failures)


def type_parameter_names(kernel: Kernel) -> frozenset[str]:
    """The template parameters of a kernel that stand for types."""
    return frozenset(
        parameter.name for parameter in kernel.template_parameters if parameter.kind in ("typename", "class")
    )


# ---------------------------------------------------------------------------------------- TOML


def _from_toml(toml: str, kernel: Kernel, file: str) -> Declaration:
    try:
        tables = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line, column = (int(found.group(1)), int(found.group(2))) if found else (None, None)
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        return Declaration(failures=(Failure("bad-input", f"not valid TOML: {message}", file, line, column),))
    name, table = _table_of(tables, kernel)
    if table is None:
        return Declaration()
    if not isinstance(table, dict):
        failure = Failure(
            "bad-input", f"`{name}` must be a table", file, *_place_of_key(toml, None, name), f"write `[{name}]`"
        )
        return Declaration(failures=(failure,))
    launches = table.get("launch", [])
    items, failures = _items_of(table, toml, name, kernel, file)
    declared: list[tuple[Item, ...]] = []
    if not isinstance(launches, list) or not all(isinstance(launch, dict) for launch in launches):
        place = _place_of_key(toml, name, "launch")
        failures += (
            Failure("bad-input", "`launch` must be a list of tables", file, *place, f"write `[[{name}.launch]]`"),
        )
    else:
        for launch in launches:
            overriding, more = _items_of(launch, toml, name, kernel, file)
            declared.append(overriding)
            failures += more
    return Declaration(items, tuple(declared), failures, from_file=True)


def _table_of(tables: Mapping[str, Any], kernel: Kernel) -> tuple[str, Any]:
    for name in (kernel.qualified, kernel.name):
        if name in tables:
            return name, tables[name]
    return kernel.name, None


def _items_of(
    table: Mapping[str, Any], toml: str, name: str, kernel: Kernel, file: str
) -> tuple[tuple[Item, ...], tuple[Failure, ...]]:
    items: list[Item] = []
    failures: list[Failure] = []
    pointers = {parameter.name for parameter in kernel.parameters if parameter.is_pointer}
    for key, value in _flat(table):
        line, column = _place_of_key(toml, name, key)
        for text in _item_texts(key, value, pointers):
            if text is None:
                message = f"`{key}` has a value of a kind that no item has"
                failures.append(Failure("bad-input", message, file, line, column, "use a number or a text"))
                continue
            found, wrong = read_items(text, Place(file, line, column or 1), type_parameter_names(kernel))
            items.extend(found)
            failures.extend(wrong)
    return tuple(items), tuple(failures)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if key == "launch" and not prefix:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _item_texts(key: str, value: Any, pointers: Collection[str]) -> list[str | None]:
    """The item, in the words of the comment language, that a key and its value stand for."""
    if key == "require":
        wanted = value if isinstance(value, list) else [value]
        return [f"require {one}" if isinstance(one, str) else None for one in wanted]
    if key in ("grid", "block") and isinstance(value, list):
        return [f"{key} = ({', '.join(str(one) for one in value)})"]
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, float, str)):
        return [None]
    if "[" in key or key in pointers:
        content = str(value).strip()
        return [key if content in ("", "output") else f"{key}: {content}"]
    return [f"{key} = {value}"]


def _place_of_key(toml: str, table: str | None, key: str) -> tuple[int | None, int | None]:
    """Line and column of a key: tomllib does not say, so the text is searched below the table's header."""
    inside = table is None
    last = re.escape(key.split(".")[-1])
    for number, line in enumerate(toml.split("\n"), 1):
        if table is not None and line.lstrip().startswith("["):
            inside = table in line
            continue
        match = re.match(rf"\s*(?:[\w.]+\.)?[\"']?(?P<key>{last})[\"']?\s*=", line)
        if inside and match:
            return number, match.start("key") + 1
    return None, None


# -------------------------------------------------------------------------------------- checks


def _checked(declaration: Declaration, kernel: Kernel) -> Declaration:
    """Errors that need the signature: contents for a scalar, a value for a pointer."""
    parameters = {parameter.name: parameter for parameter in kernel.parameters}
    failures = list(declaration.failures)
    for item in [*declaration.items, *(item for launch in declaration.launches for item in launch)]:
        if not isinstance(item, (Scalar, Buffer)):
            continue
        parameter = parameters.get(item.name.split(".")[0])
        if parameter is None or parameter.is_pointer == isinstance(item, Buffer):
            continue
        if parameter.is_pointer:
            message, cure = f"`{item.name}` is a pointer and takes contents", f"write `{item.name}[length]: normal`"
        else:
            message, cure = f"`{item.name}` is not a pointer", f"write `{item.name} = value`"
        place = item.place
        failures.append(Failure("bad-input", message, place.file, place.line, place.column, cure))
    return evolve(declaration, failures=tuple(failures))
