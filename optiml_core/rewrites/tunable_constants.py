"""Constants of a file that only decide how a kernel works: `#define TILE 16`, `constexpr int rows_per_thread = 4;`.

Such a constant may take another value if nothing but the kernel and its launch knows it. Which values are worth a try
is declared behind it (``// optiml: 8, 16, 32``), or halves and doubles of what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from optiml_core.records import Kernel
from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import object_macros
from optiml_core.rewrites.syntax import ancestors, declared_variables, names_in, walk_types
from optiml_core.source import TranslationUnit

LARGEST = 1024
_WORD = re.compile(rb"[A-Za-z_]\w*")
_INTEGER = rb"(?:\b%s\b|[={])\s*\(?\s*(\d+)[uU]?\s*[)}]?\s*;?\s*$"
_COMMENT = re.compile(rb"//.*|/\*.*?\*/", re.DOTALL)
_DECLARED = re.compile(rb"//\s*optiml\s*:\s*(\d+(?:\s*,\s*\d+)*)\s*$")

Span = tuple[int, int]


@frozen
class TunableConstant:
    """A constant with the byte range of its number and the other values to try, the most promising first."""

    name: str
    value: int
    number: Span
    others: tuple[int, ...]


def tunable_constants(context: RewriteContext) -> tuple[TunableConstant, ...] | Refusal:
    """The constants that may take another value, in the order of the file; a Refusal with the last reason if none."""
    unit, kernel = context.unit, context.kernel
    used = names_used(unit, kernel)
    found: list[TunableConstant] = []
    reason = "the kernel uses no integer constant of this file"
    for name, definition in _definitions(unit):
        if name not in used:
            continue
        read = _read(unit, name, definition)
        problem = read if isinstance(read, Refusal) else _known_elsewhere(context, name)
        if isinstance(problem, Refusal):
            reason = problem.reason
        elif isinstance(read, TunableConstant):
            found.append(read)
    return tuple(found) or Refusal(reason)


def names_used(unit: TranslationUnit, kernel: Kernel) -> frozenset[str]:
    """Every name that a kernel's text stands on: its own, those of macros, constants and device functions it uses."""
    constants = object_macros(unit)
    bodies = {macro.name: macro.body for macro in unit.macros}
    functions = {one.name: one.range for one in unit.device_functions}
    found: set[str] = set()
    waiting = _words(unit.plain[kernel.range.start_byte : kernel.range.end_byte])
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in (constants.get(name), bodies.get(name)):
            if text is not None:
                waiting |= _words(text.encode("utf-8", "surrogateescape")) - found
        if name in functions:
            where = functions[name]
            waiting |= _words(unit.plain[where.start_byte : where.end_byte]) - found
    return frozenset(found)


def _words(text: bytes) -> set[str]:
    return {word.decode() for word in _WORD.findall(text)}


# -------------------------------------------------------------------------------- definitions


def _definitions(unit: TranslationUnit) -> Iterator[tuple[str, Span]]:
    """Names and byte ranges of object-like macros and constants at file scope."""
    macros = [
        (macro.name, (macro.range.start_byte, macro.range.end_byte))
        for macro in unit.macros
        if macro.parameters is None
    ]
    constants = [
        (variable.name, (declaration.start_byte, declaration.end_byte))
        for declaration in unit.tree.root_node.named_children
        for variable in declared_variables(declaration)
        if variable.value is not None and re.search(r"\bconst(expr)?\b", variable.type)
    ]
    yield from sorted([*macros, *constants], key=lambda one: one[1])


def _read(unit: TranslationUnit, name: str, definition: Span) -> TunableConstant | Refusal:
    if sum(1 for other, _ in _definitions(unit) if other == name) > 1:
        return Refusal(f"`{name}` is defined more than once")
    start, end = definition
    text = _COMMENT.sub(lambda comment: b" " * len(comment[0]), unit.plain[start:end])
    number = re.search(_INTEGER % name.encode(), text)
    if number is None or int(number[1]) < 1 or text.count(name.encode()) != 1:
        return Refusal(f"`{name}` is no positive integer")
    value = int(number[1])
    values = _declared(unit, end) or _near(value)
    others = tuple(one for one in values if one != value)
    if not others:
        return Refusal(f"`{name}` has no other value to try (declare some behind it: `// optiml: 4, 8, 16`)")
    return TunableConstant(name, value, (start + number.start(1), start + number.end(1)), others)


def _declared(unit: TranslationUnit, end: int) -> tuple[int, ...]:
    """The values that the comment at the end of the definition's line declares."""
    line = unit.source.line_bytes(unit.source.line_of(max(end - 1, 0)))
    match = _DECLARED.search(line.rstrip())
    return () if match is None else tuple(int(value) for value in match[1].split(b","))


def _near(value: int) -> tuple[int, ...]:
    """Twice and half, then four times and a quarter; nothing for what is not a power of two."""
    if value & (value - 1):
        return ()
    return tuple(one for one in (2 * value, value // 2, 4 * value, value // 4) if 1 <= one <= LARGEST)


# --------------------------------------------------------------------------------- who knows it


def _known_elsewhere(context: RewriteContext, name: str) -> Refusal | None:
    """Who else would be changed with the constant: another kernel, host code beside the launch, another file."""
    unit, kernel = context.unit, context.kernel
    for other in unit.kernels:
        if other.range != kernel.range and name in names_used(unit, other):
            return Refusal(f"the kernel {other.name} uses `{name}` as well")
    dependents = {name} | {
        other for other, where in _definitions(unit) if name in _words(unit.plain[where[0] : where[1]])
    }
    allowed = [*_device_spans(unit, kernel), *_launch_spans(unit, kernel)]
    for directive in unit.scan.directives:
        if directive.word in ("define", "undef"):
            allowed.append((directive.start, directive.end))
        elif directive.word == "ifndef" and directive.text.strip() == name:
            allowed.append((directive.start, directive.end))  # the guard around a default
    allowed += [where for _, where in _definitions(unit)]
    for match in _WORD.finditer(unit.plain):
        if match[0].decode() in dependents and not any(start <= match.start() < end for start, end in allowed):
            line = unit.source.line_of(match.start())
            return Refusal(f"line {line} uses `{match[0].decode()}` beside the kernel and its launch")
    for outside in context.other_launch_sites or ():
        if name in _words(outside.unit.plain):
            return Refusal(f"{outside.unit.source.path} uses `{name}` as well")
    return None


def _device_spans(unit: TranslationUnit, kernel: Kernel) -> list[Span]:
    used = names_used(unit, kernel)
    spans = [(one.range.start_byte, one.range.end_byte) for one in unit.device_functions if one.name in used]
    return [(kernel.range.start_byte, kernel.range.end_byte), *spans]


def _launch_spans(unit: TranslationUnit, kernel: Kernel) -> list[Span]:
    """Grid, block and shared memory of the kernel's launches, and the declarations of the variables in them."""
    spans: list[Span] = []
    for site in unit.launches_of(kernel):
        own = [site.grid_range, site.block_range, *([site.shared_range] if site.shared_range is not None else [])]
        spans += [(one.start_byte, one.end_byte) for one in own]
        node = unit.tree.root_node.named_descendant_for_byte_range(site.grid_range.start_byte, site.grid_range.end_byte)
        function = None if node is None else next((n for n in ancestors(node) if n.type == "function_definition"), None)
        if function is None:
            continue
        wanted = set().union(*(_words(unit.plain[one.start_byte : one.end_byte]) for one in own))
        declarations = [d for d in walk_types(function, "declaration") if d.end_byte <= site.range.start_byte]
        for declaration in reversed(declarations):
            for variable in declared_variables(declaration):
                if variable.name in wanted:
                    spans.append((declaration.start_byte, declaration.end_byte))
                    wanted |= names_in(declaration)
    return spans
