"""What the names of a launch expression stand for outside the kernel in which they were found."""

from __future__ import annotations

from optiml_core.rewrites.context import Refusal
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.launch_text import LAUNCH_NAMES, LaunchPlan, read, substitute_plan
from optiml_core.rewrites.syntax import declared_variables, text_of
from optiml_core.source import TranslationUnit
from optiml_core.workload.expression import Expression


def kernel_meaning(body: KernelBody, name: str, seen: frozenset[str]) -> Expression | Refusal | None:
    """Locals of the kernel written out, so that host code can say the same; parameters and macros stay."""
    if name in LAUNCH_NAMES or name in seen:
        return None
    if name in body.parameter_names:
        if name in body.assigned:
            return Refusal(f"the kernel changes its parameter `{name}`, which the launch would depend on")
        return None
    definition = body.definitions.get(name)
    if definition is not None:
        parsed = read(text_of(definition))
        if isinstance(parsed, Refusal):
            return parsed
        replaced = substitute_plan(LaunchPlan(shared=parsed), lambda inner: kernel_meaning(body, inner, seen | {name}))
        return replaced if isinstance(replaced, Refusal) else replaced.shared
    if name in body.locals:
        return Refusal(f"`{name}` is computed inside the kernel, so the launch cannot depend on it")
    return None


def workload_meaning(body: KernelBody, name: str, seen: frozenset[str]) -> Expression | Refusal | None:
    """As above, and macros written out too: the workload language knows arguments and numbers only."""
    if name in seen or name in LAUNCH_NAMES:
        return None
    known = kernel_meaning(body, name, seen)
    if known is None and name not in body.parameter_names:
        text = body.macros.get(name) or _constant_text(body.unit, name)
        if text is None:
            return Refusal(f"`{name}` is not known where the kernel is launched")
        known = read(text)
    if known is None or isinstance(known, Refusal):
        return known
    replaced = substitute_plan(LaunchPlan(shared=known), lambda inner: workload_meaning(body, inner, seen | {name}))
    return replaced if isinstance(replaced, Refusal) else replaced.shared


def _constant_text(unit: TranslationUnit, name: str) -> str | None:
    """The value of a ``const`` or ``constexpr`` variable at file scope, as text."""
    for declaration in unit.tree.root_node.named_children:
        for variable in declared_variables(declaration):
            if variable.name == name and variable.value is not None and "const" in variable.type:
                return text_of(variable.value)
    return None


def extent(body: KernelBody, limit: str | None, axis: str) -> str:
    """How many points a launch has along an axis, as text: the guard's limit if a launch can compute it.

    Else the threads that there are now: at least as many, and the guard keeps out those beyond it.
    """
    if limit is not None:
        parsed = read(limit)
        if not isinstance(parsed, Refusal):
            known = substitute_plan(LaunchPlan(shared=parsed), lambda name: workload_meaning(body, name, frozenset()))
            if not isinstance(known, Refusal):
                return limit
    return f"grid.{axis} * block.{axis}"
