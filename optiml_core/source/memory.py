"""Computes what is derived from a unit once: a unit never changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from optiml_core.source.translation_unit import TranslationUnit

Result = TypeVar("Result")


def remembered(unit: TranslationUnit, key: Hashable, compute: Callable[[], Result]) -> Result:
    """The result of ``compute`` for this unit and key, computed the first time it is asked for."""
    if key not in unit.memory:
        unit.memory[key] = compute()
    found: Result = unit.memory[key]  # type: ignore[assignment]
    return found
