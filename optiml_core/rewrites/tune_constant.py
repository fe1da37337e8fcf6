"""Another value for a constant that decides how the kernel works: a tile's side, rows per thread, a block's width."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attrs import evolve, frozen

from optiml_core.records import Edit, Failure, LaunchChange
from optiml_core.rewrites.callers import launches_elsewhere, unknown_callers
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.declaration_comment import edit_declaration
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.launch_text import LaunchPlan, Triple, compose, launch_change, simplify
from optiml_core.rewrites.layout import edit
from optiml_core.rewrites.tunable_constants import TunableConstant, tunable_constants
from optiml_core.source import SourceFile, TranslationUnit, apply_edits, parse
from optiml_core.workload import find_workload, parse_declaration, resolve_launch
from optiml_core.workload.expression import Expression, Name, Number, names_in, replace_names
from optiml_core.workload.inference.infer import infer
from optiml_core.workload.items import Item, Scalar, Shape, SharedMemory, expressions_of
from optiml_core.workload.limits import MAXIMUM_THREADS
from optiml_core.workload.neighbours import related_units, run_arguments

MOST_OPTIONS = 12


def _recognise(context: RewriteContext) -> tuple[KernelBody, tuple[TunableConstant, ...]] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = tunable_constants(context)
    return found if isinstance(found, Refusal) else (body, found)


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    recognised = _recognise(context)
    if isinstance(recognised, Refusal):
        return recognised
    reason = Refusal("no constant has another value to try")
    choices: list[Option] = []
    rounds = max(len(one.others) for one in recognised[1])
    # Every constant's best value first, then every constant's next.
    for turn in range(rounds):
        for constant in recognised[1]:
            if turn >= len(constant.others):
                continue
            value = constant.others[turn]
            made = _made(context, constant, value)
            if isinstance(made, Refusal):
                reason = made
            else:
                choices.append(
                    Option(
                        {"name": constant.name, "value": value}, f"`{constant.name}` from {constant.value} to {value}"
                    )
                )
    return tuple(choices[:MOST_OPTIONS]) or reason


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    recognised = _recognise(context)
    if isinstance(recognised, Refusal):
        return recognised
    name, value = str(option.parameters["name"]), int(option.parameters["value"])
    constant = next((one for one in recognised[1] if one.name == name), None)
    return Refusal(f"there is no constant `{name}`") if constant is None else _made(context, constant, value)


def _made(context: RewriteContext, constant: TunableConstant, value: int) -> Rewritten | Refusal:
    own = edit(context.unit, *constant.number, str(value))
    rationale = f"`{constant.name}` is {value} instead of {constant.value}."
    after = _with(context.unit, own)
    if isinstance(after, Refusal):
        return after
    launch = _new_launch(context, after, constant, value)
    if isinstance(launch, Refusal):
        return launch
    if launch is None:
        return Rewritten((own,), context.launch_change, rationale)
    refusal = unknown_callers(context)
    if refusal is not None and "launch" not in context.allow:
        return refusal
    if launches_elsewhere(context):
        return Refusal("another file launches the kernel and would not follow")
    comment = edit_declaration(
        context.unit, context.kernel, launch, complete=not context.unit.launches_of(context.kernel)
    )
    if isinstance(comment, Refusal):
        return comment
    notes = () if refusal is None else (f"callers outside the known files launch {context.kernel.name} the new way",)
    change = compose(context.launch_change, launch_change(launch))
    return Rewritten((own, *comment), change, rationale, notes)


def _with(unit: TranslationUnit, change: Edit) -> TranslationUnit | Refusal:
    data = apply_edits(unit.source.data, [change])
    return Refusal(data.message) if isinstance(data, Failure) else parse(SourceFile(unit.source.path, data))


# ------------------------------------------------------------------------------------ the launch


@frozen
class _Launch:
    """Grid, block and dynamic shared memory in names of the workload and numbers."""

    grid: Triple
    block: Triple
    shared: Expression


def _new_launch(
    context: RewriteContext, after: TranslationUnit, constant: TunableConstant, value: int
) -> LaunchPlan | Refusal | None:
    """What the launch becomes with the new value; None if it stays."""
    declared = _declared_items(context)
    if context.unit.launches_of(context.kernel):
        before, changed = _at_sites(context.unit, context), _at_sites(after, context)
    elif declared:
        before, changed = declared, _with_value(declared, constant.name, value)
    else:
        return Refusal("nothing says how the kernel is launched")
    if isinstance(before, Refusal):
        return before
    if isinstance(changed, Refusal):
        return changed
    old, new = _in_common_names(context, before, changed, declared)
    if isinstance(old, Refusal):
        return old
    if isinstance(new, Refusal):
        return new
    if old == new:
        if constant.value > 1 and not context.unit.launches_of(context.kernel) and Number(constant.value) in old.block:
            return Refusal(f"the declared block may hang on `{constant.name}`: declare it by that name")
        return None
    threads = [one.value for one in new.block if isinstance(one, Number)]
    if len(threads) == 3 and math.prod(threads) > MAXIMUM_THREADS:
        return Refusal(f"a block would have more than {MAXIMUM_THREADS} threads")
    if declared and before is not declared and not _agree(context, old):
        return Refusal("the launch that is declared is not the one in the host code")
    return LaunchPlan(new.grid, new.block, None if new.shared == old.shared else new.shared)


def _declared_items(context: RewriteContext) -> tuple[Item, ...]:
    """What the user declared, if it says how the kernel is launched: the comment, or a workload given otherwise."""
    items = parse_declaration(context.unit.source.text, context.kernel).items
    return items if any(isinstance(item, Shape) for item in items) else ()


def _with_value(items: tuple[Item, ...], name: str, value: int) -> tuple[Item, ...] | Refusal:
    for item in items:
        if isinstance(item, (Scalar, Shape, SharedMemory)):
            continue
        if any(name in names_in(one) for one in expressions_of(item)):
            return Refusal(f"`{name}` is part of the workload, not of the launch alone")
    return tuple(
        evolve(one, value=Number(value)) if isinstance(one, Scalar) and one.name == name else one for one in items
    )


def _at_sites(unit: TranslationUnit, context: RewriteContext) -> tuple[Item, ...] | Refusal:
    """What the host code of the file says of the launch."""
    kernel = unit.kernel(context.kernel.qualified)
    if kernel is None:
        return Refusal("the kernel is not found any more")
    found = infer(unit, kernel, related_units(unit, kernel), run_arguments(unit))
    unknown = [problem.message for name, problem in found.guesses if name in ("grid", "block", "shared")]
    if unknown:
        return Refusal(f"the launch in the host code is not known: {unknown[0]}")
    if any(isinstance(item, (Shape, SharedMemory)) for launch in found.launches for item in launch):
        return Refusal("the host code launches the kernel in several ways")
    return found.items


def _in_common_names(
    context: RewriteContext, before: tuple[Item, ...], after: tuple[Item, ...], declared: tuple[Item, ...]
) -> tuple[_Launch | Refusal, _Launch | Refusal]:
    """Both launches in names that mean the same in both and in the original; every other name is written out.

    The change is evaluated with the original's workload, where a constant tuned earlier has its old value.
    """
    original = context.workload.items if context.workload is not None else ()
    meanings = [_scalars(items) for items in (before, after, original, *([declared] if declared else []))]
    parameters = {one.name for one in context.kernel.parameters}
    full = [{name: _written(value, values, parameters) for name, value in values.items()} for values in meanings]
    kept = parameters | {name for name, value in full[2].items() if all(one.get(name) == value for one in full)}
    first, second = (
        _launch_of(items, values, kept) for items, values in zip((before, after), meanings[:2], strict=True)
    )
    return first, second


def _scalars(items: tuple[Item, ...]) -> dict[str, Expression]:
    return {one.name: one.value for one in items if isinstance(one, Scalar)}


def _written(
    expression: Expression, values: Mapping[str, Expression], kept: Collection[str], depth: int = 0
) -> Expression:
    def meaning(name: Name) -> Expression:
        if name.text in kept or name.text not in values or depth > 20:
            return Name(name.text)
        return _written(values[name.text], values, kept, depth + 1)

    return simplify(replace_names(expression, meaning))


def _launch_of(items: tuple[Item, ...], values: Mapping[str, Expression], kept: Collection[str]) -> _Launch | Refusal:
    shapes = {item.name: item.extents for item in items if isinstance(item, Shape)}
    if "grid" not in shapes or "block" not in shapes:
        return Refusal("grid and block of the launch are not known")
    grid, block = (
        [*(_written(one, values, kept) for one in shapes[name]), Number(1), Number(1)] for name in ("grid", "block")
    )
    shared = [_written(item.bytes, values, kept) for item in items if isinstance(item, SharedMemory)]
    return _Launch((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), shared[-1] if shared else Number(0))


def _agree(context: RewriteContext, at_sites: _Launch) -> bool:
    """Whether the declared launch is, in numbers, the one in the host code."""
    workload = find_workload(context.unit, context.kernel)
    declared = resolve_launch(workload)
    plan = LaunchPlan(at_sites.grid, at_sites.block, at_sites.shared)
    other = resolve_launch(workload, 0, None, LaunchChange() if isinstance(declared, Failure) else launch_change(plan))
    if isinstance(declared, Failure) or isinstance(other, Failure):
        return False
    return (declared.grid, declared.block, declared.shared) == (other.grid, other.block, other.shared)


REWRITE = Rewrite(
    "tune-constant",
    ("low-occupancy", "latency-bound-launch", "redundant-global-traffic", "barrier-bound"),
    options,
    apply,
)
