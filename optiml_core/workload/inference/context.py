"""The state of one inference: the program, the calls that lead to a place, and the roots found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from optiml_core.workload.inference.program import Function, Program
from optiml_core.workload.inference.syntax import (
    Fragment,
)
from optiml_core.workload.inference.values import Quantity, Root, RootKind, of_root

MOST_STEPS = 20_000
DEEPEST = 60


@frozen(eq=False)
class Bound:
    """An argument as the caller wrote it, to be evaluated where the caller stands."""

    fragment: Fragment
    frame: Frame | None
    position: int


@frozen(eq=False)
class Frame:
    """One call of a host function."""

    function: Function
    arguments: Mapping[str, Bound]
    template_arguments: Mapping[str, Bound]
    depth: int = 0


@frozen(eq=False)
class Context:
    """One inference: the program, the roots found so far, and the budget of steps."""

    program: Program
    guessed_size: int = 1024
    arguments: tuple[str, ...] = ()  # that the program is run with
    distrusted: frozenset[str] = frozenset()  # keys of roots whose value no launch can have: to be guessed
    roots: dict[str, Root] = field(factory=dict)
    steps: list[int] = field(factory=lambda: [0])
    active: set[tuple[str, int, int]] = field(factory=set)
    frames: dict[int, Frame] = field(factory=dict)
    aliases: Mapping[str, str] = field(factory=dict)  # typedefs and type macros
    structs: Mapping[str, Sequence[tuple[str, Sequence[str]]]] = field(factory=dict)  # members: type, extents
    members: Mapping[str, Sequence[tuple[str, str]]] = field(factory=dict)  # of structs: type, name

    def root(
        self,
        key: str,
        name: str,
        value: float,
        kind: RootKind,
        line: int | None,
        note: str = "",
        file: str | None = None,
    ) -> Quantity:
        """The root of that key, made if it is new."""
        if key not in self.roots:
            self.roots[key] = Root(key, name, value, kind, line, note, file)
        return of_root(self.roots[key])

    def file_of(self, data: bytes) -> str | None:
        """The path of the file whose bytes these are; None for a snippet."""
        return self.program.files.get(id(data))
