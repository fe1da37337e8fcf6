from collections.abc import Callable, Iterator

import pytest

from optiml_core.records import Failure
from optiml_core.source import SourceFile, parse
from optiml_core.toolchain import (
    CompiledKernel,
    CompileLimits,
    CompilePool,
    CompileRequest,
    Toolchain,
    compile_request,
    discover,
)


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return discover()


@pytest.fixture(scope="session")
def pool(toolchain: Toolchain) -> Iterator[CompilePool]:
    if toolchain.path("nvrtc") is None:
        pytest.skip("needs NVRTC (extra `cuda`)")
    with CompilePool(toolchain, workers=2) as pool:
        yield pool


Compile = Callable[..., CompiledKernel | Failure]


def request_for(
    text: str,
    kernel: str = "k",
    *,
    path: str = "file.cu",
    architecture: str = "sm_90",
    arguments: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    limits: CompileLimits = CompileLimits(),  # noqa: B008  frozen
) -> CompileRequest | Failure:
    """The request for a kernel of a text; the kernel by its plain or qualified name."""
    unit = parse(SourceFile(path, text.encode("utf-8", "surrogateescape")))
    found = next(found for found in unit.kernels if kernel in (found.name, found.qualified))
    return compile_request(unit, found, architecture, flags=flags, template_arguments=arguments, limits=limits)


@pytest.fixture(scope="session")
def compiled(pool: CompilePool) -> Compile:
    """Compiles a kernel of a text with NVRTC."""

    def compile_text(text: str, kernel: str = "k", **options: object) -> CompiledKernel | Failure:
        request = request_for(text, kernel, **options)  # type: ignore[arg-type]
        return request if isinstance(request, Failure) else pool.compile(request)

    return compile_text
