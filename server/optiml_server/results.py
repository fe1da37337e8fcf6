"""What the server knows of each kernel: the last profile, the last search, and whether they are still true."""

from __future__ import annotations

import time
from typing import Any

from attrs import define, field, frozen


@frozen
class KernelProfileResult:
    """A profile as `optiml profile --json` printed it, and the kernel's digest it belongs to."""

    digest: str
    value: dict[str, Any]
    finished: float = field(factory=time.time)


@frozen
class OptimizeResult:
    """A finished search. ``before`` and ``after`` are whole texts; ``after`` None: nothing better was found."""

    job: str
    uri: str
    kernel: str
    digest: str
    before: str
    after: str | None
    value: dict[str, Any]
    report: str
    finished: float = field(factory=time.time)

    def summary(self) -> str:
        """One sentence for people; only a measured gain is called faster."""
        speedup = self.value.get("speedup")
        if self.after is None or not speedup:
            return f"{self.kernel}: no verified variant is better ({self.value.get('stopped')})"
        target = self.value.get("target", "")
        if speedup["kind"] == "measured":
            interval = f"{speedup['low']:.2f} to {speedup['high']:.2f}"
            return f"{self.kernel}: {speedup['value']:.2f}x faster, measured ({interval}) on {target}"
        return f"{self.kernel}: {speedup['value']:.2f}x predicted for {target}, not measured"


def digest_of(kernel_text: bytes) -> str:
    """The same for kernels that differ in comments and white space alone."""
    from optiml_core.source.digest import source_digest

    return source_digest(kernel_text)


@define
class Results:
    """By (uri, kernel). Old ones stay until new ones come: a stale profile is shown as stale, not dropped."""

    profiles: dict[tuple[str, str], KernelProfileResult] = field(factory=dict)
    searches: dict[tuple[str, str], OptimizeResult] = field(factory=dict)
    by_job: dict[str, OptimizeResult] = field(factory=dict)
    generation: int = 0

    def put_profile(self, uri: str, kernel: str, result: KernelProfileResult) -> None:
        self.profiles[uri, kernel] = result
        self.generation += 1

    def put_search(self, result: OptimizeResult) -> None:
        self.searches[result.uri, result.kernel] = result
        self.by_job[result.job] = result
        self.generation += 1
