"""A candidate leaves the file's other kernels as they are: only one kernel is verified at a time.

Another kernel is the same if its own text is, and the text of every device function, global and macro that it names,
directly or through others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from attrs import frozen

from optiml_core.records import SourceRange
from optiml_core.source import TranslationUnit
from optiml_core.verification.tokens import tokenize


@frozen
class _Definitions:
    """What each name of a file stands for: the tokens of everything defined under it; which names are macros."""

    by_name: Mapping[str, tuple[str, ...]]
    macros: frozenset[str]

    def closure(self, start: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The definitions that ``start`` reaches by name."""
        reached: dict[str, tuple[str, ...]] = {}
        waiting = list(start)
        while waiting:
            word = waiting.pop()
            if word in self.by_name and word not in reached:
                reached[word] = self.by_name[word]
                waiting.extend(self.by_name[word])
        return reached


def problem(original: TranslationUnit, candidate: TranslationUnit, kernel: str) -> str | None:
    """The first other kernel that the candidate changes, removes or breaks, or None."""
    before, after = _definitions(original), _definitions(candidate)
    for other in original.kernels:
        if other.qualified == kernel:
            continue
        twin = candidate.kernel(other.qualified)
        if twin is None:
            return f"the kernel `{other.qualified}` is gone"
        mine, theirs = _tokens(original, other.range), _tokens(candidate, twin.range)
        used = before.closure(mine)
        same = mine == theirs and all(after.by_name.get(name) == tokens for name, tokens in used.items())
        if not same:
            return f"the kernel `{other.qualified}` changes too, or a function that it uses; only one is verified"
        added = _captured([mine, *used.values()], before, after)
        if added is not None:
            return f"the kernel `{other.qualified}` may change: the added `{added}` has a name that it uses"
    return None


def _captured(texts: list[tuple[str, ...]], before: _Definitions, after: _Definitions) -> str | None:
    """A name that the candidate adds and that would mean something else in a text that is there already.

    The text compiled without it. So an added macro replaces what it names, and an added function may be preferred to
    the one that is called; a local variable of that name hides a function and is not touched by it.
    """
    for text in texts:
        for word, following in itertools.pairwise((*text, "")):
            is_added = word in after.by_name and word not in before.by_name
            if is_added and (word in after.macros or following in ("(", "<")):
                return word
    return None


def host_code_differs(original: TranslationUnit, candidate: TranslationUnit) -> bool:
    """Whether anything besides device code, directives and the configuration of launches differs."""
    return _host_tokens(original) != _host_tokens(candidate)


def _tokens(unit: TranslationUnit, where: SourceRange) -> tuple[str, ...]:
    return tokenize(unit.source.data[where.start_byte : where.end_byte].decode("utf-8", "replace")).code


def _definitions(unit: TranslationUnit) -> _Definitions:
    found: dict[str, tuple[str, ...]] = {}
    for function in unit.device_functions:
        found[function.name] = found.get(function.name, ()) + _tokens(unit, function.range)
    for variable in unit.globals:
        found[variable.name] = found.get(variable.name, ()) + _tokens(unit, variable.range)
    for struct in unit.structs:
        found[struct.name] = found.get(struct.name, ()) + _tokens(unit, struct.range)
    for macro in unit.macros:
        found[macro.name] = found.get(macro.name, ()) + tokenize(macro.body).code
    return _Definitions(found, frozenset(macro.name for macro in unit.macros))


def _host_tokens(unit: TranslationUnit) -> tuple[str, ...]:
    data = bytearray(unit.source.data)
    device = [
        *(kernel.range for kernel in unit.kernels),
        *(function.range for function in unit.device_functions),
        *(variable.range for variable in unit.globals),
    ]
    configuration = [
        where for site in unit.launch_sites for where in (site.grid_range, site.block_range, site.shared_range) if where
    ]
    for where in (*device, *configuration):
        data[where.start_byte : where.end_byte] = b" " * (where.end_byte - where.start_byte)
    return tokenize(data.decode("utf-8", "replace")).code
