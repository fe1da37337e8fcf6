"""Where the compilers and tools are: each with its path and version, or why it is missing and the cure.

The order of looking: an argument, an environment variable (``OPTIML_NVCC`` and the like), the Python packages
(through cuda-pathfinder), ``CUDA_HOME``, PATH, ``/usr/local/cuda``. Paths of compilers never come from a workspace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attrs import frozen

_CUDA_EXTRA = "pip install 'optiml[cuda]'"
_GPU_EXTRA = "pip install 'optiml[gpu]'"


@frozen
class Tool:
    """A program, a library or a folder of headers. ``path`` None: missing, ``reason`` says why, ``cure`` what to do."""

    name: str
    path: str | None
    version: str | None = None
    reason: str = ""
    cure: str = ""


@frozen
class Toolchain:
    """Everything ``discover`` looked for, by name (``TOOL_NAMES``)."""

    tools: Mapping[str, Tool]

    def tool(self, name: str) -> Tool:
        """The tool of this name; KeyError for a name that is not looked for."""
        return self.tools[name]

    def path(self, name: str) -> str | None:
        """Its path, or None where it is missing."""
        return self.tools[name].path

    @property
    def include_folders(self) -> tuple[str, ...]:
        """Folders with NVIDIA's headers: the toolkit's own, and CCCL's (cub, thrust, libcu++, nv/target)."""
        return tuple(path for name in ("cuda_headers", "cccl_headers") if (path := self.path(name)) is not None)


@frozen
class _Wanted:
    name: str
    variable: str
    cure: str
    file: str = ""  # of a program, as on PATH
    places: tuple[str, ...] = ()  # folders with one folder per version


_WANTED: tuple[_Wanted, ...] = (
    _Wanted("g++", "OPTIML_GXX", "install g++ 12 or later (Debian, Ubuntu: apt install g++)", "g++"),
    _Wanted("nvcc", "OPTIML_NVCC", _CUDA_EXTRA, "nvcc"),
    _Wanted("nvrtc", "OPTIML_NVRTC", _CUDA_EXTRA),
    _Wanted("cuda_headers", "OPTIML_CUDA_INCLUDE", _CUDA_EXTRA),
    _Wanted("cccl_headers", "OPTIML_CCCL_INCLUDE", _CUDA_EXTRA),
    _Wanted("nvdisasm", "OPTIML_NVDISASM", _CUDA_EXTRA, "nvdisasm"),
    _Wanted("cuobjdump", "OPTIML_CUOBJDUMP", _CUDA_EXTRA, "cuobjdump"),
    _Wanted(
        "ncu",
        "OPTIML_NCU",
        "install NVIDIA Nsight Compute (part of the CUDA toolkit) and put ncu on PATH",
        "ncu",
        ("/opt/nvidia/nsight-compute",),
    ),
    _Wanted("compute-sanitizer", "OPTIML_COMPUTE_SANITIZER", _GPU_EXTRA, "compute-sanitizer"),
)

TOOL_NAMES: tuple[str, ...] = tuple(wanted.name for wanted in _WANTED)


def discover(settings: Mapping[str, str] | None = None, *, environment: Mapping[str, str] | None = None) -> Toolchain:
    """Looks for every tool of ``TOOL_NAMES``; never raises.

    ``settings``: paths by tool name, from the machine-scoped settings of an editor. ``environment``: default, this
    process's. A path that is set and does not exist is reported as missing, never silently replaced by another.
    """
    settings = settings or {}
    environment = os.environ if environment is None else environment
    found: dict[str, Tool] = {}
    for wanted in _WANTED:
        given = settings.get(wanted.name) or environment.get(wanted.variable)
        if given:
            found[wanted.name] = _given(wanted, given)
            continue
        path = next((path for path in _candidates(wanted, environment, found) if path), None)
        reason = "" if path else f"{wanted.name} was found neither in the Python packages nor on PATH nor in a toolkit"
        found[wanted.name] = _described(wanted, path, reason)
    return Toolchain(found)


def _given(wanted: _Wanted, given: str) -> Tool:
    path = shutil.which(given) if wanted.file else (given if os.path.exists(given) else None)
    if path is None:
        reason = f"{wanted.name} was set to {given}, which is not there"
        return Tool(wanted.name, None, None, reason, f"correct the setting ({wanted.variable}) or remove it")
    return _described(wanted, path, "")


def _described(wanted: _Wanted, path: str | None, reason: str) -> Tool:
    if path is None:
        return Tool(wanted.name, None, None, reason, wanted.cure)
    version = _VERSIONS[wanted.name](path)
    if version is None:
        return Tool(wanted.name, None, None, f"{path} does not tell its version", wanted.cure)
    return Tool(wanted.name, path, version)


def _candidates(wanted: _Wanted, environment: Mapping[str, str], found: Mapping[str, Tool]) -> Iterable[str | None]:
    roots = [Path(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    roots.append(Path("/usr/local/cuda"))
    if wanted.name == "g++":
        yield shutil.which("g++", path=environment.get("PATH"))
        return
    if wanted.file:
        yield _from_packages(wanted.file)
        yield from (_executable(root / "bin" / wanted.file) for root in roots[:-1])
        yield shutil.which(wanted.file, path=environment.get("PATH"))
        yield _executable(roots[-1] / "bin" / wanted.file)
        for versions in wanted.places:
            # The latest version first.
            for folder in sorted(Path(versions).glob("*"), reverse=True):
                yield _executable(folder / wanted.file)
    elif wanted.name == "cuda_headers":
        yield _headers_from_packages("cudart")
        yield from (_folder_with(root / "include", "cuda_runtime.h") for root in roots)
    elif wanted.name == "cccl_headers":
        yield _headers_from_packages("cccl")
        for root in roots:
            yield _folder_with(root / "include" / "cccl", "nv/target")
            yield _folder_with(root / "include", "nv/target")
    elif wanted.name == "nvrtc":
        nvcc = found["nvcc"].path
        headers = _headers_from_packages("cudart")
        prefixes = [Path(headers).parent] if headers else []
        prefixes += [*roots, *([Path(nvcc).resolve().parent.parent] if nvcc else [])]
        for prefix in prefixes:
            for libraries in ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
                files = sorted((prefix / libraries).glob("libnvrtc.so.*"), reverse=True)
                yield str(files[0]) if files else None
        yield _library_from_packages()


def _from_packages(program: str) -> str | None:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    try:
        found: str | None = find_nvidia_binary_utility(program)
    except (RuntimeError, OSError, ValueError):
        return None  # It raises for programs that it does not know.
    return _executable(Path(found)) if found else None


def _headers_from_packages(name: str) -> str | None:
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return None
    try:
        found: str | None = find_nvidia_header_directory(name)
    except (RuntimeError, OSError, ValueError):
        return None
    return found


def _library_from_packages() -> str | None:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        found: str | None = load_nvidia_dynamic_lib("nvrtc").abs_path
    except (RuntimeError, OSError, ValueError):
        return None
    return found


def _executable(path: Path) -> str | None:
    return str(path) if path.is_file() and os.access(path, os.X_OK) else None


def _folder_with(folder: Path, file: str) -> str | None:
    return str(folder) if (folder / file).is_file() else None


# ---------------------------------------------------------------------------------------- versions


def _version_printed(arguments: tuple[str, ...], pattern: str) -> Callable[[str], str | None]:
    def ask(path: str) -> str | None:
        try:
            answer = subprocess.run(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=20,
                env={"PATH": os.defpath, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(pattern, answer.stdout + answer.stderr)
        return found[1] if found else None

    return ask


def nvrtc_builtins(library: str) -> str | None:
    """The library of built-in functions beside NVRTC, which must be loaded first; None if it is not there."""
    candidates = sorted(
        Path(library).parent.glob("libnvrtc-builtins.so*"), key=lambda path: (len(path.name), path.name)
    )
    return str(candidates[-1]) if candidates else None


def _nvrtc_version(library: str) -> str | None:
    # The name of the built-ins carries major and minor number. A system's package may carry the full one in the
    # library's own name. Asking the library itself would mean loading 90 MB here.
    builtins = nvrtc_builtins(library)
    for name in (os.path.basename(os.path.realpath(library)), os.path.basename(builtins or "")):
        found = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", name)
        if found:
            return found[1]
    return None


def _header_version(folder: str) -> str | None:
    # CUDA_VERSION is 13000 for 13.0; CCCL_VERSION is 3000003 for 3.0.3.
    cuda = _defined_number(Path(folder) / "cuda.h", "CUDA_VERSION")
    if cuda is not None:
        return f"{cuda // 1000}.{cuda % 1000 // 10}"
    cccl = _defined_number(Path(folder) / "cuda/std/__cccl/version.h", "CCCL_VERSION")
    if cccl is not None:
        return f"{cccl // 1000000}.{cccl // 1000 % 1000}.{cccl % 1000}"
    return "unknown"


def _defined_number(header: Path, macro: str) -> int | None:
    found = (
        re.search(rf"#\s*define\s+{macro}\s+(\d+)", header.read_text(errors="replace")) if header.is_file() else None
    )
    return int(found[1]) if found else None


_VERSIONS: Mapping[str, Callable[[str], str | None]] = {
    "g++": _version_printed(("-dumpfullversion",), r"(\d+(?:\.\d+)*)"),
    "nvcc": _version_printed(("--version",), r"\bV(\d+\.\d+\.\d+)"),
    "nvdisasm": _version_printed(("--version",), r"\bV(\d+\.\d+\.\d+)"),
    "cuobjdump": _version_printed(("--version",), r"\bV(\d+\.\d+\.\d+)"),
    "ncu": _version_printed(("--version",), r"Version (\d+\.\d+(?:\.\d+)*)"),
    "compute-sanitizer": _version_printed(("--version",), r"Version (\d+\.\d+(?:\.\d+)*)"),
    "nvrtc": _nvrtc_version,
    "cuda_headers": _header_version,
    "cccl_headers": _header_version,
}
