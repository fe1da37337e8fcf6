"""Machine code as text, by NVIDIA's disassembler in a limited process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from optiml_core.records import Failure
from optiml_core.toolchain import Toolchain
from optiml_core.toolchain.limited_process import ProcessLimits, run_limited

# The disassembler takes 0.4 s, whatever the size; its text is about 100 bytes an instruction.
_LIMITS = ProcessLimits(cpu_seconds=20, seconds=30, memory=2 << 30, output=64 << 20, file_size=1 << 20)


def disassemble(cubin: bytes, toolchain: Toolchain) -> str | Failure:
    """The text of ``nvdisasm -c -gi`` for a compiled kernel: instructions with lines and inlining chains.

    Failure ``missing-tool``, ``timeout`` or ``crash``.
    """
    tool = toolchain.tool("nvdisasm")
    if tool.path is None:
        return Failure("missing-tool", tool.reason, cure=tool.cure)
    with tempfile.TemporaryDirectory(prefix="optiml-sass-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        result = run_limited([tool.path, "-c", "-gi", str(path)], folder, execute=[tool.path], limits=_LIMITS)
    if isinstance(result, Failure):
        return result
    if result.status != 0:
        return Failure("crash", f"nvdisasm ended with status {result.status}: {result.output[:200].strip()}")
    return result.output
