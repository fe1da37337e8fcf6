"""What limits a kernel: one Profile from emulator counts, machine code or reports; roofline; findings."""

from optiml_core.profiling.findings import find_findings
from optiml_core.profiling.profiler import Profiler, profile_on_device, without_time
from optiml_core.profiling.static import static_profile
from optiml_core.profiling.time_model import Prediction, roofline

__all__ = ["Prediction", "Profiler", "find_findings", "profile_on_device", "roofline", "static_profile", "without_time"]
