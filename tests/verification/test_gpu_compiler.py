"""The CUDA compiler has the last word on what the emulator's compiler lets through."""

from __future__ import annotations

import pytest

from optiml_core.device.cuda.device import CompiledForGpu
from optiml_core.records import Failure, Launch, ResourceUsage, Variant
from optiml_core.verification import Verifier
from optiml_core.verification.checks.gpu_compiler import GpuCompiler, architecture, launch_problem
from tests.verification.scripted_device import ScriptedDevice
from tests.verification.test_verdict import TEXT, right, variant, workload_of


def compiled(registers: int = 32, ptx: str = "") -> CompiledForGpu:
    return CompiledForGpu(b"", "f", {}, ResourceUsage(registers, 0, 0, 0, 0), "", ptx)


def compiler(original: CompiledForGpu | Failure, candidate: CompiledForGpu | Failure) -> GpuCompiler:
    def compile_for_gpu(one: Variant, template_arguments: tuple[str, ...], target: str) -> CompiledForGpu | Failure:
        return candidate if b"candidate" in one.data else original

    return compile_for_gpu


BROKEN = Failure("compile-error", "a variable-length array", line=3)


@pytest.mark.parametrize(
    ("original", "candidate", "equivalent"),
    [
        (compiled(), compiled(), True),
        (compiled(), BROKEN, False),
        (BROKEN, BROKEN, True),  # nothing can be told: said, and not held against it
        (BROKEN, compiled(), True),
        (compiled(), Failure("timeout", "too long"), None),
        (compiled(), compiled(ptx=".visible .entry f(\n.maxntid 32, 1, 1\n"), False),
        (compiled(), compiled(ptx=".maxntid 64, 1, 1"), True),
        (compiled(ptx=".maxntid 32, 1, 1"), compiled(ptx=".maxntid 32, 1, 1"), True),
    ],
)
def test_a_candidate_compiles_where_the_original_does(
    original: CompiledForGpu | Failure, candidate: CompiledForGpu | Failure, equivalent: bool | None
) -> None:
    device = ScriptedDevice({"original": right, "candidate": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    verifier = Verifier(variant("original"), workload, device, gpu_compiler=compiler(original, candidate))
    verdict = verifier.verify(variant("candidate"))
    assert verdict.equivalent is equivalent
    said = any("the original itself does not" in line for line in verdict.not_checked)
    both_fail = isinstance(original, Failure) and isinstance(candidate, Failure)
    assert said == (both_fail or ".maxntid 32" in str(original))


def test_without_a_compiler_it_is_said() -> None:
    device = ScriptedDevice({"original": right, "candidate": right})
    workload = workload_of(TEXT.replace("WORD", "original"), "f")
    verdict = Verifier(variant("original"), workload, device).verify(variant("candidate"))
    assert "compiling with the CUDA compiler" in verdict.not_checked


@pytest.mark.parametrize(
    ("registers", "threads", "fits"),
    [(32, 1024, True), (64, 1024, True), (65, 1024, False), (255, 256, True), (255, 288, False), (128, 512, True)],
)
def test_registers_of_a_block(registers: int, threads: int, fits: bool) -> None:
    """CUDA C++ Programming Guide, "Hardware Multithreading": 65536 a multiprocessor, 256 at a time to a warp."""
    assert (launch_problem(compiled(registers), Launch((1, 1, 1), (threads, 1, 1), 0, ())) is None) == fits


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), "sm_90"), (("-arch=sm_80",), "sm_80"), (("-gencode", "arch=compute_75,code=sm_75"), "sm_75")],
)
def test_the_architecture_is_the_projects(flags: tuple[str, ...], expected: str) -> None:
    assert architecture(flags) == expected
