"""Two rewrites as one step, for pairs of which the first gains nothing by itself."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from attrs import evolve

from optiml_core.records import Edit, Failure
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext, Rewritten
from optiml_core.source import SourceFile, apply_edits, parse


def followed_by(
    context: RewriteContext, first: Rewritten, second: Callable[[RewriteContext], Rewritten | Refusal]
) -> Rewritten | Refusal:
    """``first`` and then ``second`` on what it leaves, with edits of the context's own text."""
    texts = _texts(context)
    middle = _edited(texts, first.edits)
    if isinstance(middle, Failure):
        return Refusal(middle.message)
    unit = parse(SourceFile(context.unit.source.path, middle[context.unit.source.path]))
    kernel = unit.kernel(context.kernel.qualified)
    if kernel is None:
        return Refusal("the kernel is not found after the first of two rewrites")
    outside = None
    if context.other_launch_sites is not None:
        others = {path: parse(SourceFile(path, data)) for path, data in middle.items() if path != unit.source.path}
        sites = [(other, site) for other in others.values() for site in other.launch_sites]
        outside = tuple(OutsideLaunch(other, site) for other, site in sites if site.kernel == kernel.name)
    made = second(
        evolve(
            context,
            unit=unit,
            kernel=kernel,
            launch=None,
            other_launch_sites=outside,
            launch_change=first.launch_change,
        )
    )
    if isinstance(made, Refusal):
        return made
    last = _edited(middle, made.edits)
    if isinstance(last, Failure):
        return Refusal(last.message)
    edits = [one for path in texts for one in line_edits(path, texts[path], last[path])]
    return evolve(
        made,
        edits=tuple(edits),
        rationale=f"{first.rationale} {made.rationale}",
        not_checked=tuple(dict.fromkeys((*first.not_checked, *made.not_checked))),
        guards=(*first.guards, *made.guards),
    )


def _texts(context: RewriteContext) -> dict[str, bytes]:
    units = [context.unit, *(one.unit for one in context.other_launch_sites or ())]
    return {unit.source.path: unit.source.data for unit in units}


def _edited(texts: dict[str, bytes], edits: tuple[Edit, ...]) -> dict[str, bytes] | Failure:
    changed = dict(texts)
    for path, data in texts.items():
        after = apply_edits(data, [one for one in edits if one.file == path])
        if isinstance(after, Failure):
            return after
        changed[path] = after
    return changed


def line_edits(path: str, before: bytes, after: bytes) -> list[Edit]:
    """Edits of whole lines that turn one text into the other."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    return [
        Edit(path, starts[a], starts[b], b"".join(new[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]
