"""Which parts of the files the preprocessor would drop, as far as their own `#define`s decide.

The conditionals are followed in order, through the project's headers, with no `-D` flags; what cannot be evaluated
is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import field, frozen

from optiml_core.source import TranslationUnit

_PREDEFINED = {
    "__CUDACC__": "1",
    "__NVCC__": "1",
    "__cplusplus": "201703L",
    "CUDART_VERSION": "13000",
    "CUDA_VERSION": "13000",
}
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")

# Gives the number of a preprocessor expression without names, or None.
Calculate = Callable[[str], float | None]


@frozen(eq=False)
class Dropped:
    """Byte ranges of each unit (by ``id``) that are not compiled, and the macros that are: name to unit and offset."""

    ranges: dict[int, list[tuple[int, int]]] = field(factory=dict)
    defined: dict[str, str] = field(factory=dict)
    visited: set[int] = field(factory=set)

    def holds(self, unit: TranslationUnit, position: int) -> bool:
        """Whether the position is dropped."""
        ranges = self.ranges.get(id(unit), ())
        return bool(ranges) and any(start <= position < end for start, end in ranges)


def dropped_parts(units: Sequence[TranslationUnit], calculate: Calculate) -> Dropped:
    """Follows the conditionals of the first unit, which includes the others, then of those that it does not include."""
    dropped = Dropped(defined=dict(_PREDEFINED))
    for unit in units:
        if id(unit) not in dropped.visited:
            _follow(unit, units, dropped, calculate, 0)
    return dropped


@frozen(eq=False)
class _Branch:
    """One open conditional: whether code around it is compiled, whether a branch was taken, whether this one is."""

    outer: bool
    taken: bool
    active: bool
    start: int


def _follow(
    unit: TranslationUnit, units: Sequence[TranslationUnit], dropped: Dropped, calculate: Calculate, depth: int
) -> None:
    dropped.visited.add(id(unit))
    ranges = dropped.ranges.setdefault(id(unit), [])
    open_branches: list[_Branch] = []

    def active() -> bool:
        return all(branch.active for branch in open_branches)

    def close(branch: _Branch, end: int) -> None:
        if branch.outer and not branch.active:
            ranges.append((branch.start, end))

    for directive in unit.scan.directives:
        word, text = directive.word, _without_comments(directive.text)
        if word in ("if", "ifdef", "ifndef"):
            outer = active()
            truth = _truth(word, text, dropped, calculate) if outer else False
            open_branches.append(_Branch(outer, truth, truth, directive.end))
        elif word in ("else", "elif", "elifdef", "elifndef") and open_branches:
            branch = open_branches.pop()
            close(branch, directive.start)
            as_if = {"elif": "if", "elifdef": "ifdef", "elifndef": "ifndef"}.get(word)
            truth = branch.outer and not branch.taken
            if truth and as_if is not None:
                truth = _truth(as_if, text, dropped, calculate)
            open_branches.append(_Branch(branch.outer, branch.taken or truth, truth, directive.end))
        elif word == "endif" and open_branches:
            close(open_branches.pop(), directive.start)
        elif word == "define" and active():
            match = re.match(r"\s*([A-Za-z_]\w*)(\([^)]*\))?\s*(.*)", text, re.DOTALL)
            if match:
                dropped.defined.setdefault(match[1], match[3].strip() if match[2] is None else "")
        elif word == "undef" and active():
            dropped.defined.pop(text.strip(), None)
        elif word == "include" and active() and depth < 12:
            _include(text, units, dropped, calculate, depth)


def _include(text: str, units: Sequence[TranslationUnit], dropped: Dropped, calculate: Calculate, depth: int) -> None:
    match = re.search(r'"([^"]+)"', text)
    if match is None:
        return
    wanted = match[1].replace("\\", "/").rsplit("/", 1)[-1]
    for other in units:
        path = other.source.path.replace("\\", "/")
        if path.rsplit("/", 1)[-1] == wanted and id(other) not in dropped.visited:
            _follow(other, units, dropped, calculate, depth + 1)
            return


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ").replace("\\\r\n", " ")


def _truth(word: str, text: str, dropped: Dropped, calculate: Calculate) -> bool:
    """Whether a condition holds; what cannot be evaluated holds, so that nothing is lost."""
    if word in ("ifdef", "ifndef"):
        match = _WORD.search(text)
        return match is None or (match[0] in dropped.defined) == (word == "ifdef")
    spelled = re.sub(
        r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
        lambda match: str(int((match[1] or match[2]) in dropped.defined)),
        text,
    )
    for _ in range(8):
        replaced = _WORD.sub(lambda match: _meaning(match[0], dropped), spelled)
        if replaced == spelled:
            break
        spelled = replaced
    value = calculate(spelled)
    return value is None or value != 0


def _meaning(word: str, dropped: Dropped) -> str:
    """What a word in a condition stands for: a macro's body, or 0."""
    return f"({dropped.defined[word] or 0})" if word in dropped.defined else "0"
