"""What the host program puts into a buffer, as far as its text says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from optiml_core.workload.expression import Number
from optiml_core.workload.inference import frames
from optiml_core.workload.inference.context import Context
from optiml_core.workload.inference.evaluation import evaluate
from optiml_core.workload.inference.program import Event, Function
from optiml_core.workload.inference.syntax import (
    Fragment,
    arguments_of,
    called_name,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import Pointer, Quantity
from optiml_core.workload.items import Content

_RANDOM = re.compile(r"rand|random|dist\w*\(|uniform|gen\(\)|normal", re.IGNORECASE)
_COPIES = {"cudaMemcpy": (0, 1), "cudaMemcpyAsync": (0, 1), "memcpy": (0, 1)}


@frozen
class Evidence:
    """``cleared``: the program sets the buffer to zero. ``content``: what it copies or writes into it, if clear."""

    cleared: bool = False
    content: Content | None = None


def evidence_of(context: Context, pointer: Pointer, is_float: bool) -> Evidence:
    """What happens to the buffer on the host before the launch. Names are matched, not values followed."""
    paths = {path for path in (*pointer.paths, pointer.allocation.path) if path}
    cleared = False
    calls = context.program.calls
    for name in [one for one in calls if one in _COPIES or one.startswith(("cudaMemset", "memset"))]:
        for function, call in calls[name]:
            arguments = arguments_of(call)
            target = path_of(without_casts(arguments[0])) if arguments else None
            if target not in paths:
                continue
            if name.startswith(("cudaMemset", "memset")) and len(arguments) >= 3:
                cleared = cleared or arguments[1].text.strip() in ("0", "0x00", "0x0")
            elif name in _COPIES and "DeviceToHost" not in call.text and "DeviceToDevice" not in call.text:
                source = path_of(without_casts(arguments[1])) if len(arguments) > 1 else None
                content = _content_of_array(context, function, source, is_float, 0) if source else None
                if content is not None:
                    return Evidence(cleared, content)
    for function in context.program.all_functions():
        for path in paths:
            content = _content_of_array(context, function, path, is_float, 0)
            if content is not None:
                return Evidence(cleared, content)
    return Evidence(cleared)


def _content_of_array(context: Context, function: Function, path: str, is_float: bool, depth: int) -> Content | None:
    """What a function, or one that it hands the array to, writes into its elements."""
    if depth > 3:
        return None
    for event in function.events.get(path + "[]", ()):
        if event.kind == "value" and event.value is not None:
            content = _content_of_value(context, function, event, event.value, is_float)
            if content is not None:
                return content
    for event in function.events.get(path, ()):
        value = event.value
        if value is not None and value.node.type in ("call_expression", "cast_expression"):
            made = without_casts(value)
            if made.node.type == "call_expression" and _RANDOM.search(called_name(made)):
                return Content("normal") if is_float else Content("uniform")
    for call in function.calls:
        for position, argument in enumerate(arguments_of(call)):
            if path_of(without_casts(argument)) != path:
                continue
            for inner in context.program.functions.get(called_name(call), ()):
                if inner is not function and position < len(inner.parameters):
                    name = inner.parameters[position].name
                    content = _content_of_array(context, inner, name, is_float, depth + 1)
                    if content is not None:
                        return content
            if _RANDOM.search(called_name(call)):
                return Content("normal") if is_float else Content("uniform")
    return None


def _content_of_value(
    context: Context, function: Function, event: Event, value: Fragment, is_float: bool
) -> Content | None:
    """One assignment `h[i] = value`."""
    text = re.sub(r"\s+", "", without_casts(value).text)
    if _RANDOM.search(text):
        if is_float:
            return Content("uniform") if "RAND_MAX" in text and "-" not in text else Content("normal")
        return _remainder(context, function, event, value) or Content("uniform")
    known = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?[fFlLuU]*", text)
    if known:
        number = float(re.sub(r"[fFlLuU]+$", "", text))
        if number == 0:
            return Content("zeros")
        # A constant input tells little about a kernel: values of the same sign and about its size tell more.
        if is_float:
            return Content("uniform") if number > 0 else Content("normal")
        return Content("uniform", (Number(0), Number(int(number) + 1))) if number > 0 else None
    if any(re.fullmatch(r"[A-Za-z_]\w*", text) and text == name for name in _loop_variables(event)):
        return Content("ramp")
    if not is_float:
        return _remainder(context, function, event, value)
    return None


def _remainder(context: Context, function: Function, event: Event, value: Fragment) -> Content | None:
    """`rand() % n` and `i % n` are whole numbers below n; `rand() & mask` at most the mask."""
    node = without_casts(value)
    for inner in _binary(node):
        left, right = inner.child("left"), inner.child("right")
        if left is None or right is None:
            continue
        operator = inner.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip()
        if operator not in ("%", "&"):
            continue
        limit = evaluate(context, right, frames.frame_of(context, function), event.start)
        if isinstance(limit, Quantity) and 0 < limit.value < 1 << 31:
            return Content("uniform", (Number(0), Number(int(limit.value) + (operator == "&"))))
    return None


def _binary(fragment: Fragment) -> Iterator[Fragment]:
    if fragment.node.type == "binary_expression":
        yield fragment
    for child in fragment.named():
        yield from _binary(child)


def _loop_variables(event: Event) -> Iterator[str]:
    node = event.node.parent
    while node is not None and node.type != "function_definition":
        if node.type == "for_statement":
            first = node.child_by_field_name("initializer")
            text = (first.text or b"").decode("utf-8", "replace") if first is not None else ""
            for match in re.finditer(r"([A-Za-z_]\w*)\s*=", text):
                yield match[1]
        node = node.parent
