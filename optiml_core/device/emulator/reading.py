"""Reads what the runtime found: the arrays of ``runtime/interface.h`` become records.

The dtypes mirror the structs byte for byte (a test compares the sizes).
"""

from __future__ import annotations

import numpy as np

SITE = np.dtype(
    [
        ("pc", "u8"),
        ("kind", "u1"),
        ("space", "u1"),
        ("size", "u1"),
        ("reserved", "u1"),
        ("buffer", "i4"),
        ("requests", "u8"),
        ("lanes", "u8"),
        ("bytes", "u8"),
        ("sectors", "u8"),
        ("ideal_sectors", "u8"),
        ("wavefronts", "u8"),
        ("ideal_wavefronts", "u8"),
        ("max_degree", "u8"),
        ("same_address", "u8"),
        ("lines", "u8"),
        ("distinct_sectors", "u8"),
        ("other_warp", "u8"),
        ("sector_reuse", "u8", (21,)),
        ("request_reuse", "u8", (21,)),
    ]
)

REPORT = np.dtype(
    [
        ("what", "u4"),
        ("count", "u4"),
        ("pc", "u8"),
        ("pc2", "u8"),
        ("address", "u8"),
        ("detail", "i8"),
        ("buffer", "i4"),
        ("size", "u4"),
        ("kind", "u4"),
        ("space", "u4"),
        ("thread", "u4"),
        ("block", "u4"),
        ("thread2", "u4"),
        ("block2", "u4"),
    ]
)

STATISTICS = np.dtype(
    [
        (name, "u8")
        for name in (
            "accesses",
            "warp_steps",
            "divergent_steps",
            "switches",
            "barriers",
            "collectives",
            "local_accesses",
            "threads",
            "blocks",
            "shadow_bytes",
            "output_bytes",
            "output_dropped",
            "longest_warp",
            "longest_in_block",
        )
    ]
)

TRAFFIC = np.dtype(
    [
        ("buffer", "i4"),
        ("space", "u1"),
        ("reserved", "u1", (3,)),
        ("sectors_read", "u8"),
        ("sectors_written", "u8"),
        ("block_sectors_read", "u8"),
        ("block_sectors_written", "u8"),
    ]
)

LOCAL_BUFFER = -2
"""``buffer`` of dynamic shared memory in sites and reports."""

WHAT: tuple[str, ...] = (
    "none",
    "out-of-bounds",
    "race-write-write",
    "race-read-write",
    "divergent-barrier",
    "deadlock",
    "uninitialised-read",
    "misaligned",
    "bad-warp-mask",
    "inactive-shuffle-source",
    "step-limit",
    "race-same-instruction",
    "race-in-warp",
    "missing-wait",
    "assertion",
    "launch-limit",
    "local-index",
    "read-only-write",
    "trap",
    "stack-overflow",
    "undefined-number",
)
"""Name of each ``OptimlWhat``."""
