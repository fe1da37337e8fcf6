"""Template argument lists that a file uses for a kernel: at launches and in explicit instantiations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from optiml_core.records import Kernel, LaunchSite
from optiml_core.source.blanking import Blanked
from optiml_core.source.declarations import squeeze
from optiml_core.source.lexical import split_at_commas
from optiml_core.source.translation_unit import names_kernel

_EXPLICIT = re.compile(rb"\btemplate\s+(?=[A-Za-z_])[^;{}()<]*?\b([A-Za-z_][\w:]*)\s*<([^;{}]*?)>\s*\(")


def instantiations_of(kernel: Kernel, repaired: Blanked, sites: Iterable[LaunchSite]) -> tuple[tuple[str, ...], ...]:
    """Distinct template argument lists of the kernel, in the order of the file.

    A list that names a template parameter of the function around the launch stays as written:
    it is no instantiation by itself (see ``is_concrete``).
    """
    found: dict[tuple[str, ...], None] = {}
    for match in _EXPLICIT.finditer(repaired.skeleton):
        if names_kernel(match[1].decode("utf-8", "replace"), kernel):
            parts = split_at_commas(repaired.skeleton, match.start(2), match.end(2))
            found[tuple(squeeze(repaired.text[a:b].decode("utf-8", "replace")) for a, b in parts)] = None
    for site in sites:
        if site.template_arguments and names_kernel(site.kernel, kernel):
            found[site.template_arguments] = None
    return tuple(found)
