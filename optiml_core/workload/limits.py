"""What every launch must keep to."""

from __future__ import annotations

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MAXIMUM_GRID = (2**31 - 1, 65535, 65535)
MAXIMUM_BLOCK = (1024, 1024, 64)
MAXIMUM_THREADS = 1024
MAXIMUM_SHARED = 227 * 1024
