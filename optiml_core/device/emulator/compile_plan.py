"""What to compile, with which flags: the shim that a kernel is compiled against and the runtime.

Used by the build of candidates and of the worker. Paths only; nothing is run here.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent

SHIM_DIRECTORY = _HERE / "shim"
"""Folder of the headers a kernel is compiled against (``-I``)."""

SHIM_HEADER = SHIM_DIRECTORY / "optiml_device.h"
"""Included ahead of every kernel (``-include``); precompile it with exactly COMPILE_FLAGS + INSTRUMENT_FLAGS."""

RUNTIME_DIRECTORY = _HERE / "runtime"
RUNTIME_SOURCE = RUNTIME_DIRECTORY / "runtime.cpp"
"""One translation unit; it includes the other files of RUNTIME_DIRECTORY and ``shim/atomic_list.inc``."""

RUNTIME_FLAGS: tuple[str, ...] = (
    "-std=c++17",
    "-O2",
    "-fno-omit-frame-pointer",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
)
"""The runtime is compiled without instrumentation. Link the worker with ``-rdynamic``."""

COMPILE_FLAGS: tuple[str, ...] = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-w",
    # Distributions build these in (Ubuntu: both): calls that device code does not make and the worker does not offer.
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-U_GLIBCXX_ASSERTIONS",
    # A float4 local stays whole: one 16-byte load is one access, not four.
    "-fno-tree-sra",
    "-fno-ipa-sra",
    # A sum kept in memory may move to a register over a loop, as nvcc does it.
    "-fallow-store-data-races",
    # Statics of templates are not shared between modules of one process.
    "-fno-gnu-unique",
    # Code stays in source order: the scheduler lets the lowest address go first.
    "-fno-reorder-blocks",
    "-fno-omit-frame-pointer",
    "-fno-strict-aliasing",
    "-fwrapv",
    # Multiply-add is fused only where the source says so.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-threadsafe-statics",
    "-ftrivial-auto-var-init=pattern",
)

INSTRUMENT_FLAGS: tuple[str, ...] = (
    "-fsanitize=thread",
    "--param",
    "tsan-instrument-func-entry-exit=0",
    "--param",
    "tsan-distinguish-volatile=1",
    # Local arrays are not behind access hooks: their indexes are checked instead.
    # Out of range, a cast from floating point or a shift gives other results than on a GPU.
    "-fsanitize=bounds,float-cast-overflow,shift-exponent",
)

LINK_FLAGS: tuple[str, ...] = (
    "-shared",
    "-nostdlib",
    "-Wl,-Bsymbolic",
    "-Wl,-z,now",
    "-Wl,--hash-style=gnu",
    "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset,--wrap=memcmp",
)
"""A candidate's shared object; its undefined symbols resolve in the worker and its libm."""

ENTRY_SYMBOL = "optiml_entry"
"""``extern "C" void optiml_entry(void** arguments)`` of every candidate: calls the kernel."""

_FAST = ("exp", "log", "log2", "log10", "sin", "cos", "tan", "pow")
FAST_MATH_DEFINITIONS = "".join(
    [
        "#define __USE_FAST_MATH__ 1\n",
        *(f"#define {name}f optiml_fast_{name}f\n" for name in (*_FAST, "exp10", "sincos")),
        *(f"#define {name} optiml_fastmath_{name}\n" for name in _FAST),
    ]
)
"""What ``-use_fast_math`` makes of the functions of one float (CUDA C++ Programming Guide, "Intrinsic Functions").

Division, square roots and denormals stay exact: that part of the flag is not modelled.
"""
