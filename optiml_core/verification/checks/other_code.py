"""A candidate leaves the file's other kernels as they are: only one kernel is verified at a time.

Another kernel is the same if its own text is, and the text of every device function, global and macro that it names,
directly or through others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from attrs import frozen

from optiml_core.records import Kernel, SourceRange
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


def module_state(
    original: TranslationUnit, candidate: TranslationUnit, kernel: str, declared: frozenset[str]
) -> str | None:
    """A ``__device__`` variable of the file that a run does not show: written by the original, or used by the
    candidate alone. ``declared`` are those that the workload declares, whose contents are compared."""
    before, after = _definitions(original), _definitions(candidate)
    texts = [_texts_of(original, kernel, before), _texts_of(candidate, kernel, after)]
    for variable in original.globals:
        name = variable.name
        if variable.space not in ("device", "managed") or name in declared or "const" in variable.type.split():
            continue
        used = [any(name in text for text in one) for one in texts]
        if used[1] and not used[0]:
            return f"the candidate uses the module variable `{name}`, which the original does not"
        if used[0] and any(_writes(text, name) for text in texts[0]):
            cure = f"declare it (`// optiml: {name}[length]: zeros`)"
            return f"the original writes the module variable `{name}`, which is not compared; {cure}"
    return None


def _texts_of(unit: TranslationUnit, kernel: str, definitions: _Definitions) -> list[tuple[str, ...]]:
    """The tokens of a kernel and of the functions and macros that it reaches, variables' own declarations apart."""
    found = unit.kernel(kernel)
    if found is None:
        return []
    mine = _tokens(unit, found.range)
    variables = {variable.name for variable in unit.globals}
    return [mine, *(text for name, text in definitions.closure(mine).items() if name not in variables)]


_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"})


def _writes(text: tuple[str, ...], name: str) -> bool:
    """Whether the text assigns to the variable or takes its address."""
    for at, word in enumerate(text):
        if word != name or (at and text[at - 1] in (".", "->")):
            continue
        if at and text[at - 1] in ("&", "++", "--") and (at < 2 or text[at - 2] in ("(", ",", "=", ";", "{", "}")):
            return True
        end = at + 1
        while end < len(text) and text[end] == "[":
            end = _closing(text, end) + 1
        if end < len(text) and text[end] in _ASSIGNMENTS:
            return True
        if text[end : end + 2] in (("<<", "="), (">>", "=")):
            return True
    return False


def _closing(text: tuple[str, ...], opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if depth == 0:
            return at
    return len(text)


def host_code_differs(original: TranslationUnit, candidate: TranslationUnit) -> bool:
    """Whether anything besides device code, directives and the configuration of launches differs."""
    return _host_tokens(original) != _host_tokens(candidate)


def changed_launching_code(original: TranslationUnit, candidate: TranslationUnit, kernel: Kernel) -> str | None:
    """What the functions that launch the kernel do besides configuring its launches, where it changes: other arguments,
    another allocation, a launch that is gone. Host code is never run, so it must stay."""
    before, after = (_launching(unit, kernel) for unit in (original, candidate))
    for at, text in enumerate(before):
        if at >= len(after) or after[at] != text:
            return "the host code around a launch changes in more than the launch's configuration; it is never run"
    return None


def _launching(unit: TranslationUnit, kernel: Kernel) -> list[tuple[str, ...]]:
    """The tokens of every function that launches the kernel, without configurations and what only they use."""
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    for site in unit.launches_of(kernel):
        where = site.function_range
        if where is None or site.range.file != unit.source.path:
            continue
        span = (where.start_byte, where.end_byte)
        if span in found:
            continue
        data = bytearray(unit.source.data)
        configuration = ""
        for other in unit.launch_sites:
            for part in (other.grid_range, other.block_range, other.shared_range):
                if part is not None and span[0] <= part.start_byte < span[1]:
                    configuration += " " + data[part.start_byte : part.end_byte].decode("utf-8", "replace")
                    data[part.start_byte : part.end_byte] = b" " * (part.end_byte - part.start_byte)
        found[span] = _without_settings(
            tokenize(data[span[0] : span[1]].decode("utf-8", "replace")).code, configuration
        )
    return [found[span] for span in sorted(found)]


def _without_settings(code: tuple[str, ...], configuration: str) -> tuple[str, ...]:
    """The tokens without the statements that set names which nothing but configurations use."""
    names = {word for word in tokenize(configuration).code if word[0].isalpha() or word[0] == "_"}
    statements = _statements(code)
    while True:
        settings = [
            at
            for at, statement in enumerate(statements)
            if any(_sets(statement, name) and not _used_elsewhere(statements, at, name) for name in names)
        ]
        if not settings:
            return tuple(word for statement in statements for word in statement)
        for at in settings:
            names |= {word for word in statements[at] if word[0].isalpha() or word[0] == "_"}
        statements = [statement for at, statement in enumerate(statements) if at not in settings]


def _statements(code: tuple[str, ...]) -> list[tuple[str, ...]]:
    statements: list[tuple[str, ...]] = []
    current: list[str] = []
    depth = 0
    for word in code:
        current.append(word)
        depth += (word == "(") - (word == ")")
        if word in ("{", "}") or (word == ";" and depth <= 0):
            statements.append(tuple(current))
            current, depth = [], 0
    return [*statements, tuple(current)]


def _sets(statement: tuple[str, ...], name: str) -> bool:
    """Whether a statement declares or assigns a name: ``dim3 name(...)``, ``int name = ...``, ``name = ...``,
    ``name.x = ...``."""
    if name not in statement or statement[-1] != ";":
        return False
    at = statement.index(name)
    following = statement[at + 1]
    if following == ".":
        return at == 0 and statement[at + 3 : at + 4] == ("=",)
    head = statement[:at]
    is_declared = bool(head) and all(word[0].isalpha() or word[0] == "_" or word in ("::", "*", "&") for word in head)
    return (following in ("=", ";") and (is_declared or at == 0)) or (following == "(" and is_declared)


def _used_elsewhere(statements: list[tuple[str, ...]], own: int, name: str) -> bool:
    return any(
        at != own and name in statement and not _sets(statement, name) for at, statement in enumerate(statements)
    )


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
