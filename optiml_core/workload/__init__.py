"""What is launched, on what: the workload language, inference from host code, contents, size variation."""

from optiml_core.workload.change import launch_change_of
from optiml_core.workload.contents import make_contents, narrowed
from optiml_core.workload.declaration import Declaration, parse_declaration
from optiml_core.workload.declaring import declare_edit
from optiml_core.workload.families import NAN_FAMILIES, OUTSIDE_FAMILIES, VALUE_FAMILIES, has_range
from optiml_core.workload.find import find_workload
from optiml_core.workload.launches import resolve_launch
from optiml_core.workload.record import Workload, with_instantiation
from optiml_core.workload.variation import larger_sizes, size_variations, with_size

__all__ = [
    "NAN_FAMILIES",
    "OUTSIDE_FAMILIES",
    "VALUE_FAMILIES",
    "Declaration",
    "Workload",
    "declare_edit",
    "find_workload",
    "has_range",
    "larger_sizes",
    "launch_change_of",
    "make_contents",
    "narrowed",
    "parse_declaration",
    "resolve_launch",
    "size_variations",
    "with_instantiation",
    "with_size",
]
