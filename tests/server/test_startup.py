"""What the server imports before it can answer: nothing of the engine, which takes longer than a client should wait."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "tree_sitter", "clang", "networkx", "platformdirs", "optiml_core.source", "optiml_core.workload")
HEAVY += ("optiml_core.profiling", "optiml_core.toolchain", "optiml_core.search", "optiml_core.verification")


def test_the_engine_is_imported_after_the_start() -> None:
    code = "import optiml_server.main, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())
