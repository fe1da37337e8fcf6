"""ncu's counters of the nodes of a search: when they are worth their seconds, and once for each source."""

from __future__ import annotations

from optiml_core.device.protocol import Contents, MeasuringDevice
from optiml_core.profiling.nsight import ReportedKernel
from optiml_core.profiling.nsight.run import count_launch
from optiml_core.records import Failure, Measurement, Variant
from optiml_core.search.problem import ProfileMode
from optiml_core.workload import Workload, make_contents, resolve_launch

# Reasons that hold for every further launch too: asking again would only take time.
LASTING = frozenset({"missing-tool", "missing-package", "no-permission"})


class LaunchCounter:
    """Counts variants of one workload on one device. ``problem``: why nothing can be counted here, once known."""

    def __init__(self, workload: Workload, device: MeasuringDevice, mode: ProfileMode, seed: int) -> None:
        self._workload = workload
        self._device = device
        self._mode = mode
        self._seed = seed
        self._known: dict[str, ReportedKernel | Failure] = {}
        self._contents: Contents | None = None
        self.problem: Failure | None = None

    def worth_it(self, measurement: Measurement, parent_speedup: float) -> bool:
        """``--profile all`` counts every verified variant, ``best`` what beats its parent, ``none`` nothing."""
        return self._mode == "all" or (self._mode == "best" and measurement.speedup > parent_speedup)

    @property
    def counts_originals(self) -> bool:
        return self._mode != "none"

    def count(self, variant: Variant, key: str) -> ReportedKernel | None:
        """The counters of the variant's first launch; None where there are none. ``key`` names its source."""
        if self.problem is not None:
            return None
        if key not in self._known:
            self._known[key] = self._counted(variant)
        found = self._known[key]
        if isinstance(found, Failure):
            if found.kind in LASTING:
                self.problem = found
            return None
        return found

    def _counted(self, variant: Variant) -> ReportedKernel | Failure:
        launch = resolve_launch(self._workload, 0, None, variant.launch_change)
        if isinstance(launch, Failure):
            return launch
        if self._contents is None:
            made = make_contents(launch, self._seed)
            if isinstance(made, Failure):
                return made
            self._contents = Contents(made)
        built = self._device.build(variant, launch.template_arguments)
        if isinstance(built, Failure):
            return built
        return count_launch(self._device, built, launch, self._contents)
