"""Calls of host functions: which call leads to a function, and what its parameters are bound to there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from optiml_core.workload.elements import pointee_spelling

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import definitions
from optiml_core.workload.inference.context import Bound, Context, Frame
from optiml_core.workload.inference.program import Event, Function
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    expression_fragment,
    path_of,
    plain_name,
    without_casts,
)

MOST_CALLS_UP = 12


def arguments_bound(
    function: Function, arguments: Sequence[Fragment], frame: Frame | None, position: int
) -> dict[str, Bound]:
    """The parameters of a function bound to the arguments of one call."""
    return {
        parameter.name: Bound(argument, frame, position)
        for parameter, argument in zip(function.parameters, arguments, strict=False)
    }


def frame_of_call(context: Context, function: Function, call: Fragment, frame: Frame | None, position: int) -> Frame:
    """The frame of one call of a function of the file."""
    arguments = arguments_bound(function, arguments_of(call), frame, position)
    written = call.child("function")
    given = _template_arguments_of(function, written, frame, position) if written is not None else {}
    depth = frame.depth + 1 if frame is not None else 1
    return Frame(function, arguments, _deduced(context, function, arguments, given), depth)


def _template_arguments_of(
    function: Function, written: Fragment, frame: Frame | None, position: int
) -> dict[str, Bound]:
    """The template arguments that are written out at a call, or where a function's name is passed on."""
    listed = written.child("arguments")
    if listed is None and written.node.type == "qualified_identifier":
        inner = written.child("name")
        listed = inner.child("arguments") if inner else None
    bound: dict[str, Bound] = {}
    for name, argument in zip(function.template_parameters, listed.named() if listed else [], strict=False):
        fragment = expression_fragment(argument.text) or argument
        bound[name] = Bound(fragment, frame, position)
    return bound


def _deduced(
    context: Context, function: Function, arguments: dict[str, Bound], given: dict[str, Bound]
) -> dict[str, Bound]:
    """``given``, and the type parameters that follow from the declared types of arguments."""
    deduced = dict(given)
    for parameter in function.parameters:
        spelling = pointee_spelling(parameter.type)
        bound = arguments.get(parameter.name)
        if spelling not in function.template_parameters or spelling in deduced or bound is None:
            continue
        path = path_of(without_casts(bound.fragment))
        declared = declared_type(context, path, bound.frame) if path else None
        fragment = expression_fragment(declared) if declared else None
        if fragment is not None:
            deduced[spelling] = Bound(fragment, bound.frame, bound.position)
    return deduced


def declared_type(context: Context, path: str, frame: Frame | None) -> str | None:
    """The element type that a variable was declared with (`float` for `float* x` and `device_vector<float> x`)."""
    events = list(frame.function.events.get(path, ())) if frame is not None else []
    events += context.program.globals.get(path, [])
    for event in events:
        if event.type and event.type != "auto":
            inside = re.search(r"(?:vector|unique_ptr|shared_ptr|Buffer|Array)\s*<\s*([^<>,]+)", event.type)
            return pointee_spelling(inside[1] if inside else event.type)
    if frame is not None:
        for parameter in frame.function.parameters:
            if parameter.name == path:
                inside = re.search(r"vector\s*<\s*([^<>,]+)", parameter.type)
                return pointee_spelling(inside[1] if inside else parameter.type)
    return None


def frame_of(context: Context, function: Function, depth: int = 0) -> Frame:
    """The frame of a function's first call in the file, seen from `main` where there is one."""
    key = id(function)
    if key in context.frames:
        return context.frames[key]
    # Functions that call each other must not be followed for ever.
    context.frames[key] = Frame(function, {}, {}, depth)
    best: Frame | None = None
    for found, caller, call in _frames_of_calls(context, function, depth):
        event = Event("", "value", call.node.start_byte, call.node)
        if definitions.is_reached(context, event, caller, caller.function.node.end_byte - 1) is not False:
            best = found
            break
        best = best or found
    if best is not None:
        context.frames[key] = best
    return context.frames[key]


def _frames_of_calls(context: Context, function: Function, depth: int) -> Iterator[tuple[Frame, Frame, Fragment]]:
    """The frames of a function's calls, each with its caller's frame and the call; direct calls first."""
    if depth >= MOST_CALLS_UP:
        return
    for caller, call in _calls_of(context, function):
        around = frame_of(context, caller, depth + 1)
        yield frame_of_call(context, function, call, around, call.node.start_byte), around, call
    for caller, call, position in _passed_on(context, function):
        around = frame_of(context, caller, depth + 1)
        for callee in context.program.functions.get(called_name(call), ()):
            if callee is function or position >= len(callee.parameters):
                continue
            name = callee.parameters[position].name
            inner = frame_of_call(context, callee, call, around, call.node.start_byte)
            given = _template_arguments_of(function, arguments_of(call)[position], around, call.node.start_byte)
            for use in callee.calls:
                target = use.child("function")
                if target is None or re.sub(r"[\s()*&]", "", target.text) != name:
                    continue
                arguments = arguments_bound(function, arguments_of(use), inner, use.node.start_byte)
                deduced = _deduced(context, function, arguments, given)
                yield Frame(function, arguments, deduced, inner.depth + 1), around, call


def _calls_of(context: Context, function: Function) -> list[tuple[Function, Fragment]]:
    """The calls of a function from others, with as many arguments as it can take."""
    required = sum(parameter.default is None for parameter in function.parameters)
    return [
        (caller, call)
        for caller, call in context.program.calls.get(function.name, ())
        if caller is not function and required <= len(arguments_of(call)) <= len(function.parameters)
    ]


def _passed_on(context: Context, function: Function) -> Iterator[tuple[Function, Fragment, int]]:
    """Calls that pass the function itself as an argument, with its position: `run(x, n, launch<4>)`."""
    for name in context.program.functions:
        # Only a function of the files can call it in turn where that can be seen.
        for caller, call in context.program.calls.get(name, ()):
            for position, argument in enumerate(arguments_of(call)):
                plain = argument.node.type in ("identifier", "template_function", "qualified_identifier")
                if plain and plain_name(argument.text) == function.name:
                    yield caller, call, position
