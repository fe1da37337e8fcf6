"""The workload of one kernel: what `find_workload` gives and everything else in this room takes."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from optiml_core.records import ElementType, Failure, Kernel, Origin, Problem
from optiml_core.workload.items import Item, Scalar, TypeArgument, write_items


@frozen
class Workload:
    """A kernel with one or more launches and the contents of their arguments.

    ``items``: the base launch. ``launches``: for every launch the items that override the base, the first
    one empty. ``sizes``: the names that verification varies as sizes; ``fixed``: names that it must leave
    alone (compiled into the kernel, or part of the block's shape). ``elements``: the element type of each
    parameter and global whose type the source alone did not tell. ``failures``: why it cannot be launched,
    empty for a whole workload. ``problems``: what a user should look at, guesses above all.
    ``text``: canonical declaration lines that parse back to the same items.
    """

    kernel: Kernel
    template_arguments: tuple[str, ...]
    items: tuple[Item, ...]
    launches: tuple[tuple[Item, ...], ...]
    origin: Origin
    text: str
    problems: tuple[Problem, ...] = ()
    failures: tuple[Failure, ...] = ()
    sizes: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    elements: Mapping[str, ElementType] = field(factory=dict)
    globals: tuple[str, ...] = ()

    @property
    def launch_count(self) -> int:
        return len(self.launches)

    def items_of_launch(self, index: int) -> tuple[Item, ...]:
        """The base items with those of launch ``index`` in their place."""
        from optiml_core.workload.items import replaced

        return replaced(self.items, self.launches[index])


def text_of(items: tuple[Item, ...], launches: tuple[tuple[Item, ...], ...]) -> str:
    """Canonical declaration lines: scalars, buffers, shapes and requirements in this order, then the launches."""
    scalars = [item for item in items if isinstance(item, (Scalar, TypeArgument))]
    others = [item for item in items if not isinstance(item, (Scalar, TypeArgument))]
    lines = write_items(scalars) + write_items(others)
    for launch in launches[1:]:
        # One line is one launch, however long.
        lines += write_items(launch, "// optiml launch: ", width=100_000)
    return "\n".join(lines)


def with_instantiation(workload: Workload, template_arguments: tuple[str, ...]) -> Workload:
    """The same workload for another instantiation of its kernel template."""
    names = [parameter.name for parameter in workload.kernel.template_parameters]
    given = dict(zip(names, template_arguments, strict=False))
    kept = tuple(item for item in workload.items if not (isinstance(item, TypeArgument) and item.name in given))
    return evolve(workload, template_arguments=template_arguments, items=kept)
