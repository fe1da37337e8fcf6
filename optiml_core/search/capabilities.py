"""What this machine can do, joined from the rooms: the answer to `optiml doctor`."""

from __future__ import annotations

import sys

from optiml_core.device.cuda.capabilities import gpu_capabilities
from optiml_core.device.emulator import emulator_capabilities
from optiml_core.language_models.configuration import model_capabilities
from optiml_core.records import Capability
from optiml_core.toolchain import TOOL_NAMES, discover


def all_capabilities() -> tuple[Capability, ...]:
    """Every capability with its cure, in the order in which a newcomer needs them."""
    version = ".".join(map(str, sys.version_info[:3]))
    found = [Capability("python", True, f"Python {version}", "")]
    toolchain = discover()
    for name in TOOL_NAMES:
        tool = toolchain.tool(name)
        detail = f"{tool.version or ''} {tool.path}".strip() if tool.path is not None else tool.reason
        found.append(Capability(name, tool.path is not None, detail, "" if tool.path is not None else tool.cure))
    found += emulator_capabilities()
    found += gpu_capabilities()
    found += model_capabilities()
    return tuple(found)
