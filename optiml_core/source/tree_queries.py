"""Small questions about the nodes of a tree that readers and rewrites of code share.

Texts of nodes are taken from the tree's own source: inside expressions and statements it is the
file's text, but attributes, ``__restrict__`` and pragmas are blanks in it (see blanking).
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from optiml_core.source.declarations import squeeze
from optiml_core.source.grammar import path_to

LOOP_KINDS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_STATEMENT_HOLDERS = frozenset({"compound_statement", "translation_unit", "declaration_list", "case_statement"})
ADDRESS_TAKING = "&"


def text_of(node: Node | None) -> str:
    """The node's text with white space collapsed; empty for None."""
    return squeeze((node.text or b"").decode("utf-8", "replace")) if node is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """The node and all named nodes below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.named_children))


def operator_of(node: Node) -> str:
    """The operator of a binary, unary, pointer, assignment or update expression."""
    operator = node.child_by_field_name("operator")
    return operator.type if operator is not None else ""


def statement_around(root: Node, byte: int) -> Node | None:
    """The smallest whole statement or declaration that contains a byte: a child of a block."""
    path = path_to(root, byte)
    for parent, node in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        if parent.type in _STATEMENT_HOLDERS and node.type != "comment" and node.is_named:
            return node
    return None


def loops_around(root: Node, byte: int) -> list[Node]:
    """The loops whose node contains a byte, outermost first."""
    return [n for n in path_to(root, byte) if n.type in LOOP_KINDS]


def without_parentheses(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def identifiers_used(node: Node) -> frozenset[str]:
    """Every plain identifier in a node: variables, functions and macros, not members or types."""
    return frozenset(text_of(n) for n in walk(node) if n.type == "identifier")


def base_identifier(node: Node) -> str:
    """The variable at the root of an lvalue or pointer: ``a`` of ``a[i].x``, ``*a``, ``(a)->b``, ``&a[i]``,
    ``a + 1`` and of casts of these; empty if there is none."""
    while True:
        node = without_parentheses(node)
        inner: Node | None = None
        if node.type == "identifier":
            return text_of(node)
        if node.type in ("subscript_expression", "field_expression", "pointer_expression"):
            inner = node.child_by_field_name("argument")
        elif node.type == "cast_expression":
            inner = node.child_by_field_name("value")
        elif node.type == "binary_expression" and operator_of(node) in ("+", "-"):
            inner = node.child_by_field_name("left")
        elif node.type == "call_expression":
            function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if function is not None and arguments is not None and called_name(function).endswith("_cast"):
                inner = arguments.named_children[0] if arguments.named_child_count == 1 else None
        if inner is None:
            return ""
        node = inner


def writes_in(node: Node) -> Iterator[tuple[Node, Node]]:
    """Pairs of the lvalue that is written and the expression that writes it: assignments, ``++``, ``--``."""
    for found in walk(node):
        if found.type == "assignment_expression":
            target = found.child_by_field_name("left")
        elif found.type == "update_expression":
            target = found.child_by_field_name("argument")
        else:
            continue
        if target is not None:
            yield without_parentheses(target), found


def identifiers_assigned(node: Node) -> frozenset[str]:
    """The variables whose own value a node writes (``x = 1``, ``x.y += 2``, ``++x``); not what they point to."""
    found: set[str] = set()
    for target, _ in writes_in(node):
        inner = target
        while inner.type == "field_expression" and operator_of(inner) != "->":
            argument = inner.child_by_field_name("argument")
            if argument is None:
                break
            inner = without_parentheses(argument)
        if inner.type == "identifier":
            found.add(text_of(inner))
    return frozenset(found)


def identifiers_declared(node: Node) -> frozenset[str]:
    """The local variables that a node declares."""
    return frozenset(name for declaration in walk(node) for name, _ in declarators_of(declaration))


def declarators_of(declaration: Node) -> Iterator[tuple[str, Node]]:
    """Names and declarator nodes of a ``declaration`` (nothing for other nodes)."""
    if declaration.type not in ("declaration", "for_range_loop", "condition_declaration"):
        return
    for declarator in declaration.children_by_field_name("declarator"):
        name = declarator
        while name is not None and name.type != "identifier":
            inner = name.child_by_field_name("declarator")
            if inner is None and name.type in ("reference_declarator", "parenthesized_declarator"):
                inner = name.named_children[-1] if name.named_children else None
            if inner is None:
                break
            name = inner
        if name.type == "identifier":
            yield text_of(name), declarator


def may_be_modified(node: Node, name: str) -> bool:
    """Whether code in a node may change the variable ``name`` itself: it is written, its address is
    taken, it is an operand of inline assembly, or it stands alone as an argument that may be a reference.

    Says True when in doubt. Calls of the usual arithmetic and memory functions take values only.
    """
    if name in identifiers_assigned(node):
        return True
    for found in walk(node):
        if found.type == "pointer_expression" and operator_of(found) == ADDRESS_TAKING:
            argument = found.child_by_field_name("argument")
            # The address of an element of what a pointer points to leaves the pointer alone.
            if argument is not None and text_of(without_parentheses(argument)).split(".")[0] == name:
                return True
        elif found.type == "gnu_asm_expression":
            outputs = found.child_by_field_name("output_operands")
            if outputs is not None and name in identifiers_used(outputs):
                return True
        elif found.type == "call_expression" and not _takes_values_only(found):
            arguments = found.child_by_field_name("arguments")
            if arguments is not None and any(
                a.type == "identifier" and text_of(a) == name for a in arguments.named_children
            ):
                return True
        elif found.type == "lambda_capture_specifier" and "&" in text_of(found):
            return True
    return False


# Names that begin with ``__``, ``atomic`` or ``make_`` are CUDA's own and take values, too.
VALUE_FUNCTIONS = frozenset(
    {
        "min", "max", "abs", "fabs", "fabsf", "fmin", "fmax", "fminf", "fmaxf", "sqrt", "sqrtf", "rsqrtf", "rsqrt",
        "exp", "expf", "exp2f", "log", "logf", "log2f", "pow", "powf", "sin", "sinf", "cos", "cosf", "tan", "tanf",
        "tanh", "tanhf", "erf", "erff", "floor", "floorf", "ceil", "ceilf", "round", "roundf", "fma", "fmaf", "int",
        "float", "double", "unsigned", "size_t", "long", "bool", "half", "printf", "assert", "dim3", "isnan", "isinf",
        "static_cast", "reinterpret_cast", "const_cast", "memcpy", "memset", "float4", "float2", "int4", "int2",
        "tiled_partition", "this_thread_block", "reduce", "sync", "shfl", "shfl_down", "shfl_up", "shfl_xor",
    }
)  # fmt: skip


def _takes_values_only(call: Node) -> bool:
    function = call.child_by_field_name("function")
    return function is not None and takes_values_only(called_name(function))


def takes_values_only(name: str) -> bool:
    """Whether a well-known function, or one of CUDA's own, takes all its arguments by value."""
    return name in VALUE_FUNCTIONS or name.startswith(("make_", "__", "atomic", "min", "max"))


def called_name(function: Node) -> str:
    """The name of what a call calls, without ``std::`` and template arguments; the last member's for methods."""
    if function.type == "template_function":
        function = function.child_by_field_name("name") or function
    if function.type == "field_expression":
        function = function.child_by_field_name("field") or function
    return text_of(function).split("<", 1)[0].removeprefix("::").removeprefix("std::").strip()
