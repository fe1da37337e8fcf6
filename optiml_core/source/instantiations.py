"""Template argument lists that a file uses for a kernel: at launches and in explicit instantiations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import evolve

from optiml_core.records import Kernel, LaunchSite
from optiml_core.source.blanking import Blanked
from optiml_core.source.declarations import squeeze
from optiml_core.source.lexical import split_at_commas
from optiml_core.source.repairs import whole_word
from optiml_core.source.translation_unit import names_kernel

_EXPLICIT = re.compile(rb"template\s+(?=[A-Za-z_])[^;{}()<]*?\b([A-Za-z_][\w:]*)\s*<([^;{}]*?)>\s*\(")

Written = tuple[str, tuple[str, ...]]  # a kernel's name as written, and template arguments


def explicit_instantiations(repaired: Blanked) -> tuple[Written, ...]:
    """Every ``template ... name<arguments>(...)`` without a body, in the order of the file."""
    found: list[Written] = []
    for match in _EXPLICIT.finditer(repaired.skeleton):
        if whole_word(repaired.skeleton, match.start()):
            parts = split_at_commas(repaired.skeleton, match.start(2), match.end(2))
            arguments = tuple(squeeze(repaired.text[a:b].decode("utf-8", "replace")) for a, b in parts)
            found.append((match[1].decode("utf-8", "replace"), arguments))
    return tuple(found)


def with_instantiations(
    kernels: Iterable[Kernel], repaired: Blanked, sites: Iterable[LaunchSite]
) -> tuple[Kernel, ...]:
    """The kernels, the templates among them with the distinct argument lists that the file uses.

    A list that names a template parameter of the function around its launch stays as written: it is
    no instantiation by itself.
    """
    kernels = tuple(kernels)
    if not any(k.template_parameters for k in kernels):
        return kernels
    launched = ((s.kernel, s.template_arguments) for s in sites if s.template_arguments)
    written = dict.fromkeys((*explicit_instantiations(repaired), *launched))
    return tuple(
        evolve(k, instantiations=tuple(dict.fromkeys(a for name, a in written if names_kernel(name, k))))
        if k.template_parameters
        else k
        for k in kernels
    )
