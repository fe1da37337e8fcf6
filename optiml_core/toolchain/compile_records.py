"""What goes into a compilation and what comes out."""

from __future__ import annotations

from attrs import frozen

from optiml_core.records import Failure, Kernel, ResourceUsage
from optiml_core.source import TranslationUnit
from optiml_core.toolchain.device_slice import DeviceSlice, device_slice
from optiml_core.toolchain.gpu_facts import compile_architecture


@frozen
class CompileLimits:
    """What one compilation may cost: processor and wall-clock time (seconds), address space (bytes)."""

    cpu_seconds: float = 30.0
    seconds: float = 60.0
    memory: int = 4 << 30


@frozen
class CompileRequest:
    """A kernel to compile: the slice, one instantiation, an architecture (``sm_90``), allowed flags."""

    slice: DeviceSlice
    architecture: str
    flags: tuple[str, ...] = ()
    template_arguments: tuple[str, ...] = ()
    limits: CompileLimits = CompileLimits()

    @property
    def name_expression(self) -> str:
        """What names the kernel in C++: ``space::kernel<float, 4>``. Unnamed namespaces are left out, as C++ does."""
        parts = [part for part in self.slice.kernel.split("::") if part and "anonymous" not in part]
        arguments = ", ".join(self.template_arguments)
        return "::".join(parts) + (f"<{arguments}>" if self.template_arguments else "")


@frozen
class CompiledKernel:
    """A kernel as machine code.

    ``cubin``: the object's bytes. ``lowered_name``: the kernel's name in it. ``compiler``: name and version.
    ``seconds``: what the compiler took when it ran. ``log``: its messages about the file's own lines. ``cached``:
    whether it came from the store. ``ptx``: NVRTC's
    code before the last step, at most 1 MiB of it, for analysis; empty from nvcc.
    """

    cubin: bytes
    lowered_name: str
    architecture: str
    resources: ResourceUsage
    compiler: str
    seconds: float
    log: str = ""
    cached: bool = False
    ptx: str = ""


def compile_request(
    unit: TranslationUnit,
    kernel: Kernel,
    architecture: str,
    *,
    flags: tuple[str, ...] = (),
    template_arguments: tuple[str, ...] = (),
    limits: CompileLimits = CompileLimits(),
) -> CompileRequest | Failure:
    """Cuts the slice of a kernel and puts the request together. ``flags`` come from ``allowed_flags``."""
    target = compile_architecture(architecture)
    if isinstance(target, Failure):
        return target
    cut = device_slice(unit, kernel, "nvrtc", template_arguments=template_arguments, flags=flags)
    if isinstance(cut, Failure):
        return cut
    return CompileRequest(cut, target, flags, template_arguments, limits)
