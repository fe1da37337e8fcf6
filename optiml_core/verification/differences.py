"""Differences between two runs of one variant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optiml_core.device.protocol import Array
from optiml_core.verification.buffers import bits_differ, scalar_members
from optiml_core.verification.references import Reference


def first_difference(reference: Reference, one: Mapping[str, Array], other: Mapping[str, Array]) -> str | None:
    """The first element that the original writes and that differs in a bit between two runs, in words, or None.

    NaN equals NaN whatever its payload: which of two NaN operands survives is not defined.
    """
    kept = {member.name: member.kept for member in reference.members}
    for name in one:
        for (member, left), (_, right) in zip(
            scalar_members(name, one[name]), scalar_members(name, other[name]), strict=True
        ):
            different = bits_differ(left, right) & ~kept[member]
            if not different.any():
                continue
            with np.errstate(invalid="ignore"):
                different &= ~((left != left) & (right != right))
            if different.any():
                index = int(np.argmax(different))
                return f"{member}[{index}] is {left[index]} or {right[index]}"
    return None
