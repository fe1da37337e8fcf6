"""Searches of a benchmark: ``optiml optimize`` in a process of its own for each kernel, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class SearchRequest:
    """One search: ``workload`` is the text of a TOML file or empty; ``more`` are further arguments."""

    file: Path
    kernel: str
    device: str
    seconds: float
    gpu: str = ""
    workload: str = ""
    more: Sequence[str] = ()


def searched(request: SearchRequest) -> dict[str, Any]:
    """The JSON of ``optiml optimize`` with ``wall`` (seconds); ``error`` with a ``message`` where there is none."""
    command = [sys.executable, "-m", "optiml_core", "optimize", str(request.file), "--kernel", request.kernel]
    command += ["--device", request.device, "--seconds", str(request.seconds), "--fresh", "--json"]
    command += ["--progress", "none", *request.more]
    if request.gpu:
        command += ["--gpu", request.gpu]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as workload:
        if request.workload:
            workload.write(request.workload)
            workload.flush()
            command += ["--workload", workload.name]
        began = time.monotonic()
        try:
            limit = request.seconds * 3 + 180
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            value: dict[str, Any] = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            value = {"error": {"message": "the search did not end"}}
        except ValueError:
            value = {"error": {"message": f"the search ended with status {done.returncode} and no result"}}
    value["wall"] = time.monotonic() - began
    return value
