"""Facts about callers that no run can show: no aliasing, aligned addresses, a changed launch.

Each holds if the file is a whole program whose every launch passes distinct whole allocations. Else the patch needs a
run-time guard, which the runs with shifted and shared addresses then show, or an opt-in.
"""

from __future__ import annotations

import re

from optiml_core.records import Kernel
from optiml_core.source import TranslationUnit

_MAIN = re.compile(r"\bint\s+main\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w*")


def every_launch_passes_whole_allocations(unit: TranslationUnit, kernel: Kernel) -> bool:
    """True if the file has ``main``, launches the kernel, and every pointer argument of every launch is another
    variable that the launching function itself fills by ``cudaMalloc``, ``cudaMallocManaged`` or ``cudaMallocAsync``.
    """
    text = unit.source.text
    sites = unit.launches_of(kernel)
    if not sites or _MAIN.search(text) is None:
        return False
    for site in sites:
        if site.function_range is None or len(site.arguments) != len(kernel.parameters):
            return False
        around = site.function_range
        body = unit.source.data[around.start_byte : around.end_byte].decode("utf-8", "replace")
        pointers = [
            argument.strip()
            for argument, parameter in zip(site.arguments, kernel.parameters, strict=True)
            if parameter.is_pointer
        ]
        if len(set(pointers)) != len(pointers):
            return False
        if not all(_NAME.fullmatch(pointer) and _is_allocation(pointer, body) for pointer in pointers):
            return False
    return True


def _is_allocation(name: str, body: str) -> bool:
    """Whether the only things that a function does to a pointer are one allocation and uses of its value."""
    allocated = re.findall(rf"\bcudaMalloc(?:Managed|Async)?\s*\(\s*(?:\([^()]*\)\s*)?&\s*{name}\s*,", body)
    # A second assignment, an increment or its address elsewhere would make it point somewhere else.
    changed = re.findall(rf"\b{name}\s*(?:=(?!=)|\+=|-=|\+\+|--)|(?:\+\+|--)\s*{name}\b", body)
    nulls = re.findall(rf"\b{name}\s*=\s*(?:nullptr|NULL|0)\s*[,;]", body)
    addresses = re.findall(rf"&\s*{name}\b(?!\s*\[)", body)
    return len(allocated) == 1 and len(changed) == len(nulls) and len(addresses) == 1


def added_restrict(original: Kernel, candidate: Kernel) -> tuple[str, ...]:
    """The original's names of the pointer parameters that only the candidate promises not to alias."""
    return tuple(
        before.name
        for before, after in zip(original.parameters, candidate.parameters, strict=True)
        if after.is_pointer and after.is_restrict and not before.is_restrict
    )


def read_only_loads(original: str, candidate: str) -> bool:
    """Whether only the candidate reads through the read-only cache, which promises that nobody writes meanwhile."""
    return re.search(r"\b__ldg\b|\b__ld\w*nc\b", candidate) is not None and re.search(r"\b__ldg\b", original) is None
