"""Opens the devices a search or a verification runs on, by name."""

from __future__ import annotations

from pathlib import Path

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.cuda.device import CompiledForGpu, CompileForGpu
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Device
from optiml_core.device.recorded import RecordedDevice, read_record
from optiml_core.records import Failure, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.store import Store
from optiml_core.toolchain import CompilePool, Toolchain, compile_request


def open_device(name: str, toolchain: Toolchain, store: Store | None = None) -> Device | Failure:
    """``emulator``, ``cuda:N`` or ``recorded:FOLDER``. A device that is not there is a Failure that says what would
    bring it."""
    if name == "emulator":
        return EmulatorDevice()
    if name.startswith("recorded:"):
        record = read_record(Path(name.removeprefix("recorded:")))
        return record if isinstance(record, Failure) else RecordedDevice(record, EmulatorDevice())
    if name.startswith("cuda:") and name[5:].isdigit():
        device = CudaDevice(int(name[5:]), compiler_for_gpu(CompilePool(toolchain, 1, store)))
        state = device.state()
        if isinstance(state, Failure):
            device.close()
            return state
        return device
    return Failure("bad-input", f"unknown device {name!r}", cure="use auto, emulator or cuda:N")


def compiler_for_gpu(pool: CompilePool) -> CompileForGpu:
    """Compiles a variant's kernel to a cubin through the limited compile pool."""

    def compile_for_gpu(
        variant: Variant, template_arguments: tuple[str, ...], architecture: str
    ) -> CompiledForGpu | Failure:
        unit = parse(SourceFile(variant.file, variant.data))
        kernel = unit.kernel(variant.kernel)
        if kernel is None:
            return Failure("bad-input", f"{variant.file} has no kernel {variant.kernel}", variant.file)
        request = compile_request(
            unit, kernel, architecture, flags=variant.flags, template_arguments=template_arguments
        )
        if isinstance(request, Failure):
            return request
        compiled = pool.compile(request)
        if isinstance(compiled, Failure):
            return compiled
        # A variable of the global namespace keeps its name in the object; a static one is mangled.
        symbols = {
            variable.name: f"_ZL{len(variable.name)}{variable.name}"
            for variable in unit.globals
            if variable.space == "constant" and "static" in variable.type.split()
        }
        return CompiledForGpu(
            compiled.cubin, compiled.lowered_name, symbols, compiled.resources, compiled.log, compiled.ptx
        )

    return compile_for_gpu
