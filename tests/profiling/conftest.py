"""One emulator and one compile pool for the room's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from attrs import frozen

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.profiling import Profiler, find_findings
from optiml_core.profiling.profiler import Reading
from optiml_core.records import Failure, Finding, Kernel, Launch, Profile, Variant
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.toolchain import CompilePool, GpuFacts, Toolchain, discover, gpu_facts
from optiml_core.workload import find_workload, resolve_launch


@frozen
class Profiled:
    """A profiled kernel with everything that looking at it needs."""

    profile: Profile
    unit: TranslationUnit
    kernel: Kernel
    launch: Launch
    findings: tuple[Finding, ...]

    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}

    def text_of(self, finding: Finding) -> str:
        return self.unit.source.data[finding.range.start_byte : finding.range.end_byte].decode()


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return discover()


@pytest.fixture(scope="session")
def has_compiler(toolchain: Toolchain) -> bool:
    return toolchain.path("nvrtc") is not None


@pytest.fixture(scope="session")
def gpu() -> GpuFacts:
    facts = gpu_facts("H200")
    assert not isinstance(facts, Failure)
    return facts


@pytest.fixture(scope="session")
def emulator() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as device:
        yield device


@pytest.fixture(scope="session")
def pool(toolchain: Toolchain) -> Iterator[CompilePool]:
    with CompilePool(toolchain, 2) as compilers:
        yield compilers


ProfileText = Callable[..., Profiled]


@pytest.fixture(scope="session")
def profiled(emulator: EmulatorDevice, gpu: GpuFacts, toolchain: Toolchain, pool: CompilePool) -> ProfileText:
    """Profiles the last kernel of a text that declares its workload."""

    def run(text: str, reading: Reading = "ptx", warm: bool = True) -> Profiled:
        data = text.encode()
        unit = parse(SourceFile("kernel.cu", data))
        kernel = unit.kernels[-1]
        workload = find_workload(unit, kernel)
        launch = resolve_launch(workload)
        assert not isinstance(launch, Failure), launch
        with Profiler(emulator, gpu, toolchain, pool, reading=reading) as profiler:
            profile = profiler.profile(Variant("kernel.cu", data, kernel.qualified), workload, warm=warm)
        assert isinstance(profile, Profile), profile
        return Profiled(profile, unit, kernel, launch, find_findings(profile, unit, kernel, launch))

    return run
