"""A compile request as NVRTC gets it: one text, headers in memory, options."""

from __future__ import annotations

import os
import re

from attrs import frozen

from optiml_core.toolchain.compile_records import CompileRequest
from optiml_core.toolchain.discovery import Toolchain
from optiml_core.toolchain.slice_includes import HEADERS_FOLDER

PROGRAM_NAME = "optiml_program.cu"
# Headers that take NVRTC longer to read than a precompiled copy of 100 MB takes to load (measured:
# benchmarks/results/toolchain.md).
_HEAVY = re.compile(
    r"cooperative_groups.*|cub/.*|thrust/.*|cuda/.*|mma\.h|cuda_pipeline.*|curand_kernel\.h|cuda_fp8\.h|cuda_awbarrier.*"
)


@frozen
class NvrtcProgram:
    """``prelude`` comes first in ``source`` and is the same for all variants of a kernel: it can be precompiled.

    ``messages``: the names that the compiler will print for our own files -> their paths.
    """

    source: str
    prelude: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    expression: str
    messages: dict[str, str]

    @property
    def is_heavy(self) -> bool:
        """Whether precompiling the prelude pays."""
        return any(_HEAVY.fullmatch(name) for name in re.findall(r"#include <([^>]+)>", self.prelude))


def nvrtc_program(request: CompileRequest, toolchain: Toolchain) -> NvrtcProgram:
    """Puts NVIDIA's and our own headers before the slice and translates flags into NVRTC's options."""
    cut = request.slice
    # NVIDIA's first: they define some limits unconditionally, ours only where they are missing.
    names = [*cut.cuda_headers, "implied.h", *cut.standard_headers]
    prelude = "".join(f"#include <{name}>\n" for name in names)
    messages = {printed_path(path): path for path in (cut.path, *(header.path for header in cut.headers))}
    source = f'{prelude}#line 1 "{quoted_path(cut.path)}"\n{cut.text}\n'
    headers = tuple((header.name, f'#line 1 "{quoted_path(header.path)}"\n{header.text}\n') for header in cut.headers)
    options = [
        f"-arch={request.architecture}",
        "-lineinfo",
        "--ptxas-options=-v",
        # nvcc takes functions without qualifiers that a constant expression needs; NVRTC only with this.
        "-default-device",
        "-device-int128",
        f"-I{HEADERS_FOLDER}",
    ]
    if cut.cuda_headers:
        options += [f"-I{folder}" for folder in toolchain.include_folders]
    standard = "-std=c++17"
    for flag in request.flags:
        if flag.startswith("-std="):
            standard = flag.replace("gnu", "c")
        elif flag.startswith(
            ("-D", "-U", "-maxrregcount=", "-use_fast_math", "-ftz=", "-prec-div=", "-prec-sqrt=", "-fmad=")
        ):
            options.append(flag)
        # The project's folders are not the compiler's business: its headers are in memory, cut. -O means host code, and
        # the --expt flags allow what NVRTC allows anyway.
    return NvrtcProgram(source, prelude, headers, (*options, standard), request.name_expression, messages)


def quoted_path(path: str) -> str:
    """A path as it stands in a ``#line`` directive."""
    return printed_path(path).replace("\\", "\\\\").replace('"', '\\"')


def printed_path(path: str) -> str:
    """A path as a compiler prints it after a ``#line`` directive with ``quoted_path``.

    Absolute, since a compiler puts its own folder before a relative one in the line table of the machine code.
    """
    return re.sub(r"[\x00-\x1f\x7f]", "?", os.path.abspath(path))
