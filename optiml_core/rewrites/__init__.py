"""Deterministic rewrites of kernels: each answers bottlenecks with edits, or refuses with a reason."""

from optiml_core.rewrites.catalogue import CATALOGUE, rewrite_named, rewrites_answering
from optiml_core.rewrites.context import Option, OutsideLaunch, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.launch_text import compose

__all__ = [
    "CATALOGUE",
    "Option",
    "OutsideLaunch",
    "Refusal",
    "Rewrite",
    "RewriteContext",
    "Rewritten",
    "compose",
    "rewrite_named",
    "rewrites_answering",
]
