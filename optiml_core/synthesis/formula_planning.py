"""A formula with everything about it found: which index goes how far, and where each result goes."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from optiml_core.synthesis.drafting import Missing
from optiml_core.synthesis.formulas import (
    Call,
    Expression,
    Fold,
    Formula,
    Load,
    Name,
    Number,
    Operation,
    folds_in,
    loads_in,
    names_in,
    offset_of,
    parts_of,
    with_parts,
)
from optiml_core.synthesis.reading import Reading


@frozen
class Plan:
    """A formula with everything about it found: ``value`` has only Loads with indices and Folds with extents."""

    target: str
    indices: tuple[str, ...]  # of the loops over results, or over the sources of a scatter
    extents: tuple[str, ...]
    place: tuple[Expression, ...]  # where the result goes: the indices, or an index array's element
    value: Expression
    adds: bool
    indices_given: bool = True  # False: the result is one number


def plan_of(reading: Reading, given: Formula) -> Plan:
    place = given.indices
    if not place:
        read = [reading.shape_of(name) for name in names_in(given.value) | {given.target}]
        dimensions = {len(shape) for shape in read if shape is not None}
        if len(dimensions) > 1:
            raise Missing("The arrays of the formula have different numbers of dimensions; write it with indices?")
        if not folds_in(given.value):
            place = tuple(Name(one) for one in index_names(max(dimensions, default=1)))
    indices = tuple(dict.fromkeys(n for one in place for n in sorted(_loop_names(one, reading))))
    value = _spelled_out(reading, given.value, tuple(one.name for one in place if isinstance(one, Name)))
    is_plain = all(isinstance(one, Name) for one in place)
    adds = given.adds
    if adds and is_plain:
        value, adds = Operation("+", (Load(given.target, place), value)), False
    if not is_plain and len(place) != 1:
        raise Missing("A scatter goes to one index; write `y[index[i]] = x[i]`?")
    extents = _extents(reading, given.target, place, value, indices)
    folds = {fold.index for fold in folds_in(value)}
    if folds & set(indices):
        raise Missing("An index of the result cannot be summed over; which is meant?")
    value = _with_extents(value, extents)
    shape = tuple(extents[one] for one in indices) if indices else ("1",)
    if not indices:
        return Plan(given.target, ("one",), ("1",), (Number("0"),), value, False, False)
    return Plan(given.target, indices, shape, place, value, adds)


def index_names(count: int) -> tuple[str, ...]:
    return {1: ("i",), 2: ("row", "col")}.get(count, ("i", "j", "k", "l")[:count])


def _loop_names(index: Expression, reading: Reading) -> set[str]:
    if isinstance(index, Name):
        return {index.name}
    if isinstance(index, Load):
        return set().union(*(_loop_names(one, reading) for one in index.indices))
    raise Missing("Write the left side as `y[i]`, `y[i][j]` or `y[index[i]]`.")


def _spelled_out(reading: Reading, value: Expression, indices: tuple[str, ...]) -> Expression:
    """Whole arrays in a formula become their elements at the result's indices; relu and sigmoid what they are."""
    if isinstance(value, Name):
        if value.name in indices:
            return value
        known = reading.declared.get(value.name)
        if known is None or (known.shape is None and not known.is_array):
            return value
        if known.shape is not None and len(known.shape) != len(indices):
            raise Missing(f"How does `{value.name}` go with a result of {len(indices)} dimensions?")
        return Load(value.name, tuple(Name(one) for one in indices))
    if isinstance(value, Load):
        return value
    parts = tuple(_spelled_out(reading, one, indices) for one in parts_of(value))
    if isinstance(value, Call) and value.function in ("silu", "swish"):
        power = Call("exp", (Operation("neg", parts),))
        return Operation("/", (parts[0], Operation("+", (Number("1"), power))))
    if isinstance(value, Call) and value.function == "relu":
        return Call("max", (parts[0], Number("0")))
    if isinstance(value, Call) and value.function == "sigmoid":
        power = Call("exp", (Operation("neg", parts),))
        return Operation("/", (Number("1"), Operation("+", (Number("1"), power))))
    return with_parts(value, parts) if parts else value


def _extents(
    reading: Reading, target: str, place: tuple[Expression, ...], value: Expression, indices: tuple[str, ...]
) -> dict[str, str]:
    """The extent of every index, from the shapes of the arrays that it goes along unshifted."""
    found: dict[str, str] = {}
    loads = [Load(target, place), *loads_in(value)] + [load for one in place for load in loads_in(one)]
    # Unshifted uses first: a shifted one only says something where no other does.
    for exact in (True, False):
        for load in loads:
            shape = reading.shape_of(load.array)
            if shape is None or len(shape) != len(load.indices):
                if shape is not None and load.indices:
                    raise Missing(f"`{load.array}` has {len(shape)} extents, but {len(load.indices)} indices?")
                continue
            for index, extent in zip(load.indices, shape, strict=True):
                moved = offset_of(index) or reversed_index(index, extent)
                if moved is None or (moved[1] != 0) == exact:
                    continue
                if moved[0] in found and found[moved[0]] != extent and exact:
                    raise Missing(f"Does `{moved[0]}` go up to {found[moved[0]]} or {extent}?")
                found.setdefault(moved[0], extent)
    for one in [*indices, *(fold.index for fold in folds_in(value))]:
        if one not in found:
            if one in indices and len(indices) == 1 and reading.length:
                found[one] = reading.length
            else:
                raise Missing(f"How far does the index `{one}` go? Say how large the arrays are (`n floats in x`).")
    if reading.length is not None and len(indices) == 1 and found[indices[0]] != reading.length:
        raise Missing(f"Does `{indices[0]}` go up to {found[indices[0]]} or {reading.length}?")
    return found


def reversed_index(index: Expression, extent: str) -> tuple[str, int] | None:
    """``n - 1 - i`` of an axis of n elements as ("i", 0); None for anything else."""
    if isinstance(index, Operation) and index.operator == "-" and isinstance(index.operands[-1], Name):
        last = Operation("-", (Name(extent), Number("1")))
        if index.operands[0] == last:
            return index.operands[-1].name, 0
    return None


def _with_extents(value: Expression, extents: Mapping[str, str]) -> Expression:
    parts = tuple(_with_extents(one, extents) for one in parts_of(value))
    changed = with_parts(value, parts) if parts else value
    return evolve(changed, extent=extents[changed.index]) if isinstance(changed, Fold) else changed
