"""A draft as CUDA text: workload declaration, kernel, host launcher."""

from __future__ import annotations

from optiml_core.synthesis.records import Draft, SpecificationParameter


def workload_text(draft: Draft) -> str:
    """The ``// optiml:`` lines above the kernel."""
    parameters = draft.specification.parameters
    sizes = [f"{one.name} = {one.value}" for one in parameters if one.role in ("size", "scalar")]
    sizes += [f"{name} = {value}" for name, value in draft.helpers]
    buffers = [_buffer(one) for one in parameters if one.is_array]
    grid = f"({', '.join(draft.grid)})" if len(draft.grid) > 1 else draft.grid[0]
    block = f"({', '.join(map(str, draft.block))})" if len(draft.block) > 1 else str(draft.block[0])
    lines = [*_wrapped(sizes), *_wrapped(buffers), f"block = {block}, grid = {grid}"]
    return "\n".join(f"// optiml: {line}" for line in lines)


def _wrapped(items: list[str]) -> list[str]:
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < 100:
            lines[-1] += ", " + item
        else:
            lines.append(item)
    return lines


def length_text(shape: tuple[str, ...]) -> str:
    return " * ".join(f"({extent})" if " " in extent and len(shape) > 1 else extent for extent in shape)


def _buffer(one: SpecificationParameter) -> str:
    text = f"{one.name}[{length_text(one.shape)}]"
    if one.role == "output":
        return text
    return f"{text}: {'zeros' if one.role == 'zeroed output' else one.content}"


def _declared(one: SpecificationParameter) -> str:
    if not one.is_array:
        return f"{one.type} {one.name}"
    return (
        f"const {one.type}* __restrict__ {one.name}" if one.role == "input" else f"{one.type}* __restrict__ {one.name}"
    )


def kernel_text(draft: Draft) -> str:
    """The kernel with its declaration; what it computes stands above it."""
    specification = draft.specification
    signature = ", ".join(_declared(one) for one in specification.parameters)
    return (
        f"// {specification.reference}\n{workload_text(draft)}\n"
        f"__global__ void {specification.name}({signature}) {{\n{draft.body}}}\n"
    )


def launcher_text(draft: Draft) -> str:
    """A host function with device pointers that sets what must be zero and launches on a stream."""
    specification = draft.specification
    arguments = ", ".join(_declared(one).replace(" __restrict__", "") for one in specification.parameters)
    lines = [
        f"// Launches {specification.name} on `stream`; the pointers are device memory. Empty sizes launch nothing."
    ]
    lines.append(f"cudaError_t launch_{specification.name}({arguments}, cudaStream_t stream = 0) {{")
    sizes = [one.name for one in specification.parameters if one.role == "size"]
    if sizes:
        lines.append(f"  if ({' || '.join(f'{name} <= 0' for name in sizes)}) return cudaSuccess;")
    for one in specification.parameters:
        if one.role == "zeroed output":
            size = f"sizeof({one.type}) * {length_text(one.shape)}"
            lines.append(f"  const cudaError_t zeroed = cudaMemsetAsync({one.name}, 0, {size}, stream);")
            lines.append("  if (zeroed != cudaSuccess) return zeroed;")
    lines.append(f"  const dim3 block({', '.join(map(str, draft.block))});")
    lines.append(f"  const dim3 grid({', '.join(_host(one) for one in draft.grid)});")
    names = ", ".join(one.name for one in specification.parameters)
    lines.append(f"  {specification.name}<<<grid, block, 0, stream>>>({names});")
    lines.append("  return cudaGetLastError();\n}")
    return "\n".join(lines) + "\n"


def _host(expression: str) -> str:
    """A grid extent as C++: ``ceil_div(n, 256)`` is spelled out."""
    if not expression.startswith("ceil_div("):
        return expression
    size, by = expression[len("ceil_div(") : -1].rsplit(", ", 1)
    return f"({size} + {int(by) - 1}) / {by}"


def source_text(draft: Draft) -> str:
    """Kernel and launcher, as they are put below the comment."""
    return f"{kernel_text(draft)}\n{launcher_text(draft)}"
