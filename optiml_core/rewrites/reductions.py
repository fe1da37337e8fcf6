"""Sums, maxima and minima that a loop gathers in a scalar, and the device functions that combine them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.layout import unused_name
from optiml_core.rewrites.syntax import (
    Assignment,
    arguments_of,
    assignments_in,
    called_name,
    contains,
    field,
    names_in,
    operator_of,
    same_text,
    statements_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.type_names import resolved_type
from optiml_core.source import element_type_of

ReductionKind = Literal["sum", "max", "min"]

_MAXIMA = frozenset({"max", "fmax", "fmaxf", "std::max"})
_MINIMA = frozenset({"min", "fmin", "fminf", "std::min"})
# Types that a warp can shuffle, with the function that gives the larger of two.
_SHUFFLED = {
    "float": ("fmaxf", "fminf"),
    "double": ("fmax", "fmin"),
    "int": ("max", "min"),
    "unsigned int": ("max", "min"),
    "long long": ("max", "min"),
    "unsigned long long": ("max", "min"),
}


def can_be_shuffled(type_: str) -> bool:
    """Whether a warp shuffle moves values of a builtin type, given by its canonical spelling."""
    return type_ in _SHUFFLED


@frozen
class Reduction:
    """A scalar that a loop only ever adds to, or only ever raises or lowers."""

    name: str
    kind: ReductionKind
    type: str
    uses: tuple[Node, ...]  # the identifiers of the scalar that belong to the pattern


def reduction_of(body: KernelBody, name: str, loop_body: Node) -> Reduction | Refusal:
    """How the loop gathers ``name``; a Refusal if it is not one of the patterns, or is read beside them."""
    kinds: set[ReductionKind] = set()
    covered: list[Node] = []
    for made in assignments_in(loop_body):
        if text_of(made.left) != name:
            continue
        found = _pattern(made, name)
        if found is None:
            return Refusal(f"the loop carries `{name}` from round to round")
        kinds.add(found[0])
        covered.append(found[1])
    uses = tuple(node for node in walk_types(loop_body, "identifier") if text_of(node) == name)
    if any(not any(contains(outer, use) for outer in covered) for use in uses):
        return Refusal(f"the loop reads `{name}` while it gathers it")
    if len(kinds) != 1:
        return Refusal(f"the loop gathers `{name}` in more than one way")
    variable = body.locals.get(name)
    if variable is None or variable.is_pointer or variable.is_array:
        return Refusal(f"`{name}` is not a local scalar")
    kind = resolved_type(body.unit, variable.type)
    known = element_type_of(kind)
    if kind not in _SHUFFLED and known is not None:
        return Refusal(f"a warp cannot combine values of type {kind}")
    if kind not in _SHUFFLED and (not kind.isidentifier() or kind == "auto"):
        return Refusal(f"the type of `{name}` is not known")
    return Reduction(name, next(iter(kinds)), kind, uses)


def _pattern(made: Assignment, name: str) -> tuple[ReductionKind, Node] | None:
    """The kind of one gathering assignment and the node that holds all its uses of the scalar."""
    if made.right is None:
        return ("sum", made.node)
    right = unwrap(made.right)
    if made.operator in ("+=", "-="):
        return None if name in names_in(right) else ("sum", made.node)
    if made.operator != "=":
        return None
    if right.type == "binary_expression" and operator_of(right) == "+":
        left_side, right_side = unwrap(field(right, "left")), unwrap(field(right, "right"))
        for own, other in ((left_side, right_side), (right_side, left_side)):
            if own.type == "identifier" and text_of(own) == name and name not in names_in(other):
                return ("sum", made.node)
        return None
    if right.type == "call_expression":
        return _call_pattern(made, right, name)
    if right.type == "conditional_expression":
        return _conditional_pattern(made, right, name)
    return _if_pattern(made, name)


def _call_pattern(made: Assignment, call: Node, name: str) -> tuple[ReductionKind, Node] | None:
    arguments = arguments_of(call)
    own = [one for one in arguments if unwrap(one).type == "identifier" and text_of(unwrap(one)) == name]
    others = [one for one in arguments if one not in own]
    if len(arguments) != 2 or len(own) != 1 or name in names_in(others[0]):
        return _if_pattern(made, name)
    called = called_name(call) or ""
    if called in _MAXIMA:
        return ("max", made.node)
    return ("min", made.node) if called in _MINIMA else None


def _conditional_pattern(made: Assignment, node: Node, name: str) -> tuple[ReductionKind, Node] | None:
    """``v = e > v ? e : v``"""
    kind = _comparison(unwrap(field(node, "condition")), name, unwrap(field(node, "consequence")))
    other = unwrap(field(node, "alternative"))
    if kind is None or other.type != "identifier" or text_of(other) != name:
        return None
    return kind, made.node


def _if_pattern(made: Assignment, name: str) -> tuple[ReductionKind, Node] | None:
    """``if (e > v) v = e;``"""
    statement = made.node.parent
    block = None if statement is None else statement.parent
    condition = block.parent if block is not None and block.type == "compound_statement" else block
    if statement is None or condition is None or condition.type != "if_statement" or made.right is None:
        return None
    if condition.child_by_field_name("alternative") is not None:
        return None
    if len(statements_of(field(condition, "consequence"))) != 1:
        return None
    kind = _comparison(unwrap(field(condition, "condition")), name, unwrap(made.right))
    return None if kind is None else (kind, condition)


def _comparison(condition: Node, name: str, value: Node) -> ReductionKind | None:
    """``value > name`` is a maximum's test and ``value < name`` a minimum's."""
    if condition.type != "binary_expression" or name in names_in(value):
        return None
    left, right = unwrap(field(condition, "left")), unwrap(field(condition, "right"))
    operator = operator_of(condition)
    if text_of(left) == name:
        left, right = right, left
        operator = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, "")
    if text_of(right) != name or not same_text(left, value):
        return None
    if operator in (">", ">="):
        return "max"
    return "min" if operator in ("<", "<=") else None


# -------------------------------------------------------------------------- device functions


@frozen
class Collectives:
    """Device functions that combine a value over a warp or a block, and what each is called.

    ``names``: (kind, type) -> function name. ``text``: their definitions, empty if the file has them all.
    """

    names: dict[tuple[str, str], str]
    text: str


def collectives(
    wanted: Iterable[tuple[ReductionKind, str]], scope: str, file_text: str, taken: Iterable[str], step: str
) -> Collectives:
    """Definitions for the wanted reductions. ``scope``: ``warp``, ``block`` or ``column``; ``step``: an indentation."""
    names: dict[tuple[str, str], str] = {}
    pieces: list[str] = []
    used = set(taken)
    for kind, type_ in dict.fromkeys(wanted):
        if scope == "column":
            write = partial(_column_text, kind=kind, type_=type_, step=step)
            names[(kind, type_)] = _chosen(f"column_{kind}", write, file_text, used, pieces)
            continue
        name = _chosen(f"warp_{kind}", partial(_warp_text, kind=kind, type_=type_, step=step), file_text, used, pieces)
        if scope == "block":
            write = partial(_block_text, warp=name, kind=kind, type_=type_, step=step)
            name = _chosen(f"block_{kind}", write, file_text, used, pieces)
        names[(kind, type_)] = name
    return Collectives(names, "\n".join(pieces))


def _chosen(wanted: str, write: Callable[[str], str], file_text: str, used: set[str], pieces: list[str]) -> str:
    """Reuses a function of the file with the very same text, else adds one under a free name."""
    if write(wanted) in file_text or write(wanted) in pieces:
        return wanted
    # Another type's function of ours may share the name: overloads are told apart by their argument.
    ours = any(f" {wanted}(" in piece for piece in pieces)
    name = wanted if ours else unused_name(wanted, used)
    pieces.append(write(name))
    return name


def _header(type_: str) -> str:
    return "" if type_ in _SHUFFLED else "template <typename T>\n"


def _combined(kind: str, type_: str, value: str, other: str) -> str:
    if kind == "sum":
        return f"{value} += {other};"
    if type_ not in _SHUFFLED:
        sign = ">" if kind == "max" else "<"
        return f"const T other = {other};\n@@{value} = other {sign} {value} ? other : {value};"
    function = _SHUFFLED[type_][0 if kind == "max" else 1]
    return f"{value} = {function}({value}, {other});"


_WORDS = {"sum": "sum", "max": "largest", "min": "smallest"}


def _warp_text(name: str, kind: str, type_: str, step: str) -> str:
    other = "__shfl_xor_sync(0xffffffff, value, offset)"
    combined = _combined(kind, type_, "value", other).replace("@@", step + step)
    type_ = type_ if type_ in _SHUFFLED else "T"
    return (
        f"// The {_WORDS[kind]} of `value` over the warp, in every lane.\n"
        f"{_header(type_)}__device__ __forceinline__ {type_} {name}({type_} value) {{\n"
        f"{step}for (int offset = 16; offset > 0; offset /= 2) {{\n"
        f"{step}{step}{combined}\n"
        f"{step}}}\n"
        f"{step}return value;\n"
        "}\n"
    )


def _block_text(name: str, warp: str, kind: str, type_: str, step: str) -> str:
    """``partial[0]`` pads the lanes beyond the last warp of a maximum; a sum pads with zero."""
    zero = "0" if type_ in _SHUFFLED else "T(0)"
    type_ = type_ if type_ in _SHUFFLED else "T"
    rest = zero if kind == "sum" else "partial[0]"
    return (
        f"// The {_WORDS[kind]} of `value` over the block, in every thread; all threads must call it.\n"
        f"{_header(type_)}__device__ __forceinline__ {type_} {name}({type_} value) {{\n"
        f"{step}__shared__ {type_} partial[32];\n"
        f"{step}const int lane = threadIdx.x % 32;\n"
        f"{step}value = {warp}(value);\n"
        f"{step}if (lane == 0) {{\n"
        f"{step}{step}partial[threadIdx.x / 32] = value;\n"
        f"{step}}}\n"
        f"{step}__syncthreads();\n"
        f"{step}value = lane < blockDim.x / 32 ? partial[lane] : {rest};\n"
        f"{step}__syncthreads();  // before `partial` is used again\n"
        f"{step}return {warp}(value);\n"
        "}\n"
    )


def _column_text(name: str, kind: str, type_: str, step: str) -> str:
    other = "partial[threadIdx.x + (threadIdx.y + rows) * blockDim.x]"
    combined = _combined(kind, type_, "value", other).replace("@@", step * 3)
    type_ = type_ if type_ in _SHUFFLED else "T"
    return (
        f"// The {_WORDS[kind]} of `value` over the threads with the same threadIdx.x, in each of them.\n"
        "// For blocks of at most 1024 threads whose height is a power of two; all threads must call it.\n"
        f"{_header(type_)}__device__ __forceinline__ {type_} {name}({type_} value) {{\n"
        f"{step}__shared__ {type_} partial[1024];\n"
        f"{step}const int own = threadIdx.x + threadIdx.y * blockDim.x;\n"
        f"{step}partial[own] = value;\n"
        f"{step}for (int rows = blockDim.y / 2; rows > 0; rows /= 2) {{\n"
        f"{step}{step}__syncthreads();\n"
        f"{step}{step}if (threadIdx.y < rows) {{\n"
        f"{step}{step}{step}{combined}\n"
        f"{step}{step}{step}partial[own] = value;\n"
        f"{step}{step}}}\n"
        f"{step}}}\n"
        f"{step}__syncthreads();\n"
        f"{step}value = partial[threadIdx.x];\n"
        f"{step}__syncthreads();  // before `partial` is used again\n"
        f"{step}return value;\n"
        "}\n"
    )
