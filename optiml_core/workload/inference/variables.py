"""Variables of host code: from a name at a place to its value."""

from __future__ import annotations

import re

from attrs import evolve

from optiml_core.workload.expression import LARGEST, Name

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import allocations, constants, definitions, evaluation, frames
from optiml_core.workload.inference.context import DEEPEST, Bound, Context, Frame
from optiml_core.workload.inference.program import Event
from optiml_core.workload.inference.syntax import (
    Fragment,
    called_name,
    expanded,
    expression_fragment,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import (
    Extents,
    HostValue,
    Listing,
    Pointer,
    Quantity,
    RootKind,
    Unknown,
    as_integer,
    combine,
    extents_of,
    is_constant,
    number,
    of_root,
)


def named_value(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    path = path_of(fragment)
    if path is None:
        return Unknown(f"`{fragment.text[:40]}` is not known")
    return variable(context, path, frame, position)


def variable(context: Context, path: str, frame: Frame | None, position: int) -> HostValue:
    """The value of a variable, a member or a constant as seen from ``position``."""
    key = (path, id(frame), position)
    if key in context.active or len(context.active) > DEEPEST:
        return Unknown(f"`{path}` depends on itself")
    context.active.add(key)
    try:
        return _variable(context, path, frame, position)
    finally:
        context.active.discard(key)


def _variable(context: Context, path: str, frame: Frame | None, position: int) -> HostValue:
    base = path.split(".")[0]
    if frame is not None:
        found = _local(context, path, frame, position)
        if found is not None:
            return found
        bound = frame.arguments.get(base)
        if bound is not None:
            return _argument(context, path, base, bound)
        if path in frame.template_arguments:
            given = frame.template_arguments[path]
            return evaluation.evaluate(context, given.fragment, given.frame, given.position)
        for parameter in frame.function.parameters:
            if parameter.name == base:
                return _free_parameter(context, path, frame, parameter.default)
        if path in frame.function.template_parameters:
            return Unknown(f"the template argument `{path}` is not known", frame.function.node.start_point[0] + 1)
    if "." in path:
        owner, member = path.rsplit(".", 1)
        value = variable(context, owner, frame, position)
        if isinstance(value, Extents) and member in ("x", "y", "z"):
            return getattr(value, member)  # type: ignore[no-any-return]
    found = _global(context, path)
    if found is not None:
        return found
    if "." in path:
        known = constants.device_property(context, member, frame, position)
        if known is not None:
            return known
    return constants.named_constant(context, path) or Unknown(f"`{path}` is not known")


def _argument(context: Context, path: str, base: str, bound: Bound) -> HostValue:
    if path == base:
        value = evaluation.evaluate(context, bound.fragment, bound.frame, bound.position)
        if isinstance(value, Pointer):
            return Pointer(value.allocation, value.offset, (path, *value.paths))
        return value
    inner = without_casts(bound.fragment)
    if inner.node.type == "pointer_expression":
        inner = inner.child("argument") or inner
    owner = path_of(inner)
    if owner is not None:
        return variable(context, owner + path[len(base) :], bound.frame, bound.position)
    value = evaluation.evaluate(context, inner, bound.frame, bound.position)
    member = path[len(base) + 1 :]
    if isinstance(value, Extents) and member in ("x", "y", "z"):
        return getattr(value, member)  # type: ignore[no-any-return]
    return Unknown(f"`{path}` is not known")


def _free_parameter(context: Context, path: str, frame: Frame, default: Fragment | None) -> HostValue:
    """A parameter of a function that nothing in the file calls."""
    function = frame.function
    line = function.node.start_point[0] + 1
    if function.name == "main" and path == "argc":
        return number(1 + len(context.arguments))
    if default is not None:
        return named(context, evaluation.evaluate(context, default, None, 0), f"{function.name}.{path}", path, line)
    declared = next(one.type for one in function.parameters if one.name == path.split(".")[0])
    note = f"`{path}` is a parameter of `{function.name}`, which nothing in the file calls"
    if path == path.split(".")[0] and is_arithmetic(declared):
        return guessed(context, f"{function.name}.{path}", path, declared, line, note, function.unit.source.path)
    return Unknown(note, line)


def is_arithmetic(type_text: str) -> bool:
    """Whether a type's text is that of a number."""
    return "*" not in type_text and bool(
        re.search(r"\b(int|u?int\d+_t|unsigned|long|short|size_t|float|double|uint|bool|auto|half|char)\b", type_text)
    )


def guessed(
    context: Context, key: str, path: str, type_text: str, line: int | None, why: str, file: str | None
) -> Quantity:
    """A number that the text does not give, as a root that says so."""
    name = path.rsplit(".", 1)[-1].replace("[]", "")
    value: float = context.guessed_size
    if re.search(r"\b(float|double|half)\b", type_text):
        value = 1.0
    elif re.search(r"\b(bool|u?int8_t|char|uchar)\b", type_text):
        value = 1
    elif re.search(r"block_?(size|dim|x|y)?$|thread|tpb|^bs$", name, re.IGNORECASE):
        value = 256
    elif re.search(r"iter|step|repeat|rep$|seed|iteration", name, re.IGNORECASE):
        value = 1
    elif re.search(r"warp|tile|per_|_per|unroll|chunk|vec|blocks$|n_?threads", name, re.IGNORECASE):
        value = 32
    return context.root(key, name, value, "guess", line, why, file)


def _local(context: Context, path: str, frame: Frame, position: int) -> HostValue | None:
    event = definitions.latest_event(context, path, frame, position)
    if event is None:
        return None
    value = value_of_event(context, path, event, frame)
    if isinstance(value, Extents):
        axes = [_member(context, f"{path}.{axis}", event, frame, position) or getattr(value, axis) for axis in "xyz"]
        return extents_of([one for one in axes if isinstance(one, Quantity)])
    return value


def _member(context: Context, path: str, base: Event, frame: Frame, position: int) -> Quantity | None:
    """What a member was assigned after its owner was declared."""
    event = definitions.latest_event(context, path, frame, position)
    if event is None or event.start < base.start:
        return None
    value = value_of_event(context, path, event, frame)
    return value if isinstance(value, Quantity) else None


def value_of_event(context: Context, path: str, event: Event, frame: Frame | None) -> HostValue:
    line = event.node.start_point[0] + 1
    owner = frame.function.name if frame else ""
    unit = frame.function.unit if frame else context.program.global_data.get(path)
    file = unit.source.path if unit is not None else None
    key = f"{owner}.{path}@{event.start}"
    at = event.start
    if event.kind == "address":
        given = allocations.given_by_address(context, event, frame)
        declared = _declared_number(context, path, frame)
        if isinstance(given, Unknown) and declared is not None:
            before = variable(context, path, frame, at) if _reads_options(event) else given
            if isinstance(before, Quantity):
                return before  # no option is given, so the value stays
            why = f"the value of `{path}` is not known: {given.reason}"
            return guessed(context, key, path, declared, line, why, file)
        return given
    if event.kind == "declared":
        declared_only = allocations.declared_value(context, event, frame, line)
        if isinstance(declared_only, Unknown) and is_arithmetic(event.type) and not event.is_pointer:
            return guessed(context, key, path, event.type, line, declared_only.reason, file)
        return declared_only
    if event.kind == "constructed":
        return named(context, allocations.constructed_value(context, event, frame), key, path, line)
    if event.kind in ("compound", "step"):
        before = variable(context, path, frame, at)
        change = number(1) if event.value is None else evaluation.evaluate(context, event.value, frame, at)
        if isinstance(before, Quantity) and isinstance(change, Quantity):
            return combine(event.operator, before, change)
        if isinstance(before, Pointer) and isinstance(change, Quantity) and event.operator in ("+", "-"):
            offset = combine(event.operator, before.offset, change)
            return Pointer(before.allocation, offset, before.paths) if isinstance(offset, Quantity) else offset
        return before if isinstance(before, Unknown) else Unknown(f"`{path}` changes in a way that is not followed")
    if event.value is None:
        return Unknown(f"`{path}` has no value", line)
    value = evaluation.evaluate(context, event.value, frame, at)
    if event.kind == "element":
        if isinstance(value, Listing) and value.values:
            return constants.chosen(context, value, path, event.value)
        return Unknown(f"`{path}` runs over something that is not known", line)
    if isinstance(value, Pointer):
        return Pointer(value.allocation, value.offset, (path, *value.paths))
    if isinstance(value, Listing) and "dim3" in event.type:
        return extents_of([one for one in value.values if isinstance(one, Quantity)])
    if isinstance(value, Quantity) and "dim3" in event.type:
        return extents_of([as_integer(value)])
    if event.type and not event.is_array:
        value = evaluation.converted(value, event.type)
    in_loop = event.node.parent is not None and event.node.parent.type == "for_statement"
    if in_loop and isinstance(value, Quantity):
        note = f"`{path}` changes in a loop; its first value {value.value} was taken"
        if is_constant(value):
            return context.root(key + "#loop", path, value.value, "loop", line, note, file)
        return value
    number_type = event.type if event.type and not event.is_pointer else _declared_number(context, path, frame) or ""
    if isinstance(value, Unknown) and (is_arithmetic(number_type) or "command line" in value.reason):
        why = f"the value of `{path}` is not known: {value.reason}"
        return guessed(context, key, path, number_type, line, why, file)
    return named(context, _renamed_choice(context, value, path), key, path, line)


def named(
    context: Context, value: HostValue, key: str, path: str, line: int | None, kind: RootKind = "variable"
) -> HostValue:
    """A constant that a variable or macro holds becomes a root, so that what follows from it stays visible."""
    if path.endswith((".x", ".y", ".z")):
        return value  # an extent: what it belongs to is named, not its axis
    if key in context.distrusted and isinstance(value, Quantity):
        why = f"`{path}` has the value {value.value} in the text, for which there is no launch"
        return guessed(context, key, path, "int", line, why, None)
    if isinstance(value, Quantity) and is_constant(value) and abs(value.value) < LARGEST:
        uncertain = [context.roots[one] for one in sorted(value.hidden) if context.roots[one].kind == "guess"]
        if uncertain:
            name = path.rsplit(".", 1)[-1].replace("[]", "")
            source = uncertain[0]
            note = f"`{name}` follows from `{source.name}`: {source.note}; {value.value} was taken for `{name}`"
            return context.root(key, name, value.value, "guess", line, note, source.file)
        return context.root(key, path.rsplit(".", 1)[-1].replace("[]", ""), value.value, kind, line)
    return value


def _reads_options(event: Event) -> bool:
    """Whether a call looks like one that reads an option of the command line into a variable, if there is one."""
    name = called_name(event.call) if event.call is not None else ""
    return re.search(r"arg|option|param|parse|flag|cmd|config", name, re.IGNORECASE) is not None


def _declared_number(context: Context, path: str, frame: Frame | None) -> str | None:
    """The type that a variable was declared with, if it is that of a number."""
    events = list(frame.function.events.get(path, ())) if frame is not None else []
    for event in (*events, *context.program.globals.get(path, ())):
        if event.type and not event.is_array:
            return event.type if is_arithmetic(event.type) and not event.is_pointer else None
    return None


def _renamed_choice(context: Context, value: HostValue, path: str) -> HostValue:
    """`int block_size = block_sizes[j];` gives what was chosen of the list the name that the program uses for it."""
    if isinstance(value, Quantity) and isinstance(value.expression, Name):
        root = context.roots.get(value.expression.text)
        if root is not None and root.key.startswith("argv.") and root.name.startswith("argument"):
            note = f"{root.value} was taken for `{path}`: the Makefile beside the file runs the program with it"
            context.roots[root.key] = evolve(root, name=path, note=note)
            return of_root(context.roots[root.key])
        if root is not None and root.choices and root.name != path and "." not in path:
            taken = constants.choice_for(path, root.choices)
            note = constants.note_of_choice(path, root.choices, taken)
            context.roots[root.key] = evolve(root, name=path, note=note, value=taken)
            return of_root(context.roots[root.key])
    return value


# ------------------------------------------------------------------------------------- globals


def _global(context: Context, path: str) -> HostValue | None:
    program = context.program
    for event in reversed(program.globals.get(path, ())):
        if event.kind == "declared" and not event.is_array:
            found = _set_in_a_function(context, path)
            return found if found is not None else Unknown(f"`{path}` has no value", event.node.start_point[0] + 1)
        if event.kind == "value" and event.value is not None and event.value.text in ("NULL", "nullptr", "0"):
            found = _set_in_a_function(context, path)
            if found is not None:
                return found
        return value_of_event(context, path, event, None)
    macro = program.macros.get(path)
    if macro is not None and macro.parameters is None:
        fragment = expression_fragment(expanded(macro, ()))
        if fragment is not None:
            value = evaluation.evaluate(context, fragment, None, 0)
            return named(context, value, f"#{path}", path, macro.range.start_line, "macro")
    if path in program.enumerators:
        fragment, previous = program.enumerators[path]
        if fragment is not None:
            return named(context, evaluation.evaluate(context, fragment, None, 0), f"enum.{path}", path, None, "macro")
        before = variable(context, previous, None, 0) if previous else number(-1)
        after = combine("+", before, number(1)) if isinstance(before, Quantity) else before
        return number(after.value) if isinstance(after, Quantity) else after
    if "." in path or path.endswith("[]"):
        return _set_in_a_function(context, path)
    return None


def _set_in_a_function(context: Context, path: str) -> HostValue | None:
    """A global variable that some function sets or allocates."""
    for function in context.program.all_functions():
        events = function.events.get(path, ())
        owners = function.events.get(path.split(".")[0], ())
        is_local = any(event.kind in ("declared", "constructed") or event.type for event in (*events, *owners))
        if not events or is_local or any(one.name == path.split(".")[0] for one in function.parameters):
            continue
        frame = frames.frame_of(context, function)
        event = definitions.latest_event(context, path, frame, function.node.end_byte - 1)
        value = value_of_event(context, path, event, frame) if event is not None else None
        if value is not None and not isinstance(value, Unknown):
            return value
    return None
