"""What each buffer is to a kernel, found by running the original: input, output, in place, untouched.

``const`` says too little (half of all kernels with pointers mark none), so the original runs twice with different
poison in whatever is declared as an output. What it changes it writes; what differs between the two runs it also
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np
from attrs import evolve, frozen

from optiml_core.device.protocol import Contents, RunResult
from optiml_core.records import BufferArgument, BufferContent, Failure, Launch
from optiml_core.verification.buffers import POISON_PATTERNS, bits_differ, poisoned, scalar_members

Role = Literal["in", "out", "in place", "untouched"]

# Runs the original on the contents, always with the same schedule.
Run = Callable[[Contents], RunResult | Failure]


@frozen
class Roles:
    """The role of every buffer, and the outputs that the original reads before it writes them.

    Buffers of ``read_first`` were declared (or inferred) as plain outputs; poison is no content for them.
    """

    by_name: Mapping[str, Role]
    read_first: tuple[str, ...] = ()


def declared_outputs(launch: Launch) -> tuple[str, ...]:
    """The buffers whose content is poison: outputs by declaration or inference."""
    return tuple(
        argument.name
        for argument in (*launch.arguments, *launch.globals)
        if isinstance(argument, BufferArgument) and argument.content.kind == "poison"
    )


def find_roles(run: Run, launch: Launch, contents: Contents, other: Contents) -> Roles | Failure:
    """Finds the roles from runs on ``contents`` and, for inputs that have no influence, on ``other`` contents.

    Returns the failure of the first run that fails.
    """
    outputs = declared_outputs(launch)
    first = run(poisoned(contents, outputs, POISON_PATTERNS[0]))
    if isinstance(first, Failure):
        return first
    second = run(poisoned(contents, outputs, POISON_PATTERNS[1])) if outputs else first
    if isinstance(second, Failure):
        return second
    written = {
        name
        for pattern, result in zip(POISON_PATTERNS, (first, second), strict=True)
        for name in changed_buffers(poisoned(contents, outputs, pattern), result)
    }
    read_first: list[str] = []
    if outputs and _depends_on_poison(contents, outputs, first, second, written, None):
        # On a GPU the same run may differ from itself; what does is no evidence of reading.
        repeated = run(poisoned(contents, outputs, POISON_PATTERNS[0]))
        if isinstance(repeated, Failure):
            return repeated
        for name in outputs:
            mixed = poisoned(poisoned(contents, outputs, POISON_PATTERNS[0]), [name], POISON_PATTERNS[1])
            alone = run(mixed) if len(outputs) > 1 else second
            if isinstance(alone, Failure):
                return alone
            if _depends_on_poison(contents, [name], first, alone, written, repeated):
                read_first.append(name)
    roles: dict[str, Role] = {}
    for name in contents.buffers:
        if name in written:
            roles[name] = "out" if name in outputs and name not in read_first else "in place"
        else:
            roles[name] = "in"
    silent = [name for name, role in roles.items() if role == "in" and name not in read_first]
    for name in silent:
        changed = evolve(contents, buffers={**contents.buffers, name: other.buffers[name]})
        # The second pattern: NaN in an output that is read would hide every influence.
        result = run(poisoned(changed, outputs, POISON_PATTERNS[1] if outputs else POISON_PATTERNS[0]))
        # A run that fails on other contents was influenced by them.
        if not isinstance(result, Failure) and not _any_difference(second, result, written):
            roles[name] = "untouched"
    return Roles(roles, tuple(read_first))


def changed_buffers(before: Contents, after: RunResult) -> frozenset[str]:
    """The buffers in which a run changed any bit."""
    return frozenset(
        name
        for name, array in before.buffers.items()
        if any(
            bits_differ(old, new).any()
            for (_, old), (_, new) in zip(
                scalar_members(name, array), scalar_members(name, after.buffers[name]), strict=True
            )
        )
    )


def _any_difference(one: RunResult, other: RunResult, names: Iterable[str]) -> bool:
    return any(
        bits_differ(left, right).any()
        for name in names
        for (_, left), (_, right) in zip(
            scalar_members(name, one.buffers[name]), scalar_members(name, other.buffers[name]), strict=True
        )
    )


def _depends_on_poison(
    contents: Contents,
    outputs: Iterable[str],
    one: RunResult,
    other: RunResult,
    written: Iterable[str],
    repeated: RunResult | None,
) -> bool:
    """Whether two runs that differ in the poison of ``outputs`` differ in anything that was written.

    An element that still holds each run's own poison was not written; every other difference is a use of the poison,
    unless ``repeated``, a repetition of ``one``, differs there as well and both are numbers.
    """
    outputs = set(outputs)
    for name in written:
        poisons = [
            poisoned(contents, [name] if name in outputs else [], pattern).buffers[name] for pattern in POISON_PATTERNS
        ]
        again = one if repeated is None else repeated
        for (_, left), (_, right), (_, old_left), (_, old_right), (_, same) in zip(
            scalar_members(name, one.buffers[name]),
            scalar_members(name, other.buffers[name]),
            scalar_members(name, poisons[0]),
            scalar_members(name, poisons[1]),
            scalar_members(name, again.buffers[name]),
            strict=True,
        ):
            still_poison = ~bits_differ(left, old_left) & ~bits_differ(right, old_right)
            with np.errstate(invalid="ignore"):
                noise = bits_differ(left, same) & (left == left) & (right == right)
            if (bits_differ(left, right) & ~still_poison & ~noise).any():
                return True
    return False


def content_for_read_output(argument: BufferArgument) -> BufferContent:
    """A content for a buffer declared as an output that the original reads: small plain values of its type."""
    if argument.element.dtype.startswith(("float", "bfloat")):
        return BufferContent("normal", (0.0, 1.0))
    return BufferContent("uniform", (0, 2 if argument.element.dtype == "bool" else 8))
