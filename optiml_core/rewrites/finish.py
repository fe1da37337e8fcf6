"""What every rewrite does last: joins its edits, checks them against macros, states the launch."""

from __future__ import annotations

from collections.abc import Iterable

from optiml_core.records import Edit
from optiml_core.rewrites.context import Refusal, RewriteContext, Rewritten
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.launch_sites import edit_launches
from optiml_core.rewrites.launch_text import LaunchPlan, compose
from optiml_core.rewrites.syntax import called_name, walk_types
from optiml_core.source import TranslationUnit


def finish(
    context: RewriteContext,
    body: KernelBody,
    edits: Iterable[Edit],
    rationale: str,
    *,
    launch: LaunchPlan | Refusal | None = None,
    not_checked: tuple[str, ...] = (),
    guards: tuple[str, ...] = (),
) -> Rewritten | Refusal:
    """The result of a rewrite with the launch sites edited to ``launch`` (None: the launch stays as it is)."""
    if isinstance(launch, Refusal):
        return launch
    own = tuple(edits)
    cut = cut_macro(context.unit, own)
    if cut is not None:
        return Refusal(f"an edit would cut into the macro {cut}")
    if launch is None:
        return Rewritten(own, context.launch_change, rationale, not_checked, guards)
    launches = edit_launches(context, body, launch)
    if isinstance(launches, Refusal):
        return launches
    change = compose(context.launch_change, launches.change)
    return Rewritten((*own, *launches.edits), change, rationale, (*not_checked, *launches.not_checked), guards)


def cut_macro(unit: TranslationUnit, edits: Iterable[Edit]) -> str | None:
    """The name of a function-like macro of the file whose call an edit would change in part, or None.

    A call that is replaced as a whole, or copied as a whole into new code, is not cut.
    """
    macros = {macro.name for macro in unit.macros if macro.parameters is not None}
    if not macros:
        return None
    own = [one for one in edits if one.file == unit.source.path]
    for call in walk_types(unit.tree.root_node, "call_expression"):
        name = called_name(call)
        if name not in macros:
            continue
        for one in own:
            inside = one.start_byte < call.end_byte and one.end_byte > call.start_byte
            whole = one.start_byte <= call.start_byte and call.end_byte <= one.end_byte
            insertion = one.start_byte == one.end_byte
            within = call.start_byte < one.start_byte < call.end_byte
            if (inside and not whole and not insertion) or (insertion and within):
                return name
    return None
