"""Profiles variants of one kernel: sampled counts, machine code and resource usage, kept apart from any search."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Literal

from attrs import evolve, frozen

from optiml_core.device.protocol import Device
from optiml_core.profiling.assemble import ModelInputs, assemble_profile, launch_occupancy, total_blocks
from optiml_core.profiling.disassembly import disassemble
from optiml_core.profiling.live_span import live_spans
from optiml_core.profiling.machine_code.instructions import MachineCode
from optiml_core.profiling.machine_code.ptx import read_ptx
from optiml_core.profiling.machine_code.sass import read_sass
from optiml_core.profiling.sampling import DEFAULT_BUDGET, SampleBudget, SamplingDevice, sample_counts
from optiml_core.profiling.source_loops import loop_trips
from optiml_core.records import Failure, Kernel, Launch, Profile, ResourceUsage, Variant
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.toolchain import CompilePool, GpuFacts, Toolchain, compile_request
from optiml_core.workload import Workload, resolve_launch

Reading = Literal["ptx", "sass"]


@frozen
class CompiledCode:
    """What the compiler says of a variant: resources, and its instructions where they were read."""

    resources: ResourceUsage
    code: MachineCode | None


class Profiler:
    """Profiles variants for one GPU on one device that can sample.

    ``pool`` compiles; without one the profiler makes its own and closes it. ``reading`` says which code is analysed:
    ``"ptx"`` comes with every compilation, ``"sass"`` costs half a second and is what runs. Profiles that are compared
    should be made the same way.
    """

    def __init__(
        self,
        device: Device,
        gpu: GpuFacts,
        toolchain: Toolchain,
        pool: CompilePool | None = None,
        *,
        reading: Reading = "ptx",
        budget: SampleBudget = DEFAULT_BUDGET,
    ) -> None:
        self._device = device
        self._gpu = gpu
        self._toolchain = toolchain
        self._own_pool = CompilePool(toolchain) if pool is None else None
        self._pool = pool if pool is not None else self._own_pool
        self._reading: Reading = reading
        self._budget = budget

    def profile(self, variant: Variant, workload: Workload, index: int = 0, warm: bool = True) -> Profile | Failure:
        """A profile of launch ``index`` of the workload as ``variant`` makes it, with a predicted time.

        ``warm``: the launch finds in L2 what an earlier one left there, as in a loop of launches. A variant that the
        CUDA compiler refuses is a Failure; where no compiler is here, the profile does without it.
        """
        launch = resolve_launch(workload, index, None, variant.launch_change)
        if isinstance(launch, Failure):
            return launch
        if not isinstance(self._device, SamplingDevice):
            return Failure(
                "unsupported",
                f"{self._device.name} does not count accesses",
                cure="profile on the emulator, or with Nsight Compute",
            )
        unit = parse(SourceFile(variant.file, variant.data))
        kernel = unit.kernel(variant.kernel)
        if kernel is None:
            return Failure("bad-input", f"{variant.file} has no kernel {variant.kernel}", variant.file)
        built = self._device.build(variant, launch.template_arguments)
        if isinstance(built, Failure):
            return built
        # Both wait for processes of their own, so they run side by side.
        with ThreadPoolExecutor(max_workers=1) as beside:
            compiling = beside.submit(self.compile, variant, unit, kernel, launch)
            counts = sample_counts(self._device, built, launch, self._budget)
            compiled = compiling.result()
        if isinstance(compiled, Failure):
            return compiled
        if isinstance(counts, Failure):
            return counts
        code = compiled.code if compiled is not None else None
        trips: Mapping[int, float] = loop_trips(code, unit, kernel, launch) if code is not None else {}
        inputs = ModelInputs(
            kernel=variant.kernel, gpu=self._gpu, launch=launch, warm=warm, loop_trips=trips, code=code,
            resources=compiled.resources if compiled is not None else None,
        )  # fmt: skip
        resident = min(float(total_blocks(launch)), float(launch_occupancy(inputs).blocks * self._gpu.multiprocessors))
        inputs = evolve(inputs, spans=live_spans(unit, kernel, launch, resident))
        return assemble_profile(counts, inputs)

    def compile(
        self, variant: Variant, unit: TranslationUnit, kernel: Kernel, launch: Launch
    ) -> CompiledCode | Failure | None:
        """The variant's compiled code; None where there is no compiler, a Failure where the compiler refuses it."""
        if self._pool is None:
            return None
        request = compile_request(
            unit, kernel, self._gpu.architecture, flags=variant.flags, template_arguments=launch.template_arguments
        )
        if isinstance(request, Failure):
            return request
        compiled = self._pool.compile(request)
        if isinstance(compiled, Failure):
            return None if compiled.kind == "missing-tool" else compiled
        code = None
        if self._reading == "ptx" and compiled.ptx:
            code = read_ptx(compiled.ptx, variant.file, compiled.lowered_name)
        if code is None:
            text = disassemble(compiled.cubin, self._toolchain)
            # The disassembler is a tool of its own; without it the resources still help.
            code = None if isinstance(text, Failure) else read_sass(text, variant.file, compiled.lowered_name)
        return CompiledCode(compiled.resources, code)

    def close(self) -> None:
        """Ends the compile processes that the profiler started. Safe to call twice."""
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Profiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def profile_on_device(
    variant: Variant,
    workload: Workload,
    device: Device,
    gpu: GpuFacts,
    toolchain: Toolchain,
    *,
    pool: CompilePool | None = None,
    index: int = 0,
    warm: bool = True,
    reading: Reading = "ptx",
) -> Profile | Failure:
    """One profile; see :meth:`Profiler.profile`. Pass ``pool`` to profile many variants: starting one takes a while."""
    with Profiler(device, gpu, toolchain, pool, reading=reading) as profiler:
        return profiler.profile(variant, workload, index, warm)


def without_time(profile: Profile) -> Profile:
    """The same counts with no time, for callers that hold a measured one."""
    return evolve(profile, time=None, time_kind=None)
