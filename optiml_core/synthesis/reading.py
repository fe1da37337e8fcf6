"""Reads a description: which arrays and numbers it names, of which types and extents, and where results go.

A phrase grammar over tokens. Each production is a pattern over the token text (tokens joined by one blank) whose
parts are the categories below: NAME (any identifier that is no word of the vocabulary), SIZE, TYPE and KIND.
Productions add up; a later one fills what an earlier one left open and never overrules it.
"""

from __future__ import annotations

import re

from attrs import define, evolve, field, frozen

from optiml_core.synthesis.formulas import Formula, find_formulas, tokenize

TYPE_WORDS = {
    "float": "float", "floats": "float", "double": "double", "doubles": "double", "int": "int", "ints": "int",
    "integer": "int", "integers": "int", "byte": "unsigned char", "bytes": "unsigned char",
    "unsigned bytes": "unsigned char", "unsigned byte": "unsigned char",
}  # fmt: skip
KINDS = "arrays|array|vectors|vector|matrices|matrix|grid|tensor|signal|sequence|list"
# Words that are never the name of an array. Nouns that people do use as names (values, order, table) are not here.
_WORDS = (
    "a an the of in on to into from by for with and or as at is are be being was each every all both its it them that "
    "this which where whose if there one two three four per over along than between outside inside using so "
    "compute calculate find store stored write writes put save build make take apply add scale multiply sum sums "
    "subtract divide count counted get give given giving holds hold contains becomes become copied update updating "
    "result results element elements entry entries points point edge edges node nodes rows columns row column "
    "length size type number row-major sorted dense sparse real place then first "
    "product discrete array arrays vector vectors matrix matrices grid tensor "
    "image signal float floats double doubles int ints "
    "integer integers unsigned byte bytes when only how many not must"
)
WORDS = frozenset(_WORDS.split())
AFTER_A_NAME = frozenset(("and", "into", "to", "by", "in", "is", "of", "from", "with", "has", "holds"))
NAME = r"(?P<name>[A-Za-z_]\w*)"
SIZE = r"(?P<size>[A-Za-z_]\w*|\d+)"
SIZES = r"(?P<size>[A-Za-z_]\w*|\d+) (?:x|by) (?P<size2>[A-Za-z_]\w*|\d+)"
TYPE = r"(?P<type>unsigned bytes?|floats?|doubles?|ints?|integers?|bytes?)"
KIND = rf"(?:{KINDS})"
ADJECTIVES = r"(?:(?:real|dense|row - major|sorted|given|input|contiguous|square) )*"

PRODUCTIONS = [
    rf"{SIZES} {TYPE} (?:{KIND} )?{NAME}",
    rf"{TYPE} {KIND} {NAME} (?:\( )?{SIZES}",
    rf"{TYPE} {KIND} {NAME} with {SIZE} rows and (?P<size2>\w+) columns",
    rf"{NAME} is an? {ADJECTIVES}{TYPE} matrix with {SIZE} rows and (?P<size2>\w+) columns",
    rf"{NAME} \( {SIZES} \)",
    rf"{TYPE} {NAME} of {SIZES}",
    rf"{SIZE} {ADJECTIVES}{TYPE} (?:in |of |from )?(?:the )?(?:{KIND} )?{NAME}",
    rf"{NAME} (?:holds|contains|has) {SIZE} {TYPE}",
    rf"{NAME} holds one {TYPE} for each of the {SIZE}",
    rf"{NAME} is an? {ADJECTIVES}{KIND} of {SIZE} {TYPE}",
    rf"{TYPE} {KIND} {NAME} of length {SIZE}",
    rf"{KIND} {NAME} of length {SIZE}",
    rf"{KIND} {NAME} of {SIZE} {TYPE}",
    rf"{NAME} is an? {ADJECTIVES}{KIND} of {TYPE}",
    rf"{NAME} holds them as {TYPE}",
    rf"{TYPE} {KIND} {NAME}",
    rf"{TYPE} {NAME}",
    rf"{NAME} and (?:the \w+ parts )?(?P<name2>\w+) of (?:a \w+ of )?{SIZE} {TYPE} each",
    rf"{KIND} {NAME} and (?P<name2>\w+) of {SIZE} {TYPE}",
]
OUTPUTS = [
    rf"(?:into|giving) (?:the )?(?:{TYPE} )?(?:{KIND} )?{NAME}",
    rf"(?:store|stored|stores|write|writes|put|save|result|results)(?: [\w/-]+){{0,8}}? "
    rf"(?:in|to|into|as) (?:the )?(?:{TYPE} )?(?:{KIND} )?{NAME}",
    rf", in (?:the )?(?:{TYPE} )?(?:{KIND} )?{NAME}",
    rf"updating {NAME} in place",
]


@frozen
class Declared:
    """What the text says of one name. ``shape`` None: nothing was said."""

    name: str
    type: str | None = None
    shape: tuple[str, ...] | None = None


@define
class Reading:
    """A description read: its tokens, declared names, named results and formulas."""

    tokens: list[str]
    text: str  # tokens joined by blanks, with one at each end
    declared: dict[str, Declared] = field(factory=dict)
    outputs: list[str] = field(factory=list)
    formulas: list[Formula] = field(factory=list)
    number_type: str | None = None  # the first floating type named, else the first type
    length: str | None = None  # the first extent that counts elements

    def search(self, pattern: str) -> re.Match[str] | None:
        """A pattern over the token text; words in any case, whole tokens only."""
        return re.search(rf"(?<= )(?:{pattern})(?= )", self.text, re.IGNORECASE)

    def says(self, *words: str) -> bool:
        return any(self.search(word) is not None for word in words)

    def type_of(self, name: str) -> str | None:
        known = self.declared.get(name)
        return (known.type if known else None) or self.number_type

    def shape_of(self, name: str) -> tuple[str, ...] | None:
        known = self.declared.get(name)
        return known.shape if known else None

    def inputs(self) -> list[str]:
        """Names with a shape that are no result, in the order of the text."""
        return [one.name for one in self.declared.values() if one.shape is not None and one.name not in self.outputs]

    @property
    def output(self) -> str | None:
        return self.outputs[0] if self.outputs else None

    def add(self, name: str, ctype: str | None, shape: tuple[str, ...] | None) -> None:
        known = self.declared.get(name, Declared(name))
        self.declared[name] = evolve(known, type=known.type or ctype, shape=known.shape or shape)


def read(text: str) -> Reading:
    """Reads a description (without comment signs)."""
    tokens = _articles(tokenize(text))
    reading = Reading(tokens, " " + " ".join(tokens) + " ")
    reading.formulas = find_formulas(tokens)
    _types_and_length(reading)
    for pattern in PRODUCTIONS:
        for match in _all(pattern, reading.text):
            _declare(reading, match)
    _lists(reading)
    for pattern in OUTPUTS:
        for match in _all(pattern, reading.text):
            _output(reading, match["name"])
            if (ctype := _type(match)) is not None:
                reading.add(match["name"], ctype, None)
    for formula in reading.formulas:
        _output(reading, formula.target)
    # `result[0]`, and `into sums` at the end of a clause, cannot be meant as the noun.
    named = rf"(?:the )?(?:{TYPE} )?(?:{KIND} )?{NAME}"
    for pattern in (rf"(?:into|in|to) {named} \[ 0 \]", rf"(?:into|giving) {named}(?= [.,;)]| $)"):
        for match in _all(pattern, reading.text):
            if match["name"] not in reading.outputs:
                reading.outputs.append(match["name"])
                reading.add(match["name"], _type(match), None)
    if reading.length is not None:
        for match in _all(rf"{NAME} (?:holds|contains) (?:them|these|their \w+)", reading.text):
            _declare_vector(reading, match["name"])
    return reading


def _articles(tokens: list[str]) -> list[str]:
    """The article ``a`` becomes ``an``, so that what stays ``a`` or ``A`` is a name."""
    told = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        before = tokens[at - 1] if at else ""
        is_word = len(after) > 1 and after.isalpha() and after.lower() not in AFTER_A_NAME
        told.append("an" if token in ("a", "A") and is_word and before not in tuple("=+-*/^([") else token)
    return told


def _lists(reading: Reading) -> None:
    """``float vectors x, y and z of length n``, ``n floats of a and b``."""
    names = r"(?P<list>\w+(?: , \w+)* and \w+)"
    for pattern in (
        rf"(?:{TYPE} )?(?:vectors|arrays) {names} of length {SIZE}",
        rf"(?:vectors|arrays) {names} of {SIZE} {TYPE}",
        rf"{SIZE} {TYPE} (?:in|of) {names}",
    ):
        for match in _all(pattern, reading.text):
            found = re.split(r" , | and ", match["list"])
            if is_name(match["size"]) and all(is_array_name(name) for name in found):
                for name in found:
                    reading.add(name, _type(match), (match["size"],))


def _declare_vector(reading: Reading, name: str) -> None:
    if is_array_name(name) and reading.length is not None:
        reading.add(name, None, (reading.length,))


def _all(pattern: str, text: str) -> list[re.Match[str]]:
    """Every match of the pattern, overlapping ones too, so that one phrase never hides another."""
    compiled = re.compile(rf"(?<= )(?:{pattern})(?= )", re.IGNORECASE)
    return [m for at in range(len(text)) if text[at - 1] == " " and (m := compiled.match(text, at)) is not None]


def _type(match: re.Match[str]) -> str | None:
    word = match.groupdict().get("type")
    return TYPE_WORDS[word.lower()] if word else None


def _types_and_length(reading: Reading) -> None:
    found = [TYPE_WORDS[token.lower()] for token in reading.tokens if token.lower() in TYPE_WORDS]
    floating = [one for one in found if one in ("float", "double")]
    reading.number_type = (floating or found or [None])[0]  # type: ignore[list-item]
    counted = rf"{SIZE} {ADJECTIVES}(?:{TYPE}|points|elements|values|numbers|entries|edges)"
    sizes = [m["size"] for m in _all(counted, reading.text) if is_name(m["size"])]
    sizes += [m["size"] for m in _all(rf"length {SIZE}", reading.text) if is_name(m["size"])]
    reading.length = sizes[0] if sizes else None


def is_name(word: str) -> bool:
    """Whether a word can be a name: a capital single letter is one where it is not the article."""
    return word in ("a", "A") or word.lower() not in WORDS | {"rows", "columns"} or word in ("rows", "cols")


def _declare(reading: Reading, match: re.Match[str]) -> None:
    groups = match.groupdict()
    name, size, size2 = match["name"], groups.get("size"), groups.get("size2")
    if not is_array_name(name) or any(one is not None and not is_name(one) for one in (size, size2)):
        return
    shape = None if size is None else (size,) if size2 is None else (size, size2)
    reading.add(name, _type(match), shape)
    if groups.get("name2") and is_array_name(groups["name2"]):
        reading.add(groups["name2"], _type(match), shape)


def is_array_name(word: str) -> bool:
    return word in ("a", "A", "image") or word.lower() not in WORDS


def _output(reading: Reading, name: str) -> None:
    if is_array_name(name) and name not in reading.outputs:
        reading.outputs.append(name)
