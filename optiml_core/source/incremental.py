"""Reads a file again after an edit, for what the edit touches.

The fast way is taken where the edit lies inside one function (or outside all) and changes no brace,
directive or declaration that others depend on: then only a window of statements is scanned, the
tree is parsed incrementally, and everything behind the window is moved. Any other edit is read as
a whole: ``parse_again`` returns None.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from attrs import evolve, frozen
from tree_sitter import Parser, Tree

from optiml_core.records import Kernel, LaunchSite, Parameter, SourceRange
from optiml_core.source.blanking import Blanked, blanked_range
from optiml_core.source.function_ranges import function_ranges, range_around
from optiml_core.source.grammar import cuda_language, point_of
from optiml_core.source.instantiations import with_instantiations
from optiml_core.source.kernel_reading import kernel_node
from optiml_core.source.launch_sites import read_launch_sites
from optiml_core.source.lexical import (
    Directive,
    LexicalScan,
    Span,
    scan_range,
    skeleton_of,
    without_comments,
)
from optiml_core.source.macro_text import read_macros
from optiml_core.source.source_file import UTF8_BOM, SourceFile
from optiml_core.source.token_scan import KernelTokens
from optiml_core.source.translation_unit import TranslationUnit

LARGEST_WINDOW = 1 << 16  # bytes
_STATEMENT_END = re.compile(rb"[;{}]")
# Words whose meaning reaches beyond the statement that they stand in.
_FAR_REACHING = re.compile(
    rb"__global__|__device__|__constant__|namespace|template|typedef|using|struct|class|union|enum|extern|cudaLaunch"
)


@frozen
class Window:
    """The statements around an edit: ``start`` to ``old_end`` before it, to ``new_end`` after it."""

    start: int
    old_end: int
    new_end: int

    @property
    def delta(self) -> int:
        return self.new_end - self.old_end


def changed_range(before: bytes, after: bytes) -> tuple[int, int, int]:
    """Start, old end and new end (bytes) of the smallest range outside which both texts are equal."""
    shorter = min(len(before), len(after))
    low, high = 0, shorter
    while low < high:  # the longest common prefix, by bisection over fast comparisons
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    start = low
    low, high = 0, shorter - start
    while low < high:
        middle = (low + high + 1) // 2
        if before[len(before) - middle : len(before) - low] == after[len(after) - middle : len(after) - low]:
            low = middle
        else:
            high = middle - 1
    return start, len(before) - low, len(after) - low


def parse_again(source: SourceFile, previous: TranslationUnit) -> TranslationUnit | None:
    """The unit of ``source`` from the unit of an earlier state of it, or None where all must be read."""
    if source.data == previous.source.data:
        return previous if source.path == previous.source.path else None
    if source.path != previous.source.path:
        return None
    window = _window(source.data, previous)
    if window is None:
        return None
    spans: list[Span] = []
    directives: list[Directive] = []
    reached = scan_range(source.data, window.start, window.new_end, spans, directives)
    if reached > window.new_end or (spans and spans[-1].end >= window.new_end):
        return None  # a comment or literal now reaches beyond the window
    piece = skeleton_of(source.data, window.start, window.new_end, spans)
    if not _is_local(piece, previous, window):
        return None
    scan = _joined_scan(previous.scan, piece, spans, directives, window)
    if not _same_structure(previous.scan, scan, window):
        return None
    blanked = _joined_blanked(source.data, previous.blanked, scan, spans, directives, window)
    tree = _tree(previous, blanked.text)
    fresh = without_comments(source.data, window.start, window.new_end, spans)
    plain = previous.plain[: window.start] + fresh + previous.plain[window.old_end :]
    tokens = tuple(_moved_tokens(t, window) for t in previous.tokens)
    unit = TranslationUnit(source, tree, (), (), scan, blanked, plain, tokens)
    sites = _sites(unit, previous, window)
    return evolve(unit, kernels=_kernels(unit, previous, window, sites), launch_sites=sites)


def _window(after: bytes, previous: TranslationUnit) -> Window | None:
    """From the end of the statement before the edit to the end of the statement that holds its end."""
    skeleton = previous.scan.skeleton
    start, old_end, new_end = changed_range(previous.source.data, after)
    first = max(skeleton.rfind(sign, 0, start) for sign in (b";", b"{", b"}")) + 1
    last = _STATEMENT_END.search(skeleton, old_end)
    if last is None or (first == 0 and after.startswith(UTF8_BOM) != previous.source.data.startswith(UTF8_BOM)):
        return None
    if first == 0 and after.startswith(UTF8_BOM):
        first = len(UTF8_BOM)
        if start < first:
            return None
    window = Window(first, last.end(), last.end() + new_end - old_end)
    return window if window.old_end - first < LARGEST_WINDOW and window.new_end - first < LARGEST_WINDOW else None


def _same_structure(old: LexicalScan, new: LexicalScan, window: Window) -> bool:
    """Whether braces and directives of the window are the same as before, in the same order."""
    before = [e.kind for e in old.events_between(window.start, window.old_end)]
    if before != [e.kind for e in new.events_between(window.start, window.new_end)]:
        return False
    return _directives(old, window.start, window.old_end) == _directives(new, window.start, window.new_end)


def _directives(scan: LexicalScan, start: int, end: int) -> list[tuple[str, str]]:
    """Word and text of the directives in a range, apart from pragmas, which have no effect beyond it."""
    first = bisect_left(scan.directives, start, key=lambda d: d.start)
    last = bisect_left(scan.directives, end, key=lambda d: d.start)
    return [(d.word, d.text) for d in scan.directives[first:last] if d.word != "pragma"]


def _is_local(piece: bytes, previous: TranslationUnit, window: Window) -> bool:
    old = previous.scan.skeleton[window.start : window.old_end]
    if old[-1:] != piece[-1:] or _FAR_REACHING.search(old) or _FAR_REACHING.search(piece):
        return False
    scan = previous.scan
    if any(s.kind == "inactive" and s.start < window.old_end and window.start < s.end for s in scan.spans):
        return False
    if any(window.start <= at < window.old_end for at in previous.blanked.global_words):
        return False
    for tokens in previous.tokens:
        apart = window.old_end <= tokens.start or window.start >= tokens.body_end
        inside = tokens.body_open < window.start and window.old_end <= tokens.body_end
        if not tokens.closed or not (apart or inside):
            return False
    for site in previous.launch_sites:
        begins, ends = site.range.start_byte, site.range.end_byte
        cut = begins < window.old_end and window.start < ends
        if cut and not (window.start <= begins and ends <= window.old_end):
            return False
    # A launch that began before the window, and that the window completes, is not among the old sites.
    begun = scan.skeleton.rfind(b"<<<", 0, window.start) > scan.skeleton.rfind(b";", 0, window.start)
    return not begun and b"cudaLaunch" not in scan.skeleton


def _joined_scan(
    old: LexicalScan, piece: bytes, spans: list[Span], directives: list[Directive], window: Window
) -> LexicalScan:
    skeleton = old.skeleton[: window.start] + piece + old.skeleton[window.old_end :]
    before = bisect_left(old.spans, window.start, key=lambda s: s.start)
    behind = bisect_left(old.spans, window.old_end, key=lambda s: s.start)
    delta = window.delta
    moved = old.spans[behind:] if delta == 0 else tuple(Span(k, a + delta, b + delta) for k, a, b in old.spans[behind:])
    first = bisect_left(old.directives, window.start, key=lambda d: d.start)
    rest = bisect_left(old.directives, window.old_end, key=lambda d: d.start)
    moved_directives = tuple(Directive(w, t, a + delta, b + delta) for w, t, a, b in old.directives[rest:])
    return LexicalScan(
        skeleton, (*old.spans[:before], *spans, *moved), (*old.directives[:first], *directives, *moved_directives)
    )


def _joined_blanked(
    data: bytes, old: Blanked, scan: LexicalScan, spans: list[Span], directives: list[Directive], window: Window
) -> Blanked:
    start, delta = window.start, window.delta
    text, skeleton, _ = blanked_range(
        data[start : window.new_end],
        scan.skeleton[start : window.new_end],
        [Span(k, a - start, b - start) for k, a, b in spans],
        [Directive(w, t, a - start, b - start) for w, t, a, b in directives],
        old.macros,
    )
    macros = old.macros
    if delta or directives:
        macros = read_macros(scan.directives)
    return Blanked(
        old.text[:start] + text + old.text[window.old_end :],
        old.skeleton[:start] + skeleton + old.skeleton[window.old_end :],
        tuple(at + delta if at >= start else at for at in old.global_words),
        macros,
    )


def _tree(previous: TranslationUnit, text: bytes) -> Tree:
    before = previous.blanked.text
    if before == text:
        return previous.tree
    start, old_end, new_end = changed_range(before, text)
    old = previous.tree.copy()
    old.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=point_of(before, start),
        old_end_point=point_of(before, old_end),
        new_end_point=point_of(text, new_end),
    )
    return Parser(cuda_language()).parse(text, old)


def _moved_tokens(tokens: KernelTokens, window: Window) -> KernelTokens:
    if tokens.body_end <= window.start:
        return tokens
    if tokens.start >= window.old_end:
        delta = window.delta
        return KernelTokens(
            tokens.start + delta, tokens.global_at + delta, tokens.name_start + delta, tokens.name_end + delta,
            tokens.parameters_open + delta, tokens.parameters_close + delta, tokens.body_open + delta,
            tokens.body_end + delta, tokens.closed,
        )  # fmt: skip
    return tokens._replace(body_end=tokens.body_end + window.delta)


class _Mover:
    """Moves ranges that lie behind the window, or reach over it, to where they are now."""

    def __init__(self, source: SourceFile, previous: SourceFile, window: Window) -> None:
        self.source = source
        self.window = window
        self.last_line = previous.line_of(window.old_end)
        self.lines = source.line_of(window.new_end) - self.last_line

    def moved(self, old: SourceRange) -> SourceRange:
        if old.end_byte <= self.window.start:
            return old
        delta = self.window.delta
        start = old.start_byte + (delta if old.start_byte >= self.window.old_end else 0)
        if old.start_line <= self.last_line:
            return self.source.range(start, old.end_byte + delta)
        return SourceRange(
            old.file, start, old.end_byte + delta, old.start_line + self.lines, old.start_column,
            old.end_line + self.lines, old.end_column,
        )  # fmt: skip

    def parameter(self, old: Parameter) -> Parameter:
        return evolve(old, range=self.moved(old.range))


def _kernels(
    unit: TranslationUnit, previous: TranslationUnit, window: Window, sites: tuple[LaunchSite, ...]
) -> tuple[Kernel, ...]:
    mover = _Mover(unit.source, previous.source, window)
    launched = [(s.kernel, s.template_arguments) for s in sites]
    launches_changed = launched != [(s.kernel, s.template_arguments) for s in previous.launch_sites]
    found: list[Kernel] = []
    for kernel, tokens in zip(previous.kernels, unit.tokens, strict=True):
        moved = kernel
        if kernel.range.end_byte > window.start:
            moved = evolve(
                kernel,
                range=mover.moved(kernel.range),
                name_range=mover.moved(kernel.name_range),
                signature_range=mover.moved(kernel.signature_range),
                body_range=mover.moved(kernel.body_range),
                parameters=tuple(mover.parameter(p) for p in kernel.parameters)
                if kernel.range.start_byte >= window.start
                else kernel.parameters,
            )
        if tokens.start < window.start < tokens.body_end:
            node = kernel_node(unit.tree, tokens, unit.blanked, unit.scan)
            unit.nodes[tokens.start] = node
            moved = evolve(moved, has_syntax_error=node is None or node.has_error)
        found.append(moved)
    return with_instantiations(found, unit.blanked, sites) if launches_changed else tuple(found)


def _sites(unit: TranslationUnit, previous: TranslationUnit, window: Window) -> tuple[LaunchSite, ...]:
    mover = _Mover(unit.source, previous.source, window)
    before: list[LaunchSite] = []
    behind: list[LaunchSite] = []
    for old in previous.launch_sites:
        if old.range.end_byte <= window.start:
            before.append(_with_function(unit, old, old.function_range, mover))
        elif old.range.start_byte >= window.old_end:
            moved = evolve(
                old,
                range=mover.moved(old.range),
                grid_range=mover.moved(old.grid_range),
                block_range=mover.moved(old.block_range),
                shared_range=mover.moved(old.shared_range) if old.shared_range is not None else None,
            )
            behind.append(_with_function(unit, moved, old.function_range, mover))
    fresh = read_launch_sites(unit.source, unit.scan, unit.blanked.skeleton, unit.plain, window.start, window.new_end)
    return (*before, *fresh, *behind)


def _with_function(unit: TranslationUnit, site: LaunchSite, old: SourceRange | None, mover: _Mover) -> LaunchSite:
    """The site with the range of the function around it, which the edit may have moved."""
    window = mover.window
    if old is None or old.end_byte <= window.start:
        return site
    if window.start <= old.start_byte < window.old_end:  # the edit is in the function's head
        around = range_around(function_ranges(unit.scan, unit.blanked.skeleton), site.range.start_byte)
        return evolve(site, function_range=unit.source.range(*around) if around is not None else None)
    return evolve(site, function_range=mover.moved(old))
