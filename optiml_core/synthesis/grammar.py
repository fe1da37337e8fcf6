"""The cover of a text by phrases: every token belongs to exactly one phrase, or it was not understood.

A phrase is a kind and a pattern over the token text (tokens joined by one blank). The cover with the fewest tokens
outside any phrase, then with the fewest phrases, is taken; what lies outside is reported, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from optiml_core.synthesis.formulas import Formula

TYPE_WORDS = {
    "float": "float", "floats": "float", "float32": "float", "fp32": "float", "single": "float",
    "double": "double", "doubles": "double", "float64": "double", "fp64": "double",
    "int": "int", "ints": "int", "integer": "int", "integers": "int", "int32": "int",
    "byte": "unsigned char", "bytes": "unsigned char", "uint8": "unsigned char", "unsigned char": "unsigned char",
    "unsigned bytes": "unsigned char", "unsigned byte": "unsigned char",
}  # fmt: skip
TYPE = (
    r"(?:unsigned (?:bytes?|char)|single - precision floats?|double - precision floats?|floats?|doubles?|ints?|"
    r"integers?|bytes?|float32|fp32|float64|fp64|int32|uint8|single - precision|double - precision)"
)
KIND = r"(?:arrays?|vectors?|matrix|matrices|grid|tensors?|signals?|sequence|list|line|image|batch|volume|buffers?)"
# Words that are never a name: articles, prepositions, conjunctions, quantities, verbs, types and kinds.
_RESERVED_TEXT = (
    "an the of in on to into from by for with without and or nor as at is are be being was were each every all "
    "both it its them that this which where whose if there than then between outside inside using so per over "
    "along compute computes calculate find finds store stored stores write writes written put save saved not "
    "no only except but when unless must don t dont never minus plus times divided squared two three four "
    "first second last half apply add scale multiply subtract divide give giving holds hold contains has have "
    "becomes become given element elements entry entries row rows column columns length size float floats "
    "double doubles int ints integer integers byte bytes unsigned float32 fp32 float64 fp64 int32 uint8 half "
    "char short long bool complex uint int8 int16 int64 uint16 uint32 uint64 float16 bfloat16 fp16 bf16 array "
    "arrays vector vectors matrix matrices tensor tensors"
)
RESERVED = frozenset(_RESERVED_TEXT.split())
# In the token text a reserved word has this sign behind it, so that no pattern takes it for a name.
MARK = "\x01"
NAME = rf"[A-Za-z_]\w*(?![\w{MARK}])"
# An extent may be called rows or cols; a bare `x` separates extents.
SIZE = rf"(?:(?:rows|columns|length|size)(?= (?:x|by|rows|columns|\)|\]|{KIND}|entries))|(?!x ){NAME}|\d+)"
SIZES = rf"{SIZE}(?: (?:x|by) {SIZE}){{1,3}}"
NUMBER = r"(?:- )?(?:\d[\w.+-]*|\.\d\w*)"
ADJECTIVE = r"(?:real|dense|row - major|contiguous|sorted|square|input|device|1 - ?d|2 - ?d|3 - ?d|output)"
_COMMAS = rf"{SIZE}(?: (?:x|by|,) {SIZE}){{0,3}}"
BRACKETS = (
    rf"(?:\( {_COMMAS} \)|\[ {_COMMAS} \](?: \[ {SIZE} \]){{0,3}}|\( {SIZE} {TYPE}(?: each)? \)|"
    rf"\( {SIZES} ,? ?{TYPE} \)|\( {TYPE} ,? ?{SIZES} \))"
)
ITEM = rf"{NAME}(?: {BRACKETS})?(?: \( {TYPE} \))?"
# `n floats in x and m floats in y` is no list of x and m.
_LATER = rf"{ITEM}(?! (?:{TYPE}|elements|values) )"
ITEMS = rf"{ITEM}(?: , {_LATER})*(?: ,? ?and {_LATER})?"
EXTENT = (
    rf"(?:(?:, )?(?:both |all |each )?(?:of|with) (?:the same )?(?:length|size) {SIZE}|"
    rf"(?:with|having|of) {SIZE} rows and {SIZE} columns|(?:with|having|of) {SIZE} columns and {SIZE} rows|"
    rf"(?:, )?(?:both |all |each )?of {SIZES}(?: (?:{TYPE}|pixels|elements))?|"
    rf"(?:, )?(?:both |all |each )?of {SIZE} (?:{TYPE}|elements|values|points)(?: each)?|of {TYPE})"
)


def noun_phrase(suffix: str = "") -> str:
    """Arrays with what is said of them; its groups end in ``suffix``, so that one pattern can hold several."""
    many = rf"(?P<many{suffix}>two |three |four |both )?"
    article = rf"(?:the |an |this |these )?{many}(?:the )?"
    pre = rf"(?P<pre{suffix}>{SIZES} |{SIZE} (?={KIND} ))?"
    adjectives = rf"(?P<adjectives{suffix}>(?:{ADJECTIVE} )*)"
    items = rf"(?P<items{suffix}>{ITEMS})(?: (?P<extent{suffix}>{EXTENT}))?"
    counted = (
        rf"(?P<count{suffix}>{SIZE}) {adjectives}(?P<ctype{suffix}>{TYPE}|elements|values|numbers|entries) "
        rf"(?:(?:in|of|from|called) )?(?:the )?(?P<ckind{suffix}>{KIND} )?"
    )
    plain = (
        rf"{pre}{adjectives.replace('adjectives', 'padjectives')}(?P<type{suffix}>{TYPE} )?(?P<kind{suffix}>{KIND} )?"
        rf"(?:(?:in|of|called|named) )?(?P<again{suffix}>{KIND} )?"
    )
    return rf"{article}(?:{counted}|{plain}){items}"


@frozen
class Phrase:
    """``kind``: ``np``, ``out``, ``op:NAME``, ``mark:NAME``, ``filler`` ... A pattern may hold named groups."""

    kind: str
    pattern: re.Pattern[str]


@frozen
class Found:
    """A phrase in the text: tokens ``start`` to ``end`` (behind the last), its words by group name."""

    kind: str
    start: int
    end: int
    groups: Mapping[str, str]
    text: str
    formula: Formula | None = None


@frozen
class Cover:
    """``found`` in the order of the text; ``unread``: the tokens outside, neighbours joined."""

    found: tuple[Found, ...]
    unread: tuple[str, ...]

    def of_kind(self, kind: str) -> tuple[Found, ...]:
        return tuple(one for one in self.found if one.kind == kind)


def phrase(kind: str, pattern: str) -> Phrase:
    """A phrase whose pattern matches whole tokens, in any case."""
    return Phrase(kind, re.compile(f"(?:{pattern})(?= )".replace(" ", f"{MARK}? "), re.IGNORECASE))


def candidates(tokens: Sequence[str], phrases: Sequence[Phrase]) -> list[Found]:
    """Every phrase at every place, shorter matches of a pattern too."""
    marked = [token + MARK if token.lower() in RESERVED else token for token in tokens]
    text = " ".join(marked) + " "
    starts, at = [], 0
    for token in marked:
        starts.append(at)
        at += len(token) + 1
    token_at = {place: number for number, place in enumerate(starts)}
    token_at[len(text)] = len(tokens)
    found = []
    for number, place in enumerate(starts):
        for one in phrases:
            match = one.pattern.match(text, place)
            if match is None:
                continue
            while match is not None:
                end = token_at.get(text.index(" ", match.end()) + 1)
                if end is None:
                    break
                groups = {name: _plain(value) for name, value in match.groupdict().items() if value is not None}
                found.append(Found(one.kind, number, end, groups, _plain(match[0])))
                if end - number <= 1:
                    break
                match = one.pattern.match(text, place, starts[end - 1])
    return found


def _plain(text: str) -> str:
    return text.replace(MARK, "").strip()


def cover(tokens: Sequence[str], found: Sequence[Found]) -> Cover:
    """The best cover by dynamic programming over the places between tokens."""
    ending: dict[int, list[Found]] = {}
    for one in found:
        ending.setdefault(one.end, []).append(one)
    best: list[tuple[int, int, int]] = [(0, 0, 0)]  # tokens outside, phrases, operations among them
    chosen: list[Found | None] = [None]
    for place in range(1, len(tokens) + 1):
        outside, phrases, operations = best[place - 1]
        cost = (outside + 1, phrases + 1, operations)
        last: Found | None = None
        for one in ending.get(place, ()):
            outside, phrases, operations = best[one.start]
            weight = 1 if one.kind == "filler" else 2
            other = (outside, phrases + weight, operations + one.kind.startswith("op:"))
            if other < cost:
                cost, last = other, one
        best.append(cost)
        chosen.append(last)
    taken: list[Found] = []
    left: list[list[str]] = []
    place, gap = len(tokens), False
    while place > 0:
        step = chosen[place]
        if step is None:
            place -= 1
            left = [[tokens[place], *left[0]], *left[1:]] if gap else [[tokens[place]], *left]
        else:
            taken.append(step)
            place = step.start
        gap = step is None
    return Cover(tuple(reversed(taken)), tuple(" ".join(words) for words in left))
