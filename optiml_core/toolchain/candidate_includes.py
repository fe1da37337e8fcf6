"""A candidate may include only what the original includes: no new file reaches a compiler through an edit."""

from __future__ import annotations

import re

from optiml_core.records import Failure
from optiml_core.source import SourceFile
from optiml_core.source.lexical import scan

_READING = frozenset({"include", "include_next", "import", "embed"})
_PROBE = re.compile(rb"__has_(?:include|include_next|embed)\b[^\n]*")


def refuse_new_includes(original: SourceFile, candidate: SourceFile) -> Failure | None:
    """None if every include, embed and probe for a file in the candidate stands in the original, too.

    Else Failure ``refused`` with the line. Compared as written, wherever in the file they stand.
    """
    before = {text for _, text in _readings(original)}
    for offset, text in _readings(candidate):
        if text not in before:
            line = candidate.line_of(offset)
            return Failure("refused", f"a candidate may not add {text!r}", file=candidate.path, line=line)
    return None


def _readings(file: SourceFile) -> list[tuple[int, str]]:
    scanned = scan(file.data)
    found = [
        (directive.start, f"#{directive.word} {''.join(directive.text.split())}")
        for directive in scanned.directives
        if directive.word in _READING
    ]
    # Probes may stand in any directive and in macros; those in comments and strings do no harm to compare.
    found += [(m.start(), " ".join(m[0].decode("utf-8", "replace").split())) for m in _PROBE.finditer(file.data)]
    return found
