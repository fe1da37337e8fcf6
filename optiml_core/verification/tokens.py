"""C++ text as tokens, for checks that look at names: comments gone, strings whole, directives apart.

This is a lexer and nothing more: where meaning is needed the checks use the source room's parse or, better, what a
run shows. Continued lines are joined first, so that a name cannot be hidden by splitting it.
"""

from __future__ import annotations

import re

from attrs import frozen

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|u|U|L)?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<name>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<operator><<<|>>>|\#\#|::|->|[-+*/%&|^!=<>]=|<<|>>|&&|\|\||\+\+|--|\S)
  | (?P<newline>\n)
    """,
    re.VERBOSE | re.DOTALL,
)


@frozen
class Tokens:
    """The tokens of a text: ``code`` without directives, ``directives`` as one tuple of tokens each."""

    code: tuple[str, ...]
    directives: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """Every identifier and keyword, also of the directives."""
        words = [*self.code, *(word for directive in self.directives for word in directive)]
        return frozenset(word for word in words if word[0].isalpha() or word[0] == "_")


def tokenize(text: str) -> Tokens:
    """Splits C++ text into tokens; never fails, unknown characters are tokens of their own."""
    text = re.sub(r"\\\r?\n", "", text)
    code: list[str] = []
    directives: list[tuple[str, ...]] = []
    current: list[str] | None = None
    at_line_start = True
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if match.group("raw"):
            kind = "string"
        if kind == "comment":
            continue
        if kind == "newline":
            if current is not None:
                directives.append(tuple(current))
                current = None
            at_line_start = True
            continue
        if at_line_start and token == "#":
            current = []
        (code if current is None else current).append(token)
        at_line_start = False
    if current is not None:
        directives.append(tuple(current))
    return Tokens(tuple(code), tuple(directives))
