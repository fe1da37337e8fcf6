"""Installs PyCUDA: from a folder of wheels, else built from source against the toolkit's headers, wheels or system.

PyCUDA has no wheels of its own, reads its build settings from a file in the home folder only, and links against
libcuda.so, which no package carries. So it is built with a home folder of our own and a stub of the driver's library
that has the right name; the real one is found when it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from optiml_core.records import Failure
from optiml_core.toolchain import Toolchain

PYCUDA = "pycuda==2026.1"
BUILD_SECONDS = 900.0
INSTALL_SECONDS = 300.0
# One symbol that PyCUDA uses: linkers that drop unneeded libraries would drop an empty stub.
STUB = "int cuInit(unsigned flags) { return 100; }\n"


def install_from_wheels(folder: Path) -> Failure | None:
    """Installs PyCUDA and what it needs from a folder of wheels, with no network."""
    if not folder.is_dir():
        return Failure("bad-input", "no such folder", str(folder))
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(folder), "pycuda"]
    return _run(command, INSTALL_SECONDS, "installing PyCUDA from wheels", None)


def build_and_install(toolchain: Toolchain) -> Failure | None:
    """Builds PyCUDA's wheel (one to two minutes) and installs it into the running environment."""
    headers = toolchain.tool("cuda_headers")
    if headers.path is None:
        return Failure("missing-tool", headers.reason, cure="pip install 'optiml[gpu]'")
    compiler = toolchain.tool("g++")
    if compiler.path is None:
        return Failure("missing-tool", compiler.reason, cure=compiler.cure)
    include = Path(headers.path)
    if not (include / "cudaProfiler.h").is_file():
        return Failure("missing-package", f"cudaProfiler.h is not in {include}", cure="pip install 'optiml[gpu]'")
    with tempfile.TemporaryDirectory(prefix="optiml-pycuda-") as folder:
        root = Path(folder)
        (root / "stub").mkdir()
        (root / "stub.c").write_text(STUB)
        library = root / "stub" / "libcuda.so"
        link = [compiler.path, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-x", "c", str(root / "stub.c")]
        failure = _run([*link, "-o", str(library)], 60.0, "making a stub of libcuda.so", None)
        if failure is not None:
            return failure
        (root / ".aksetup-defaults.py").write_text(
            f"CUDA_ROOT = {str(include.parent)!r}\n"
            f"CUDA_INC_DIR = [{str(include)!r}]\n"
            f"CUDADRV_LIB_DIR = [{str(root / 'stub')!r}]\n"
            "CUDA_ENABLE_CURAND = False\n"
            'CXXFLAGS = ["-O1", "-w", "-g0"]\n'
        )
        wheels = root / "wheels"
        environment = {**os.environ, "HOME": str(root)}
        build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(wheels), PYCUDA]
        failure = _run(build, BUILD_SECONDS, "building PyCUDA", environment)
        if failure is not None:
            return failure
        built = sorted(wheels.glob("pycuda-*.whl"))
        if not built:
            return Failure("crash", "building PyCUDA made no wheel")
        install = [sys.executable, "-m", "pip", "install", str(built[0])]
        return _run(install, INSTALL_SECONDS, "installing PyCUDA", None)


def _run(command: list[str], seconds: float, during: str, environment: dict[str, str] | None) -> Failure | None:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Failure("timeout", f"{during} took more than {seconds:g} s")
    except OSError as error:
        return Failure("missing-tool", f"{during}: {error}")
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    wanted = [line for line in lines if "error" in line.lower()] or lines[-3:]
    return Failure("crash", f"{during} failed: {' | '.join(line.strip() for line in wanted[:3])[:600]}")
