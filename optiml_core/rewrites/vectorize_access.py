"""Moves neighbouring elements by 8- or 16-byte loads and stores, with a scalar path for tails and odd addresses.

The vector path runs only where a run-time test finds the addresses aligned, so no caller is trusted.
"""

from __future__ import annotations

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import returns_in
from optiml_core.rewrites.launch_text import plan
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, lines_of_code, with_comments
from optiml_core.rewrites.one_element import OneElement, read_one_element
from optiml_core.rewrites.strided_vectors import StridedLoops, read_strided_loops, strided_edits
from optiml_core.rewrites.syntax import statements_of
from optiml_core.rewrites.vector_code import VectorArray, aligned_condition, vector_arrays, vector_body, vector_names


def _elements(context: RewriteContext) -> tuple[OneElement, tuple[VectorArray, ...], int] | Refusal:
    found = read_one_element(context)
    if isinstance(found, Refusal):
        return found
    if any(returns_in(node) for node in found.work.work):
        return Refusal("a thread may leave before its element is done")
    arrays = vector_arrays(found.body, found.work.work, found.index.name, frozenset())
    return arrays if isinstance(arrays, Refusal) else (found, *arrays)


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found: list[Option] = []
    elements = _elements(context)
    if not isinstance(elements, Refusal):
        lanes = elements[2]
        option = Option({"of": "elements", "launch": "fewer blocks"}, f"{lanes} elements a thread")
        if isinstance(apply(context, option), Rewritten):
            found.append(option)
        else:
            found.append(
                Option({"of": "elements", "launch": "kept"}, f"{lanes} elements a thread, the launch as it is")
            )
    loops = read_strided_loops(context)
    if isinstance(loops, StridedLoops):
        found.append(Option({"of": "loops", "launch": "kept"}, "vectors in the loops that threads share"))
    if not found and isinstance(elements, Refusal) and isinstance(loops, Refusal):
        return elements if "no loop shares" in loops.reason else loops
    return tuple(found)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    guards = ("vectors only where a run-time test finds every address aligned",)
    if option.parameters.get("of") == "loops":
        loops = read_strided_loops(context)
        if isinstance(loops, Refusal):
            return loops
        rationale = "The loops move 16 bytes a load where addresses and length allow: fewer instructions and requests."
        return finish(context, loops.body, strided_edits(context, loops), rationale, guards=guards)
    found = _elements(context)
    if isinstance(found, Refusal):
        return found
    one, arrays, lanes = found
    launch = None
    if option.parameters.get("launch") == "fewer blocks":
        launch = plan((f"ceil_div(grid.x, {lanes})", "grid.y", "grid.z"))
    statements = statements_of(one.body.body)
    start, end = one.index.declaration.start_byte, statements[-1].end_byte
    indent = indent_at(context.unit, start)
    text = lines_of_code(_lines(context, one, arrays, lanes), layout_of(context.unit, one.body.body), indent)
    moved = ", ".join(f"`{array.array}`" for array in arrays)
    rationale = f"A thread moves {lanes} neighbouring elements of {moved} at once where the addresses allow."
    edits = [edit(context.unit, start, end, text[len(indent) :])]
    return finish(context, one.body, edits, rationale, launch=launch, guards=guards)


def _lines(context: RewriteContext, one: OneElement, arrays: tuple[VectorArray, ...], lanes: int) -> list[str]:
    unit, index, bound = context.unit, one.index, one.work.bounds[0]
    names = vector_names(one.body, arrays, index.name)
    kind = " ".join(word for word in index.type.split() if word != "const")
    first, limit = names.first, bound.limit
    own = code_of(unit, one.body.definitions[index.name])
    lines = [f"const {kind} {first} = {lanes} * ({own});"]
    lines += [code_of(unit, node) for node in one.work.before if node.start_byte > index.declaration.start_byte]
    lines.append(f"const bool aligned = {aligned_condition(context, arrays, index.name, '0', {})};")
    lines.append(f"if (aligned && {first} + {lanes - 1} < {limit}) {{")
    inside = vector_body(context, one.body, one.work.work, arrays, lanes, index.name, kind, names)
    lines += [f"\t{line}" for line in inside]
    lines += [
        "} else {",
        "\t// The last elements, and buffers that do not begin at a multiple of the vector's size.",
        f"\tfor ({kind} {index.name} = {first}; {index.name} < {limit} && {index.name} < {first} + {lanes}; "
        f"{index.name}++) {{",
        *(f"\t\t{line}" for line in with_comments(unit, one.work.work)),
        "\t}",
        "}",
    ]
    return lines


REWRITE = Rewrite("vectorize-access", ("narrow-access", "memory-latency", "latency-bound-launch"), options, apply)
