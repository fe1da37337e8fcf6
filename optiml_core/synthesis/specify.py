"""From a description to a draft, or to the one question that is open."""

from __future__ import annotations

import re
from collections.abc import Callable

from optiml_core.synthesis import element_recipes, index_recipes, matrix_recipes, reduction_recipes
from optiml_core.synthesis.drafting import Missing
from optiml_core.synthesis.reading import WORDS, Reading, read
from optiml_core.synthesis.records import Draft, Question

Recipe = Callable[[Reading], Draft | None]

# In this order: the ones that a word names beyond doubt first, the general ones last. With each, the words it
# understands beside the common ones; any other word of the text is one that was not understood.
RECIPES: tuple[tuple[Recipe, str], ...] = (
    (index_recipes.sparse_rows, "multiply csr form sparse"),
    (index_recipes.entry_sums, "add up sparse sum"),
    (matrix_recipes.discrete_fourier, "discrete fourier transform dft parts part imaginary forward"),
    (matrix_recipes.pairwise, "points dimensions coordinates next other euclidean squared distance distances "
     "pair pairwise"),
    (index_recipes.histogram, "histogram count bins bin often key keys occurs fall equal intervals how many "
     "bytes range"),
    (index_recipes.degrees, "graph count nodes edges leaves reaches enters degree degrees out"),
    (index_recipes.lower_bound, "number sorted smaller less equal queries query"),
    (index_recipes.rank_sort, "sort sorted ascending descending increasing decreasing order"),
    (reduction_recipes.softmax, "softmax"),
    (reduction_recipes.normalisation, "layer norm rms normalization normalisation layernorm root mean square"),
    (matrix_recipes.transpose, "transpose transposed"),
    (matrix_recipes.convolution, "convolve convolution correlate flip without no zero padding padded pixels "
     "filter outside count counts"),
    (element_recipes.average_of_neighbours, "jacobi step copied average neighbours neighbors interior four two "
     "boundary border points stay unchanged"),
    (matrix_recipes.matrix_product, "multiply product matmul gemm multiplication times"),
    (element_recipes.formula_recipe,
     "outside count counts zero copied boundary copied clamp clamped nearest smooth elementwise permutation "
     "order power parts imaginary spectrum graph edges nodes function formula node edge"),
    (reduction_recipes.argument_of_extreme, "argmax argmin position index place largest smallest maximum minimum "
     "if several first"),
    (reduction_recipes.counting, "count many greater larger smaller less than above below least most equal"),
    (reduction_recipes.scan, "prefix running cumulative inclusive exclusive scan sum sums"),
    (matrix_recipes.dot_product, "dot inner scalar product"),
    (element_recipes.phrase_recipe,
     "add subtract multiply divide scale elementwise element-wise relu sigmoid exp log ln "
     "sqrt sin cos tanh abs floor ceil atan"),
    (reduction_recipes.reduction,
     "sum sums mean average maximum minimum max min largest smallest biggest norm euclidean "
     "length l1 l2 total add absolute squares values coordinates points up whole"),
)  # fmt: skip

# An operation is only understood by the recipe that lists it.
_OPERATIONS = "sum sums add scale multiply subtract divide count counted product discrete copied then sorted sparse"
# Words that change nothing about what is computed.
_HARMLESS = (
    "- has have counts kernel cuda gpu please function write make computes stores finds program code we want i you "
    "need do does own any such one its stands array's order in-place given holds them their these those as floats "
    "memory global respectively also simply form size device output input called named values value step row-wise "
    "column-wise rowwise next major wise"
)
HARMLESS = (WORDS - set(_OPERATIONS.split())) | set(_HARMLESS.split())
# They turn the meaning round or narrow it, whatever recipe was found.
REFUSED = {"not", "except", "only", "unless", "if", "must", "when"}
KNOWN = (
    "maps by a formula, axpy, dot, sums, extremes, norms and means over all, rows or columns, argmax, counts, "
    "scans, softmax, layer and RMS norm, transpose, matrix products, stencils, convolution, histograms, gathers, "
    "distances, DFT, CSR, sorting"
)


def specify(text: str) -> Draft | Question:
    """The draft that the description asks for, with what was not understood; or one question instead of a guess."""
    reading = read(clean(text))
    if not reading.tokens:
        return Question("What should the kernel compute?")
    for recipe, words in RECIPES:
        try:
            draft = recipe(reading)
        except Missing as missing:
            return Question(str(missing))
        if draft is None:
            continue
        left = _not_understood(reading, draft, set(words.split()))
        if left:
            quoted = ", ".join(f"`{word}`" for word in left)
            return Question(f"I read this as {draft.specification.pattern}, but what does {quoted} mean here?", left)
        return _checked_names(draft)
    return Question(f"I know no recipe for this. Which of these is it: {KNOWN}?")


def clean(text: str) -> str:
    """A description without comment signs, on one line."""
    lines = [re.sub(r"^\s*(?:/{2,}|/\*+|\*+/|\*(?!\w))\s?", "", line) for line in text.splitlines()]
    return re.sub(r"\s*\*+/\s*$", "", " ".join(line.strip() for line in lines)).strip()


def _not_understood(reading: Reading, draft: Draft, words: set[str]) -> tuple[str, ...]:
    names = {one.name for one in draft.specification.parameters} | {name for name, _ in draft.helpers}
    names |= {extent for one in draft.specification.parameters for extent in one.shape}
    inside = {at for formula in reading.formulas for at in range(formula.start, formula.end)}
    left: dict[str, None] = {}
    for at, token in enumerate(reading.tokens):
        plain = token.lower()
        if not token[0].isalpha() or token in names or at in inside or plain in words:
            continue
        if len(token) == 1 and (reading.says(rf"edge {token}", rf"entry {token}", rf"\[ {token} \]") or plain == "x"):
            continue
        if plain in HARMLESS and plain not in REFUSED:
            continue
        left[token] = None
    return tuple(left)


def _checked_names(draft: Draft) -> Draft | Question:
    """A parameter whose name the body uses for something of its own would mean something else there."""
    for one in draft.specification.parameters:
        if re.search(rf"(?:int|{one.type}|bool)\*? {one.name}(?: =|\[|;)", draft.body):
            return Question(f"The kernel itself uses the name `{one.name}`; what else can the parameter be called?")
    return draft
