"""What the tests of this room share: a kernel from its text, and its workload."""

from __future__ import annotations

from optiml_core.records import Failure, Kernel, Launch
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.workload import Workload, find_workload, resolve_launch


def unit_of(text: str, path: str = "k.cu") -> TranslationUnit:
    return parse(SourceFile(path, text.encode()))


def kernel_of(text: str) -> Kernel:
    return unit_of(text).kernels[0]


def workload_of(text: str, toml: str | None = None, kernel: str | None = None) -> Workload:
    unit = unit_of(text)
    found = unit.kernels[0] if kernel is None else unit.kernel(kernel)
    assert found is not None
    return find_workload(unit, found, toml)


def launch_of(text: str, toml: str | None = None, **overrides: float) -> Launch:
    launch = resolve_launch(workload_of(text, toml), 0, overrides)
    assert isinstance(launch, Launch), launch
    return launch


def failure_of(text: str, toml: str | None = None, **overrides: float) -> Failure:
    launch = resolve_launch(workload_of(text, toml), 0, overrides)
    assert isinstance(launch, Failure), launch
    return launch
