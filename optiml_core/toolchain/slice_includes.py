"""What an ``#include`` of a device slice means: ours, NVIDIA's, the project's, or not needed.

Only regular files with the names of headers, in the file's own project or in a folder that a compile flag names, are
ever opened. NVIDIA's headers are named here and opened by the compiler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen

from optiml_core.records import Failure
from optiml_core.source import SourceFile

IncludeKind = Literal["standard", "cuda", "implied", "project", "dropped", "refused"]

HEADERS_FOLDER = Path(__file__).parent / "headers"
"""Our own small stand-ins for the standard headers that device code uses."""


@frozen
class ResolvedInclude:
    """One ``#include``: ``name`` as written; ``file`` for a project's header; ``name`` of ours for a standard one."""

    kind: IncludeKind
    name: str
    file: SourceFile | None = None
    reason: str = ""


# C names -> the C++ name that our folder has.
STANDARD_HEADERS: Mapping[str, str] = {
    "algorithm": "algorithm",
    "array": "array",
    "assert.h": "cassert",
    "cassert": "cassert",
    "cfloat": "cfloat",
    "climits": "climits",
    "cmath": "cmath",
    "cstddef": "cstddef",
    "cstdint": "cstdint",
    "cstdio": "cstdio",
    "cstdlib": "cstdlib",
    "cstring": "cstring",
    "float.h": "cfloat",
    "functional": "functional",
    "inttypes.h": "cstdint",
    "cinttypes": "cstdint",
    "initializer_list": "initializer_list",
    "limits": "limits",
    "limits.h": "climits",
    "math.h": "cmath",
    "numeric": "algorithm",
    "stddef.h": "cstddef",
    "stdint.h": "cstdint",
    "stdio.h": "cstdio",
    "stdlib.h": "cstdlib",
    "string.h": "cstring",
    "tuple": "tuple",
    "type_traits": "type_traits",
    "utility": "utility",
}

# NVIDIA's headers that declare device code, and the words that show they are used: a header that is included and not
# used costs up to a second of every compilation. No words: always kept.
_HALF = r".*[hH]alf.*|.*HALF.*|__h[a-z].*|h(?:add|mul|fma|sub|exp|log|rcp|sqrt|max|min).*"
_CUDA_HEADERS: tuple[tuple[str, str], ...] = (
    (r"cuda_fp16\.(?:h|hpp)", _HALF),
    (r"cuda_bf16\.(?:h|hpp)", r".*(?:bf16|bfloat16|BF16).*"),
    (r"cuda_fp8\.(?:h|hpp)", r".*(?:fp8|FP8|__NV_E|e4m3|e5m2).*"),
    (r"cuda_fp6\.(?:h|hpp)", r".*(?:fp6|FP6).*"),
    (r"cuda_fp4\.(?:h|hpp)", r".*(?:fp4|FP4).*"),
    (r"mma\.h", r"wmma|nvcuda"),
    (
        r"cooperative_groups(?:\.h|/\w+\.h)",
        r"cooperative_groups|this_(?:thread_block|grid|cluster|multi_grid)|tiled_partition|coalesced_threads"
        r"|thread_block_tile|grid_group|thread_group|cluster_group|labeled_partition|binary_partition",
    ),
    (r"cuda_pipeline(?:_primitives|_helpers)?\.h", r"__pipeline.*|pipeline.*"),
    (r"cuda_awbarrier(?:_primitives|_helpers)?\.h", r".*awbarrier.*"),
    (r"cuComplex\.h", r"cu\w*[Cc]omplex|cuC\w+|make_cu\w+"),
    (r"math_constants\.h", r"CUDART_.*"),
    (r"curand_kernel\.h", r"curand.*"),
    (r"cub/.*", r"cub|CUB_\w*"),
    (r"thrust/.*", r"thrust"),
    (r"cuda/.*", r"cuda"),
    (r"nv/target", r"NV_\w+"),
    (r"cudaTypedefs\.h|cuda\.h", r"CUtensorMap\w*"),
    (r"cutlass/.*|cute/.*", r"cutlass|cute|CUTE\w*"),
)
# What NVRTC and the emulator have built in.
_IMPLIED = re.compile(
    r"cuda_runtime(?:_api)?\.h|cuda\.h|device_launch_parameters\.h|device_functions\.h|device_atomic_functions\.h"
    r"|vector_types\.h|vector_functions\.h(?:pp)?|math_functions\.h|host_defines\.h|builtin_types\.h|driver_types\.h"
    r"|sm_\d\d_\w+\.h(?:pp)?|crt/\w+\.h(?:pp)?|cuda_device_runtime_api\.h|texture_types\.h|surface_types\.h"
    r"|cuda_texture_types\.h|texture_fetch_functions\.h|texture_indirect_functions\.h|surface_functions\.h"
    r"|surface_indirect_functions\.h|common_functions\.h|channel_descriptor\.h|device_types\.h|library_types\.h"
)
# A standard header of the host's (<vector>, <chrono>) brings these along, and code relies on it.
BROUGHT_ALONG = ("cstdint", "limits", "algorithm")
_HEADER_NAMES = frozenset(
    {
        *(".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc", ".tpp", ".ipp", ".impl", ".def", ""),
        *(".cu", ".c", ".cc", ".cpp", ".cxx"),  # Some programs include their other half.
    }
)
_LARGEST_HEADER = 4 << 20


def include_of(text: str) -> tuple[str, bool] | None:
    """``<name>`` or ``"name"`` of a directive's text -> (name, quoted). None for a computed include."""
    found = re.fullmatch(r'\s*(?:<([^>\n]+)>|"([^"\n]+)")\s*', text)
    if found is None:
        return None
    return (found[1] or found[2]).strip(), found[2] is not None


# Headers of NVIDIA's libraries that include the 16-bit types: code relies on it, and here the library may be absent.
_WITH_SMALL_FLOATS = re.compile(r"(?:cublas|cudnn|cusparse|cusolver|cufft|cutensor|nccl)\w*\.h|ATen/.*|torch/.*|c10/.*")


def brought_by_libraries(dropped: tuple[str, ...]) -> tuple[str, ...]:
    """The headers of the toolkit that absent library headers would have brought along."""
    if any(_WITH_SMALL_FLOATS.fullmatch(name) for name in dropped):
        return ("cuda_fp16.h", "cuda_bf16.h")
    return ()


def cuda_header_words(name: str) -> re.Pattern[str] | None:
    """The words that show that one of NVIDIA's device headers is used; None if it is not one of them."""
    for pattern, words in _CUDA_HEADERS:
        if re.fullmatch(pattern, name):
            return re.compile(words)
    return None


def resolve(
    name: str, quoted: bool, includer: str, include_folders: Iterable[str], project: Path | None
) -> ResolvedInclude:
    """What including ``name`` from the file ``includer`` means.

    ``include_folders``: the -I and -isystem folders of the compile flags, in order. ``project``: the folder that
    quoted includes may not leave (None: ``project_root`` of the includer's folder).
    """
    if name.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", name) or any(ord(c) < 32 for c in name):
        return ResolvedInclude("refused", name, reason=f"an include of the absolute path {name!r} is refused")
    if not quoted and name in STANDARD_HEADERS:
        return ResolvedInclude("standard", STANDARD_HEADERS[name])
    own = Path(includer).parent
    found: SourceFile | Failure | None = None
    if quoted:
        found = _read_within(own / name, project or project_root(own))
    for folder in include_folders:
        if found is None:
            found = _read_within(Path(folder) / name, None)
    if isinstance(found, SourceFile):
        return ResolvedInclude("project", name, found)
    if isinstance(found, Failure):
        return ResolvedInclude("refused", name, reason=found.message)
    if name in STANDARD_HEADERS:
        return ResolvedInclude("standard", STANDARD_HEADERS[name])
    if cuda_header_words(name) is not None:
        return ResolvedInclude("cuda", name)
    if _IMPLIED.fullmatch(name):
        return ResolvedInclude("implied", name)
    return ResolvedInclude("dropped", name)


def project_root(folder: Path) -> Path:
    """The root of the repository around a folder, else the folder three above (``../../common/x.h`` is usual)."""
    folder = folder.absolute()
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return [folder, *folder.parents][:4][-1]


def _read_within(path: Path, root: Path | None) -> SourceFile | Failure | None:
    """Reads a project's header. None: not there. Failure: there, and not to be opened."""
    try:
        real = Path(os.path.realpath(path))
        if not real.exists():
            return None
    except (OSError, ValueError):
        return None
    if root is not None and not real.is_relative_to(os.path.realpath(root)):
        return Failure("refused", f"an include of {path}, outside the project {root}, is refused")
    if real.suffix.lower() not in _HEADER_NAMES:
        return Failure("refused", f"an include of {path}, which is not named like a header, is refused")
    if real.is_dir():
        return None
    read = SourceFile.read(real)
    if isinstance(read, SourceFile) and len(read.data) > _LARGEST_HEADER:
        return Failure("refused", f"an include of {path}, which is larger than {_LARGEST_HEADER} bytes, is refused")
    return read
