"""Nsight Compute: its report files, its counters under our names, its rules as our findings."""

from optiml_core.profiling.nsight.imported import Imported, ImportedKernel, findings_of, import_kernels, in_order
from optiml_core.profiling.nsight.profile import profile_of
from optiml_core.profiling.nsight.report import ReportedKernel, RuleResult, read_report
from optiml_core.profiling.nsight.rules import joined

__all__ = [
    "Imported",
    "ImportedKernel",
    "ReportedKernel",
    "RuleResult",
    "findings_of",
    "import_kernels",
    "in_order",
    "joined",
    "profile_of",
    "read_report",
]
