"""``--allow``: the freedoms a user can grant, by name."""

from __future__ import annotations

FREEDOMS: dict[str, str] = {
    "fast-math": "approximate intrinsics that the original does not use",
    "tf32": "the tensor cores' 19-bit float format for float32 products",
    "narrower": "arithmetic in a narrower type than the original's",
    "no-alias": "no two pointer arguments overlap, in every caller",
    "launch": "other programs that launch the kernel will be changed to the new launch by hand",
    "aligned": "pointer arguments are aligned for vector access, in every caller",
    "nan": "NaN and infinities need not come out in place and kind",
    "nondeterminism": "results may differ from run to run within the error budget",
}


class UnknownFreedom(ValueError):
    """A name that is not in ``FREEDOMS``."""


def parse_allow(text: str) -> frozenset[str]:
    """The names in a comma-separated list. Raises UnknownFreedom naming the choices."""
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(names - FREEDOMS.keys())
    if unknown:
        raise UnknownFreedom(f"--allow does not know {', '.join(unknown)}; it knows {', '.join(FREEDOMS)}")
    return names
