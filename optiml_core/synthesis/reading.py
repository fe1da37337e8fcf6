"""Reads a description: which arrays and numbers it names, of which types and extents, what is done, where results go.

``vocabulary`` lists the phrases, ``grammar`` covers the text with them; here each phrase gets its meaning. What no
phrase covers stays in ``unread``; what a recipe does not use of the rest is found by ``specify``.
"""

from __future__ import annotations

import re

from attrs import define, evolve, field, frozen

from optiml_core.synthesis.formulas import Formula, Load, find_formulas, loads_in, names_in, tokenize
from optiml_core.synthesis.grammar import NAME, SIZE, TYPE, TYPE_WORDS, Cover, Found, candidates, cover
from optiml_core.synthesis.missing import OPERATION_WORDS, Missing, check_count
from optiml_core.synthesis.vocabulary import phrases

_AFTER_A_NAME = "and into to by in is of from with has have hold holds are at over along on times contains element-wise"
AFTER_A_NAME = frozenset(_AFTER_A_NAME.split())
NUMBERS = {"two": 2, "both": 2, "three": 3, "four": 4}
MOST_TOKENS = 300


@frozen
class Declared:
    """What the text says of one name. ``shape`` None: nothing was said. ``is_array``: it was called one."""

    name: str
    type: str | None = None
    shape: tuple[str, ...] | None = None
    is_array: bool = False
    bare: bool = True


@define
class Reading:
    """A description read."""

    tokens: list[str]
    cover: Cover
    declared: dict[str, Declared] = field(factory=dict)
    outputs: list[str] = field(factory=list)
    formulas: list[Formula] = field(factory=list)
    operations: dict[str, Found] = field(factory=dict)
    marks: dict[str, Found] = field(factory=dict)
    scalars: dict[str, str | None] = field(factory=dict)  # name -> type
    number_type: str | None = None  # the one floating type named, else the one type
    counted_type: str | None = None  # what "n doubles" alone says
    length: str | None = None  # what "both of n doubles" says of every array without extents
    indices: set[str] = field(factory=set)  # names between the brackets of the formulas
    used: set[str] = field(factory=set)  # marks and operations that a recipe has taken up

    def op(self, *names: str) -> Found | None:
        """The operation of one of these names, which is then taken up."""
        for name in names:
            if name in self.operations:
                self.used.add(f"op:{name}")
                return self.operations[name]
        return None

    def mark(self, *names: str) -> Found | None:
        """The mark of one of these names, which is then taken up."""
        for name in names:
            if name in self.marks:
                self.used.add(f"mark:{name}")
                return self.marks[name]
        return None

    def type_of(self, name: str) -> str | None:
        known = self.declared.get(name)
        return (known.type if known else None) or self.number_type

    def shape_of(self, name: str) -> tuple[str, ...] | None:
        known = self.declared.get(name)
        return known.shape if known else None

    def inputs(self) -> list[str]:
        """Names with a shape that are no result, in the order of the text."""
        found = [one.name for one in self.declared.values() if one.shape is not None and one.name not in self.outputs]
        return sorted(found, key=self.place)

    def place(self, name: str) -> int:
        return self.tokens.index(name) if name in self.tokens else len(self.tokens)

    @property
    def output(self) -> str | None:
        if len(self.outputs) > 1:
            raise Missing(f"Where does the result go: {' or '.join(f'`{name}`' for name in self.outputs)}?")
        return self.outputs[0] if self.outputs else None

    def add(
        self, name: str, ctype: str | None, shape: tuple[str, ...] | None, is_array: bool = False, bare: bool = False
    ) -> None:
        """Adds what one phrase says of a name. Raises Missing where it contradicts an earlier one."""
        known = self.declared.get(name, Declared(name))
        if known.type and ctype and known.type != ctype:
            raise Missing(f"Is `{name}` of type {known.type} or {ctype}?")
        if known.shape and shape and known.shape != shape:
            raise Missing(f"Has `{name}` the extents {' x '.join(known.shape)} or {' x '.join(shape)}?")
        self.declared[name] = evolve(
            known, type=known.type or ctype, shape=known.shape or shape,
            is_array=known.is_array or is_array or shape is not None, bare=known.bare and bare,
        )  # fmt: skip


def read(text: str) -> Reading:
    """Reads a description (without comment signs). Raises Missing where it contradicts itself."""
    tokens = _articles(tokenize(text))
    if len(tokens) > MOST_TOKENS:
        raise Missing(f"The description has {len(tokens)} words and signs; can it be said in {MOST_TOKENS}?")
    formulas = find_formulas(tokens)
    found = candidates(tokens, phrases()) + [Found("formula", f.start, f.end, {}, "", f) for f in formulas]
    indices = {name for f in formulas for load in _all_loads(f) for index in load.indices for name in names_in(index)}
    found = [one for one in found if not _has_loose_index(one, indices) and not _names_an_operation(one)]
    first = cover(tokens, [one for one in found if not _is_bare(one)])
    # A lone name is a phrase only where another phrase says what it is.
    known = {item for one in first.found for item in _named(one)}
    chosen = cover(tokens, [one for one in found if not _is_bare(one) or set(_named(one)) <= known])
    reading = Reading(
        tokens, chosen, indices=indices, formulas=[one.formula for one in chosen.found if one.formula is not None]
    )
    if chosen.unread:
        reading.operations = {one.kind[3:]: one for one in chosen.found if one.kind.startswith("op:")}
        return reading
    _check_lone_names(chosen)
    for one in chosen.found:
        _understand(reading, one)
    _common_extent(reading)
    types = {one.type for one in reading.declared.values() if one.type} | {reading.counted_type} - {None}
    floating = types & {"float", "double"}
    reading.number_type = next(iter(floating or types)) if len(floating or types) == 1 else None
    for formula in reading.formulas:
        if formula.target not in reading.outputs:
            reading.outputs.append(formula.target)
    return reading


def _check_lone_names(chosen: Cover) -> None:
    """A name right beside a formula or another array is no remark: ``y = 2 * a x`` and ``y[i] = x[i] x[i]`` ask."""
    for before, one, after in zip((None, *chosen.found), chosen.found, (*chosen.found[1:], None), strict=False):
        if not _is_bare(one) or one.text.split(" ")[0] in ("for", "of", "where", "given", "over", "on", "with"):
            continue
        beside = [other for other in (before, after) if other is not None and other.kind in ("formula", "np", "out")]
        if beside:
            raise Missing(f"I do not understand `{one.text}` here: what does it mean, or can it be left out?")


def _articles(tokens: list[str]) -> list[str]:
    """The article ``a`` becomes ``an``, so that what stays ``a`` or ``A`` is a name."""
    told = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        before = tokens[at - 1] if at else ""
        is_word = len(after) > 1 and after.isalpha() and after.lower() not in AFTER_A_NAME
        is_article = token == "a" or (token == "A" and before in ("", ".", ":", "-"))
        told.append("an" if is_article and is_word and before not in tuple("=+-*/^([") else token)
    return told


def _all_loads(formula: Formula) -> list[Load]:
    return [Load(formula.target, formula.indices), *loads_in(formula.value), *(
        load for index in formula.indices for load in loads_in(index))]  # fmt: skip


def _group(one: Found, *names: str) -> str:
    return next((one.groups[name] for name in names if one.groups.get(name)), "")


def _is_bare(one: Found) -> bool:
    """A noun phrase that says nothing of its names."""
    if one.kind != "np":
        return False
    said = {name for name, value in one.groups.items() if value and name not in ("items", "many")}
    return not said and not any(sign in one.groups.get("items", "") for sign in "([")


def _names_an_operation(one: Found) -> bool:
    """``matrix product`` and ``max of n floats`` are no arrays."""
    return one.kind == "np" and any(name.lower() in OPERATION_WORDS for name in _named(one))


def _has_loose_index(one: Found, indices: set[str]) -> bool:
    """``x [ i ]`` with an index of the formulas, and no type before it: a piece of a formula, no declaration."""
    if one.kind != "np" or any(one.groups.get(key) for key in ("type", "ctype")):
        return False
    return any(set(extents(item["brackets"])) & indices for item in _items(one.groups.get("items", "")))


def _named(one: Found) -> list[str]:
    """The names that a phrase tells of."""
    if one.formula is not None:
        return sorted(names_in(one.formula.value) | {one.formula.target})
    names = [
        item["name"] for key, value in one.groups.items() if re.fullmatch(r"items\d?", key) for item in _items(value)
    ]
    return names + [value.split(" ")[0] for key, value in one.groups.items() if key in NAME_GROUPS]


_NAME_GROUPS = "name target source left right x p q filter filter2 table query values row ends re im scale shift"
NAME_GROUPS = frozenset(_NAME_GROUPS.split())
_ITEM = re.compile(
    rf"(?P<name>{NAME})(?P<brackets> [(\[](?! {TYPE} \)) .*?[)\]](?: \[ {SIZE} \])*)?"
    rf"(?: \( (?P<type>{TYPE}) \))?(?= ,| and|$)",
    re.IGNORECASE,
)


def _items(text: str) -> list[dict[str, str]]:
    """``A ( m x k ) and B`` as names with their brackets and types."""
    return [{key: value or "" for key, value in match.groupdict().items()} for match in _ITEM.finditer(text)]


def type_named(word: str) -> str | None:
    """The C++ type of a type's word; None for "" and words of no type."""
    plain = " ".join(word.lower().split())
    if plain.startswith(("single - precision", "double - precision")):
        return "float" if plain.startswith("single") else "double"
    return TYPE_WORDS.get(plain)


def extents(text: str) -> tuple[str, ...]:
    """The sizes in ``( m x k )``, ``[ m ] [ k ]``, ``m by k``, ``of length n``, ``with m rows and k columns``."""
    by_name = re.search(r"(\w+) (rows|columns) and (\w+) (?:rows|columns)", text)
    if by_name is not None:
        first, second = by_name[1], by_name[3]
        return (first, second) if by_name[2] == "rows" else (second, first)
    words = re.sub(
        rf"\b(?:{TYPE}|pixels|elements|values|points|each|of|with|the|same|length|size|both|all|having)\b", " ", text
    )
    found = re.findall(r"[A-Za-z_]\w*|\d+", words)
    return tuple(one for one in found if one not in ("x", "by"))


def noun(reading: Reading, one: Found, suffix: str = "") -> list[str]:
    """Declares the arrays of a noun phrase in ``one`` whose groups end in ``suffix``; their names in order."""
    groups = {
        key[: len(key) - len(suffix)] if suffix else key: v for key, v in one.groups.items() if key.endswith(suffix)
    }
    items = _items(groups.get("items", ""))
    many = groups.get("many", "").lower()
    if many and NUMBERS[many] != len(items):
        raise Missing(f"`{many}` arrays, but {len(items)} named: which?")
    kind = groups.get("kind") or groups.get("ckind") or groups.get("again") or ""
    extent_text = groups.get("extent", "")
    inner = re.search(rf"\b({TYPE})\b", extent_text, re.IGNORECASE)
    ctype = type_named(groups.get("type") or groups.get("ctype") or "") or (type_named(inner[1]) if inner else None)
    said = [extents(groups[key]) for key in ("extent", "pre", "count") if groups.get(key)]
    said = [shape for shape in said if shape]
    if len(set(said)) > 1:
        raise Missing(f"Which extents are meant: {' or '.join(' x '.join(shape) for shape in said)}?")
    if (
        (groups.get("count") or "")
        and kind.lower().startswith(("vector", "matri"))
        and not re.search(r"\b(in|of)\b", one.text)
    ):
        raise Missing(f"Is `{groups['count']}` the number of arrays, or of elements?")
    for key in ("count", "pre"):
        check_count(groups.get(key, ""))
    adjectives = f"{groups.get('adjectives', '')} {groups.get('padjectives', '')}".lower()
    names = []
    for item in items:
        own = extents(item["brackets"]) if item["brackets"] else None
        if own and set(own) <= reading.indices and not set(own) & set(said[0] if said else ()):
            own = None  # `int key[i]` beside a formula over i
        if own and said and own != said[0]:
            raise Missing(f"Has `{item['name']}` the extents {' x '.join(own)} or {' x '.join(said[0])}?")
        shape = own or (said[0] if said else None)
        inside = re.search(rf"\b({TYPE})\b", item["brackets"], re.IGNORECASE)
        if inside is not None:
            item["type"] = inside[1]
        is_detailed = bool(shape or ctype or item["type"] or kind)
        reading.add(item["name"], type_named(item["type"]) or ctype, shape, bool(kind), not is_detailed)
        if shape is not None:
            _check_kind(kind, adjectives, item["name"], shape)
        names.append(item["name"])
    if "sorted" in adjectives:
        reading.marks["sorted"] = one
    if "output" in adjectives.split():
        reading.outputs += [name for name in names if name not in reading.outputs]
    return names


def _check_kind(kind: str, adjectives: str, name: str, shape: tuple[str, ...]) -> None:
    dimensions = {"vector": 1, "matri": 2}.get(
        kind.lower()[:5] if kind.lower().startswith("matri") else kind.lower().rstrip("s")
    )
    if dimensions is not None and dimensions != len(shape):
        raise Missing(f"`{name}` is called a {kind} and has {len(shape)} extents; which is meant?")
    if "square" in adjectives and len(set(shape)) != 1:
        raise Missing(f"`{name}` is called square, but its extents are {' x '.join(shape)}; which is meant?")


def _understand(reading: Reading, one: Found) -> None:
    what, _, name = one.kind.partition(":")
    if what == "np":
        noun(reading, one)
    elif what in ("out", "to"):
        _destination(reading, one)
    elif what == "declare":
        _declaration(reading, one, name)
    elif what in ("op", "mark"):
        table = reading.operations if what == "op" else reading.marks
        if name in table and what == "op":
            raise Missing(f"I read two operations, `{table[name].text}` and `{one.text}`; which one is wanted?")
        table[name] = one
        if one.groups.get("side"):
            reading.marks["rows" if one.groups["side"].lower() == "row" else "columns"] = one
        if one.groups.get("inside"):
            reading.marks["in place"] = one
        for suffix in sorted({key[-1] for key in one.groups if re.fullmatch(r"items\d", key)}):
            noun(reading, one, suffix)
        for key in ("name", "filter", "filter2", "target"):
            if one.groups.get(key) and what == "op" and name in ("convolution",) and key != "name":
                reading.add(one.groups[key], type_named(one.groups.get("ftype", "")), None, True)


def _destination(reading: Reading, one: Found) -> None:
    name, _, brackets = one.groups["name"].partition(" ")
    shape = extents(brackets) if brackets and brackets != "[ 0 ]" else None
    extent_text = one.groups.get("extent", "")
    said = extents(extent_text)
    if shape and said and shape != said:
        raise Missing(f"Has `{name}` the extents {' x '.join(shape)} or {' x '.join(said)}?")
    inner = re.search(rf"\b({TYPE})\b", extent_text, re.IGNORECASE)
    ctype = type_named(one.groups.get("type", "")) or (type_named(inner[1]) if inner else None)
    reading.add(name, ctype, shape or said or (("1",) if brackets == "[ 0 ]" else None), False)
    if name not in reading.outputs:
        reading.outputs.append(name)
    if one.groups.get("place"):
        reading.marks["in place"] = one


def _declaration(reading: Reading, one: Found, name: str) -> None:
    groups = one.groups
    if name == "copula":
        if not any(groups.get(key) for key in ("type", "kind", "pre", "extent")):
            raise Missing(f"What does `{one.text}` say?")
        noun(reading, one)
    elif name in ("holds", "holds one", "holds them"):
        check_count(groups.get("count", ""))
        for item in _items(groups["items"]):
            size = groups.get("count") or groups.get("size")
            reading.add(item["name"], type_named(groups.get("type", "")), (size,) if size else None, True)
    elif name == "permutation":
        reading.add(groups["name"], "int", (groups["size"],), True)
        reading.marks["permutation"] = one
    elif name == "scalar":
        for each in re.findall(NAME, groups.get("names") or groups.get("names2") or ""):
            if each != "and":
                reading.scalars[each] = type_named(groups.get("type") or groups.get("type2") or "")
    elif name == "spectrum":
        for part in (groups["re"], groups["im"]):
            reading.add(part, type_named(groups["type"]), (groups["size"],), True)
    elif name in ("all of", "all grids", "coordinates", "loop", "graph", "leaves", "same", "counted"):
        if name in ("counted", "all of"):
            check_count(groups.get("size", ""))
        if name in reading.marks:
            raise Missing(f"`{reading.marks[name].text}` or `{one.text}`: which is meant?")
        reading.marks[name] = one


def _common_extent(reading: Reading) -> None:
    """``both of n doubles``: the extents and type of every array that has none of its own."""
    for kind in ("all of", "all grids", "same", "coordinates", "loop", "counted"):
        one = reading.mark(kind)
        if one is None:
            continue
        shape = extents(_group(one, "sizes", "size")) if _group(one, "sizes", "size") else None
        precision = {"single": "float", "double": "double"}.get(_group(one, "precision").lower())
        ctype = type_named(_group(one, "type", "only")) or precision
        if kind == "same":
            shapes = {d.shape for d in reading.declared.values() if d.shape is not None}
            if len(shapes) > 1:
                raise Missing("The arrays are said to be of the same size, but have different extents; which is right?")
            shape = next(iter(shapes), None)
        if kind == "loop":
            along = [one.groups[key] for key in ("index", "bare", "bare2", "below_index") if one.groups.get(key)]
            if any(index not in reading.indices for index in along):
                raise Missing(f"What does `{one.text}` change here?")
            reading.length = _group(one, "size", "below", "below2") or reading.length
            continue
        for each in list(reading.declared.values()):
            if each.shape not in (None, shape) and shape is not None and each.name not in reading.outputs:
                said = " x ".join(each.shape or ())
                raise Missing(f"`{one.text}`, but `{each.name}` is {said}; which is meant?")
            is_other = each.type not in (None, ctype, "int" if each.name in reading.indices else None)
            if kind == "counted" and ctype is not None and is_other and each.name not in reading.outputs:
                raise Missing(f"`{one.text}`, but `{each.name}` holds {each.type}; which is meant?")
            if each.shape is None and (each.is_array or kind in ("all of", "all grids")):
                reading.add(each.name, None if each.type else ctype, shape, True)
        if shape is not None and len(shape) == 1:
            reading.length = shape[0]
        if kind == "counted":
            reading.counted_type = ctype
        if ctype is not None and kind == "all of":
            for each in list(reading.declared.values()):
                if each.type is None:
                    reading.add(each.name, ctype, None)


__all__ = ["Missing"]
