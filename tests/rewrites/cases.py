"""Small tools of the tests: parse a text, apply a rewrite, read the result."""

from __future__ import annotations

from optiml_core.records import Failure, LaunchChange
from optiml_core.rewrites import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.source import SourceFile, TranslationUnit, apply_edits, parse

FILE = "case.cu"


def unit_of(text: str | bytes, path: str = FILE) -> TranslationUnit:
    return parse(SourceFile(path, text.encode() if isinstance(text, str) else text))


def context_of(
    text: str | bytes,
    kernel: str | None = None,
    *,
    allow: tuple[str, ...] = (),
    searched: bool = True,
    launch_change: LaunchChange | None = None,
) -> RewriteContext:
    unit = unit_of(text)
    chosen = unit.kernels[0] if kernel is None else unit.kernel(kernel)
    assert chosen is not None
    return RewriteContext(
        unit,
        chosen,
        allow=frozenset(allow),
        other_launch_sites=() if searched else None,
        launch_change=launch_change or LaunchChange(),
    )


def text_after(context: RewriteContext, rewritten: Rewritten) -> str:
    after = apply_edits(context.unit.source.data, [e for e in rewritten.edits if e.file == context.unit.source.path])
    assert not isinstance(after, Failure), after
    return after.decode()


def rewrite_text(rewrite: Rewrite, context: RewriteContext, option: Option | None = None) -> tuple[str, Rewritten]:
    """The file after the rewrite's first (or the given) option."""
    if option is None:
        options = rewrite.options(context)
        assert not isinstance(options, Refusal), options.reason
        option = options[0]
    rewritten = rewrite.apply(context, option)
    assert isinstance(rewritten, Rewritten), rewritten
    return text_after(context, rewritten), rewritten


def refusal_of(rewrite: Rewrite, context: RewriteContext) -> str:
    options = rewrite.options(context)
    assert isinstance(options, Refusal), options
    return options.reason
