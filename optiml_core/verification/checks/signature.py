"""The kernel keeps its name, the types of its parameters in order, and its template parameters.

``const`` may be added to what a pointer points to: every caller that compiles this file stays valid. ``__restrict__``
is no part of the type; what it promises is a fact of its own (check launch_facts).
"""

from __future__ import annotations

import re

from optiml_core.records import Kernel, Parameter
from optiml_core.source import TranslationUnit
from optiml_core.verification.tokens import tokenize


def problem(original: Kernel, candidate: Kernel | None) -> str | None:
    """What changed in the signature, or None."""
    if candidate is None:
        return f"there is no kernel `{original.qualified}`"
    if candidate.has_syntax_error and not original.has_syntax_error:
        return "the kernel has a syntax error"
    if len(original.parameters) != len(candidate.parameters):
        return f"{len(candidate.parameters)} parameters instead of {len(original.parameters)}"
    for before, after in zip(original.parameters, candidate.parameters, strict=True):
        types = (normalised_type(before), normalised_type(after))
        if types[0] != types[1] and types[1] not in (f"const {types[0]}", _with_const(types[0])):
            return f"parameter `{after.name}` has the type `{after.type}` instead of `{before.type}`"
    kinds = [tuple((one.kind, one.default) for one in kernel.template_parameters) for kernel in (original, candidate)]
    if kinds[0] != kinds[1]:
        return "the template parameters differ"
    return None


def normalised_type(parameter: Parameter) -> str:
    """The type without ``__restrict__``, top-level ``const`` and needless spaces; ``const`` first."""
    text = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b", " ", parameter.type)
    text = re.sub(r"\s+", " ", re.sub(r"\s*([*&<>,])\s*", r"\1", text)).strip()
    head, star, tail = text.partition("*")
    if not star:
        return re.sub(r"\bconst\b ?", "", text).strip() if "&" not in text else text
    words = head.split(" ")
    ordered = (["const"] if "const" in words else []) + [word for word in words if word != "const"]
    return " ".join(ordered) + "*" + re.sub(r"^const\b|(?<=\*)const\b", "", tail).strip()


def _with_const(type_text: str) -> str:
    return f"const {type_text}" if type_text.endswith("*") and not type_text.startswith("const ") else type_text


def added_const(original: Kernel, candidate: Kernel) -> tuple[str, ...]:
    """The pointer parameters that only the candidate declares const."""
    return tuple(
        after.name
        for before, after in zip(original.parameters, candidate.parameters, strict=True)
        if after.is_pointer and after.is_const and not before.is_const
    )


def changed_linkage(
    original: TranslationUnit, kernel: Kernel, candidate: TranslationUnit, other: Kernel | None
) -> str | None:
    """``static`` or ``extern "C"`` that came or went: callers in other files would not find the kernel any more."""
    if other is None:
        return None
    before, after = _linkage(original, kernel), _linkage(candidate, other)
    if before == after:
        return None
    changed = " and ".join(f"`{word}`" for word in sorted(before ^ after))
    return f"{changed} came or went: callers in other files would no longer find the kernel"


def _linkage(unit: TranslationUnit, kernel: Kernel) -> frozenset[str]:
    head = unit.source.data[kernel.range.start_byte : kernel.range.end_byte].decode("utf-8", "replace")
    words = tokenize(head.partition("(")[0]).code
    found = {word for word in ("static",) if word in words}
    # A block of them may stand far above: its spelling is counted in the whole file.
    if '"C"' in tokenize(unit.source.text).code:
        found.add('extern "C"')
    return frozenset(found)


def extra_kernels(original: TranslationUnit, candidate: TranslationUnit) -> str | None:
    """A kernel, or more launches of the kernel, that only the candidate has: more than one launch cannot be told."""
    known = {kernel.qualified for kernel in original.kernels}
    new = [kernel.qualified for kernel in candidate.kernels if kernel.qualified not in known]
    if new:
        return f"the candidate adds the kernel `{new[0]}`: more than one launch is not verified"
    if original.launch_sites and len(candidate.launch_sites) > len(original.launch_sites):
        return "the candidate launches more often than the original: more than one launch is not verified"
    return None
