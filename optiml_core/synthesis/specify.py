"""From a description to a draft, or to the one question that is open.

A draft is only returned where the whole text has been used: every token lies in a phrase, every operation and mark
was taken up by the recipe, and every name, type and extent that the text states is the draft's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import evolve

from optiml_core.synthesis import (
    element_recipes,
    formula_recipes,
    index_recipes,
    matrix_recipes,
    reduction_recipes,
    row_recipes,
    spectrum_recipes,
    window_recipes,
)
from optiml_core.synthesis.grammar import RESERVED
from optiml_core.synthesis.reading import Missing, Reading, read
from optiml_core.synthesis.records import Array, Draft, Question, Specification

Recipe = Callable[[Reading], Draft]

# The operations that lead to a recipe. A text that leads to two recipes is a question.
RECIPES: tuple[tuple[tuple[str, ...], Recipe], ...] = (
    (("spmv",), index_recipes.sparse_rows),
    (("entry sums", "entries"), index_recipes.entry_sums),
    (("dft", "dft parts"), spectrum_recipes.discrete_fourier),
    (("pairwise", "distances", "distances between"), spectrum_recipes.pairwise),
    (("histogram", "equal bins", "key counts", "with bins"), index_recipes.histogram),
    (("degrees",), index_recipes.degrees),
    (("lower bound",), index_recipes.lower_bound),
    (("sort",), index_recipes.rank_sort),
    (("gather", "scatter"), index_recipes.indexed_copy),
    (("softmax",), row_recipes.softmax),
    (("layer norm", "rms norm"), row_recipes.normalisation),
    (("transpose",), matrix_recipes.transpose),
    (("permute",), formula_recipes.permutation_of_axes),
    (("convolution",), window_recipes.convolution),
    (("neighbours",), window_recipes.average_of_neighbours),
    (matrix_recipes.OPERATIONS, matrix_recipes.product),
    (("dot",), matrix_recipes.dot_product),
    (("argmax", "argmin"), reduction_recipes.argument_of_extreme),
    (("count", "count those", "count zeros"), reduction_recipes.counting),
    (("scan",), row_recipes.scan),
    (element_recipes.OPERATIONS, element_recipes.phrase),
    (reduction_recipes.OPERATIONS, reduction_recipes.reduction),
)
KNOWN = (
    "maps by a formula, axpy, dot, sums, extremes, norms and means over all, rows or columns, argmax, counts, scans, "
    "softmax, layer and RMS norm, transpose, permutation of axes, matrix products, batched too, stencils, convolution, "
    "histograms, gather, scatter, distances, DFT, CSR, sorting"
)
# Words of C++ and CUDA that are no names of parameters.
_TAKEN_TEXT = (
    "alignas auto bool break case catch char class const constexpr continue default delete do double else enum "
    "extern float for goto if inline int long namespace new operator private public register return short "
    "signed sizeof static struct switch template this throw try typedef typename union unsigned using virtual "
    "void volatile while and or not xor threadIdx blockIdx blockDim gridDim warpSize main stream block grid "
    "zeroed NULL INFINITY NAN assert half"
)
TAKEN = frozenset(_TAKEN_TEXT.split())


def specify(text: str) -> Draft | Question:
    """The draft that the description asks for, or one question instead of a guess."""
    draft = _specify(clean(text))
    taken = set() if isinstance(draft, Question) else _taken_names(draft)
    for name in taken:
        if name in TAKEN or name.startswith("__"):
            return Question(f"`{name}` is a word of C++ or CUDA; what else can the parameter be called?")
    if not taken:
        return draft
    # A parameter has the name of a local variable of the recipe: drafted under another name, then the local one moves.
    other = {name: f"{name}_given" for name in taken}
    again = _specify(_renamed(clean(text), other))
    if isinstance(again, Question) or _taken_names(again):
        return Question(f"The kernel itself uses the name `{min(taken)}`; what else can the parameter be called?")
    body = _renamed(again.body, {name: f"{name}_local" for name in taken})
    return _with_names(evolve(again, body=body), {given: name for name, given in other.items()})


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)


def _with_names(draft: Draft, names: Mapping[str, str]) -> Draft:
    """The draft with other names of its parameters and sizes, everywhere."""
    back = {name: given for given, name in names.items()}

    def compute(arrays: Mapping[str, Array], values: Mapping[str, int | float]) -> dict[str, Array]:
        given = draft.compute(
            {back.get(name, name): one for name, one in arrays.items()},
            {back.get(name, name): one for name, one in values.items()},
        )
        return {names.get(name, name): one for name, one in given.items()}

    def text(value: str) -> str:
        return _renamed(value, names)

    old = draft.specification
    parameters = tuple(
        evolve(one, name=text(one.name), shape=tuple(map(text, one.shape)), content=text(one.content))
        for one in old.parameters
    )
    specification = Specification(
        old.name.replace("_given", ""), old.pattern, parameters, text(old.reference), tuple(map(text, old.edge_rules))
    )
    grid = tuple(map(text, draft.grid))
    helpers = tuple((text(name), value) for name, value in draft.helpers)
    return Draft(specification, text(draft.body), grid, draft.block, compute, helpers)


def _specify(text: str) -> Draft | Question:
    try:
        reading = read(text)
        if not reading.tokens:
            return Question("What should the kernel compute?")
        recipes = {recipe for names, recipe in RECIPES if any(name in reading.operations for name in names)}
        if reading.formulas and not matrix_recipes.is_the_product(reading):
            recipes.add(matrix_recipes.formula)
        unread = reading.cover.unread
        if unread:
            return Question(_unread_text(unread, bool(recipes)), unread, is_foreign=True)
        if not recipes:
            return Question(f"I know no recipe for this. Which of these is it: {KNOWN}?", is_foreign=True)
        if len(recipes) > 1:
            raise Missing(f"I read more than one operation ({_operations(reading)}); which one should one kernel do?")
        draft = recipes.pop()(reading)
        _check_used(reading)
        _check_agrees(reading, draft)
    except Missing as missing:
        return Question(str(missing))
    return draft


def _unread_text(unread: tuple[str, ...], has_recipe: bool) -> str:
    quoted = ", ".join(f"`{words}`" for words in unread)
    if has_recipe and all(
        re.fullmatch(r"[A-Za-z_]\w{0,2}", words) and words.lower() not in RESERVED for words in unread
    ):
        return f"How long is {quoted}, and of which type (`n floats in {unread[0]}`)?"
    if has_recipe:
        return f"I do not understand {quoted} here: what does it mean, or can it be left out?"
    return f"I do not understand {quoted}, and know no recipe for the rest. Which of these is it: {KNOWN}?"


def _operations(reading: Reading) -> str:
    texts = [one.text for one in reading.operations.values()]
    texts += [" ".join(reading.tokens[one.start : one.end]) for one in reading.formulas]
    return ", ".join(f"`{text}`" for text in texts)


def clean(text: str) -> str:
    """A description without comment signs and quotes around names, on one line."""
    lines = [re.sub(r"^\s*(?:/{2,}|/\*+|\*+/|\*(?!\w))\s?", "", line) for line in text.splitlines()]
    return re.sub(r"\s*\*+/\s*$", "", " ".join(line.strip() for line in lines)).replace("`", "").strip()


def _check_used(reading: Reading) -> None:
    """Everything that was read must have had an effect."""
    found = [(f"op:{name}", one) for name, one in reading.operations.items()]
    found += [(f"mark:{name}", one) for name, one in reading.marks.items()]
    for key, one in found:
        if key not in reading.used:
            raise Missing(f"What does `{one.text}` change here?")


def _check_agrees(reading: Reading, draft: Draft) -> None:
    """Every name, type and extent that the text states must be the draft's."""
    parameters = {one.name: one for one in draft.specification.parameters}
    extents = {extent for one in parameters.values() for extent in one.shape} | {name for name, _ in draft.helpers}
    for one in reading.declared.values():
        mine = parameters.get(one.name)
        if mine is None:
            if one.name in extents and one.bare:
                continue
            raise Missing(f"What is `{one.name}` for? I would not use it.")
        if one.type is not None and mine.type != one.type:
            raise Missing(f"`{one.name}` would be of type {mine.type}, not {one.type}; which is meant?")
        if one.shape is not None and not _same_extents(one.shape, mine.shape):
            raise Missing(
                f"`{one.name}` would have the extents {' x '.join(mine.shape) or 'of one number'}, "
                f"not {' x '.join(one.shape)}; which is meant?"
            )
    for name, ctype in reading.scalars.items():
        scalar = parameters.get(name)
        if scalar is None or scalar.role != "scalar" or (ctype is not None and scalar.type != ctype):
            raise Missing(f"What is the number `{name}` for?")
    names = [one.name for one in draft.specification.parameters]
    if len(set(names)) != len(names):
        raise Missing("One name stands for two things; which is which?")
    for name in reading.outputs:
        if name not in parameters or parameters[name].role == "input":
            raise Missing(f"What should be written to `{name}`?")


def _same_extents(said: tuple[str, ...], mine: tuple[str, ...]) -> bool:
    return said == mine or [one for one in said if one != "1"] == [one for one in mine if one != "1"]


def _taken_names(draft: Draft) -> set[str]:
    """Parameters whose name the body uses for something of its own, or that no parameter can have."""
    found = set()
    for one in draft.specification.parameters:
        declared = rf"(?:int|float|double|unsigned char|bool|char)\*? (?:\w+, )*{re.escape(one.name)}(?: =|\[|;|,)"
        if one.name in TAKEN or one.name.startswith("__") or re.search(declared, draft.body):
            found.add(one.name)
    return found
