"""The hand-written versions of the suite: judged against the naive kernel like any candidate, then timed."""

from __future__ import annotations

from attrs import frozen

from optiml_core.bench.suite_kernels import SuiteKernel, kernel_file
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Contents, Device, MeasuringDevice
from optiml_core.measurement import predict
from optiml_core.profiling.profiler import Profiler
from optiml_core.records import Failure, LaunchChange, Variant
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import GpuFacts
from optiml_core.verification import Verifier
from optiml_core.workload import Workload, find_workload, make_contents, resolve_launch
from optiml_core.workload.expression import Expression, Name, replace_names, write_expression
from optiml_core.workload.items import Scalar, Shape, SharedMemory

LOOPS = 5
LAUNCHES = 20


@frozen
class ExpertTime:
    """``seconds`` for all its kernels; None with the reason in ``problem``. ``verdict``: equivalent, not equivalent,
    could not tell, or not judged (several kernels)."""

    seconds: float | None
    verdict: str
    problem: str = ""


def expert_time(
    one: SuiteKernel, device: Device, profiler: Profiler | None, gpu: GpuFacts, repetitions: int = LAUNCHES
) -> ExpertTime:
    """Measured where ``device`` has a clock, else predicted for ``gpu`` by ``profiler``. Failures are values."""
    total = 0.0
    for name in one.experts:
        source = SourceFile.read(str(kernel_file(name)))
        if isinstance(source, Failure):
            return ExpertTime(None, "not judged", source.message)
        seconds = _seconds(source, device, profiler, gpu, repetitions)
        if isinstance(seconds, Failure):
            return ExpertTime(None, "not judged", seconds.message)
        total += seconds
    verdict = judged(one) if len(one.experts) == 1 else "not judged: two kernels"
    return ExpertTime(total, verdict)


def judged(one: SuiteKernel) -> str:
    """The emulator's full verdict on the expert as a candidate for the naive kernel: its code under the naive kernel's
    name, with the launch that its comment declares."""
    naive, expert = (SourceFile.read(str(kernel_file(name))) for name in (one.naive, one.experts[0]))
    if isinstance(naive, Failure) or isinstance(expert, Failure):
        return "not judged"
    unit, other = parse(naive), parse(expert)
    original = Variant(naive.path, naive.data, one.naive)
    data = expert.data.replace(one.experts[0].encode(), one.naive.encode())
    workload = find_workload(other, other.kernels[-1])
    candidate = Variant(naive.path, data, one.naive, launch_change=declared_launch(workload))
    with EmulatorDevice() as emulator:
        verdict = Verifier(original, find_workload(unit, unit.kernels[-1]), emulator).verify(candidate)
    if verdict.equivalent is None:
        return f"could not tell: {verdict.reason}"
    return "equivalent" if verdict.equivalent else f"not equivalent: {verdict.reason}"


def declared_launch(workload: Workload) -> LaunchChange:
    """The launch of a workload in the kernel's own parameters: helper names are written out."""
    parameters = {parameter.name for parameter in workload.kernel.parameters}
    values = {item.name: item.value for item in workload.items if isinstance(item, Scalar)}

    def written(expression: Expression, depth: int = 0) -> Expression:
        def meaning(name: Name) -> Expression:
            if name.text in parameters or name.text not in values or depth > 20:
                return name
            return written(values[name.text], depth + 1)

        return replace_names(expression, meaning)

    shapes = {item.name: item.extents for item in workload.items if isinstance(item, Shape)}
    shared = [item.bytes for item in workload.items if isinstance(item, SharedMemory)]

    def three(name: str) -> tuple[str, str, str]:
        x, y, z = [*(write_expression(written(one)) for one in shapes[name]), "1", "1"][:3]
        return x, y, z

    return LaunchChange(three("grid"), three("block"), write_expression(written(shared[-1])) if shared else "0")


def _seconds(
    source: SourceFile, device: Device, profiler: Profiler | None, gpu: GpuFacts, repetitions: int
) -> float | Failure:
    unit = parse(source)
    kernel = unit.kernels[-1]
    variant, workload = Variant(source.path, source.data, kernel.qualified), find_workload(unit, kernel)
    if isinstance(device, MeasuringDevice):
        return _measured(variant, workload, device, repetitions)
    if profiler is None:
        return Failure("unsupported", "nothing here predicts its time")
    profile = profiler.profile(variant, workload)
    if isinstance(profile, Failure):
        return profile
    prediction = predict(profile, gpu)
    return prediction if isinstance(prediction, Failure) else prediction.time


def _measured(variant: Variant, workload: Workload, device: MeasuringDevice, repetitions: int) -> float | Failure:
    """The median of some loops of launches, in seconds; caches warm, as in the search."""
    launch = resolve_launch(workload)
    if isinstance(launch, Failure):
        return launch
    made = make_contents(launch, 0)
    if isinstance(made, Failure):
        return made
    built = device.build(variant, launch.template_arguments)
    if isinstance(built, Failure):
        return built
    contents, found = Contents(made), []
    with device.exclusive() as held:
        if isinstance(held, Failure):
            return held
        for _ in range(LOOPS):
            seconds = device.time_launches(built, launch, contents, repetitions, False)
            if isinstance(seconds, Failure):
                return seconds
            found.append(seconds)
    return sorted(found)[LOOPS // 2]
