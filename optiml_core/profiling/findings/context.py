"""What every finding needs: the profile, the source, the GPU, and "what if" on the time model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import evolve, field, frozen

from optiml_core.profiling.time_model import combine, resource_times
from optiml_core.records import AccessCounts, Failure, Finding, Kernel, Launch, Profile, SourceRange
from optiml_core.source import TranslationUnit
from optiml_core.toolchain import GpuFacts, gpu_facts

HIGH_GAIN = 1.5
MEDIUM_GAIN = 1.1
WARP_LENGTHS = ("warp_cycles", "block_cycles", "longest_warp_cycles")


@frozen
class FindingContext:
    """One profile with its source. ``gpu`` is None where the target is not in the table."""

    profile: Profile
    unit: TranslationUnit
    kernel: Kernel
    launch: Launch | None
    gpu: GpuFacts | None
    times: Mapping[str, float] = field(factory=dict)

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.profile.metrics

    def line_metric(self, line: int, name: str) -> float:
        return self.profile.line_metrics.get(line, {}).get(name, 0.0)

    def share_of_time(self, resource: str) -> float:
        """The part of the predicted time that one resource would fill by itself, 0..1."""
        largest = max(self.times.values(), default=0.0)
        return self.times.get(resource, 0.0) / largest if largest else 0.0

    def accesses(self, keep: Callable[[AccessCounts], bool]) -> list[AccessCounts]:
        """Access sites inside the kernel's file that ``keep`` accepts, in the order of lines."""
        return [access for access in self.profile.accesses if access.line > 0 and keep(access)]

    def with_shorter_warps(self, saved: float) -> dict[str, float]:
        """The metrics that say how long warps live, if each were ``saved`` cycles (of the average warp's) shorter."""
        cycles = self.metrics.get("warp_cycles", 0.0)
        left = max(0.02, 1.0 - saved / cycles) if cycles > 0 else 1.0
        return {name: self.metrics[name] * left for name in WARP_LENGTHS if name in self.metrics}

    def stalls_of(self, lines: Iterable[int]) -> float:
        """Cycles that an average warp waits for what these lines load."""
        total = sum(self.line_metric(line, "stall_cycles") for line in set(lines))
        return total / max(1.0, self.metrics.get("warps", 1.0))

    def gain_if(self, changes: Mapping[str, float]) -> float | None:
        """How many times faster the model is with some metrics replaced (at least 1), None without a model."""
        if self.gpu is None or not self.times:
            return None
        overhead = self.gpu.launch_overhead
        before = combine(self.times) + overhead
        after = combine(resource_times({**self.metrics, **changes}, self.gpu)) + overhead
        return max(1.0, before / after) if after > 0 else None

    def finding(
        self,
        kind: str,
        place: SourceRange,
        message: str,
        evidence: Mapping[str, float | str],
        gain: float | None,
        rewrites: tuple[str, ...],
    ) -> Finding:
        """A finding whose severity follows from its gain; without a gain it is of medium severity."""
        measure = 1.0 + (MEDIUM_GAIN - 1.0) if gain is None else gain
        severity = "high" if measure >= HIGH_GAIN else "medium" if measure >= MEDIUM_GAIN else "low"
        rounded = {name: round(v, 4) if isinstance(v, float) else v for name, v in evidence.items()}
        return Finding(
            kind=kind,
            range=place,
            severity=severity,  # type: ignore[arg-type]
            message=message,
            evidence=rounded,
            estimated_gain=None if gain is None else round(gain, 3),
            rewrites=rewrites,
            origin=self.profile.origin,
        )


def context_of(profile: Profile, unit: TranslationUnit, kernel: Kernel, launch: Launch | None) -> FindingContext:
    """The context, with the times of the model where the profile's target is a known GPU."""
    gpu = gpu_facts(profile.target)
    known = None if isinstance(gpu, Failure) else gpu
    times = resource_times(profile.metrics, known) if known is not None and profile.metrics else {}
    return FindingContext(profile, unit, kernel, launch, known, times)


def line_range(context: FindingContext, line: int) -> SourceRange:
    """The text of one line without the blanks around it; the kernel's name if the line is not in the file."""
    source = context.unit.source
    starts = source.line_starts
    if not 1 <= line <= len(starts):
        return context.kernel.name_range
    start = starts[line - 1]
    end = starts[line] if line < len(starts) else len(source.data)
    text = source.data[start:end]
    left = len(text) - len(text.lstrip())
    right = len(text.rstrip())
    return source.range(start + min(left, right), start + right)


def without_duplicates(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding a place and kind: the one with the largest gain."""
    best: dict[tuple[str, int, int], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.range.start_byte, finding.range.end_byte)
        if key not in best or (finding.estimated_gain or 0) > (best[key].estimated_gain or 0):
            best[key] = finding
    return tuple(best.values())


def percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def in_line(finding: Finding, line: int) -> Finding:
    """The finding with the line named in its message, as terminals show no squiggles."""
    return evolve(finding, message=f"{finding.message} in line {line}")
