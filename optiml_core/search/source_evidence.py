"""Rules of the judge that read the sources: what a variant's text adds that its original did not have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from optiml_core.source.digest import without_comments

_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_STATE = re.compile(
    r"\b(?:__device__|__managed__|static)\b[^;{}()]*?(?P<name>[A-Za-z_]\w*)\s*(?:\[[^;]*?\]\s*)*(?:=|;)"
)

# What hides work from the clock, holds results in a cache, or reads the clock itself (trust.md items 7 to 10).
SUSPECT_WORDS = {
    "cudaStreamCreate": "a stream of its own",
    "cudaStreamCreateWithFlags": "a stream of its own",
    "cudaLaunchHostFunc": "host code that runs beside the kernel",
    "accessPolicyWindow": "data pinned in L2",
    "cudaAccessPolicyWindow": "data pinned in L2",
    "cudaLimitPersistingL2CacheSize": "data pinned in L2",
    "cudaGraphLaunch": "a graph that the original does not use",
    "globaltimer": "a read of the clock",
    "clock64": "a read of the clock",
    "clock": "a read of the clock",
    "asm": "inline assembly",
    "__asm__": "inline assembly",
    "__trap": "a trap",
    "__nanosleep": "a sleep",
    "getenv": "a look at its surroundings",
    "cudaMemcpyToSymbol": "device memory that outlives a launch",
}
NARROW_WORDS = frozenset(
    {"half", "__half", "half2", "__half2", "__nv_bfloat16", "__nv_bfloat162", "wmma", "__nv_fp8_e4m3", "nvcuda"}
)
APPROXIMATE_WORDS = frozenset(
    {
        *("__expf", "__logf", "__log2f", "__log10f", "__sinf", "__cosf", "__tanf", "__powf", "__fdividef"),
        *("__frcp_rn", "__frsqrt_rn", "__saturatef", "__exp10f", "__tanhf"),
    }
)


def words(source: str) -> frozenset[str]:
    return frozenset(_WORD.findall(without_comments(source)))


def added_words(original: str, variant: str, of: Iterable[str]) -> list[str]:
    """Which of the words ``of`` the variant uses and the original does not."""
    before, after = words(original), words(variant)
    return sorted(word for word in of if word in after and word not in before)


def lasting_state(source: str) -> frozenset[str]:
    """Names of variables that outlive a launch: ``__device__``, ``__managed__`` and ``static`` ones."""
    found = set()
    for match in _STATE.finditer(without_comments(source)):
        # Shared memory dies with its block and constants cannot be written by a kernel.
        if not re.search(r"__shared__|__constant__|\bconst\b|\bconstexpr\b", match[0]):
            found.add(match["name"])
    return frozenset(found)


def added_numbers(original: str, variant: str) -> frozenset[int]:
    """Whole numbers that the variant writes out and the original does not."""
    before = set(_NUMBER.findall(without_comments(original)))
    return frozenset(int(text) for text in _NUMBER.findall(without_comments(variant)) if text not in before)
