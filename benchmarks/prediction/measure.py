"""Writes a CUDA program that times the kernels of this folder, for a machine with a GPU.

Usage: python benchmarks/prediction/measure.py OUT.cu [held_out]
       nvcc -O3 -arch=sm_90 -lineinfo OUT.cu -o measure && ./measure
The program prints one JSON object a line: kernel, the overridden names, and seconds a launch: ``warm`` (a loop of
launches), ``cold`` (the L2 cache cleared before each, single launches between events; medians).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from optiml_core.records import BufferArgument, Failure, Launch
from optiml_core.source import SourceFile, parse
from optiml_core.workload import find_workload, resolve_launch

FOLDER = Path(__file__).parent / "kernels"

PROLOGUE = (Path(__file__).parent / "timing.h").read_text()

MAIN = r"""
int main(int argc, char** argv) {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
  flush_bytes = 2 * (size_t)p.l2CacheSize; cudaMalloc(&flush_buffer, flush_bytes);
  fprintf(stderr, "%s, %d multiprocessors, L2 %d\n", p.name, p.multiProcessorCount, p.l2CacheSize);
  for (int r = 0; r < 200; r++) cudaMemset(flush_buffer, r, flush_bytes);  // wake the clocks
  const char* only = argc > 1 && strcmp(argv[1], "all") ? argv[1] : 0;
  int single = argc > 2;  // one launch of each kernel, for a profiler
"""

# Block sizes of the ladder's programs, for the kernels that have a `threads`.
SWEEPS: Mapping[str, tuple[int, ...]] = {
    "softmax_row_per_thread": (32, 64, 256, 1024),
    "softmax_block_per_row": (512, 128, 256, 1024),
    "layernorm_row_per_thread": (32, 64, 256, 1024),
    "layernorm_warp_per_row": (256, 64, 128, 512, 1024),
    "residual_layernorm_fused": (256, 64, 128, 512, 1024),
    "residual": (256, 64, 1024),
    "column_sums_block_per_column": (256, 32, 64, 128, 512, 1024),
    "column_sums_split_rows": (256, 128, 512, 1024),
    "gelu_scalar": (256, 32, 64, 128, 512, 1024),
    "gelu_vector": (256, 32, 64, 128, 512, 1024),
    "sum_of_squares": (512, 128, 256, 1024),
}


def kernel_launches(path: Path) -> list[tuple[str, dict[str, int], Launch]]:
    """Each launch that is timed: kernel name, overridden names, the launch."""
    unit = parse(SourceFile(path.name, path.read_bytes()))
    kernel = unit.kernels[-1]
    workload = find_workload(unit, kernel)
    found = []
    for threads in SWEEPS.get(kernel.name, (0,)):
        names = {"threads": threads} if threads else {}
        launch = resolve_launch(workload, 0, names)
        if isinstance(launch, Failure):
            raise SystemExit(f"{path.name}: {launch.message} {workload.problems}")
        found.append((kernel.name, names, launch))
    return found


def fill(pointer: str, argument: BufferArgument) -> str:
    """A statement that fills a buffer on the device."""
    content, count = argument.content, f"{argument.length * argument.element.size // 4}ull"
    if argument.element.dtype.startswith("float"):
        low, high = content.parameters if content.kind == "uniform" else (-1.7, 1.7)
        if content.kind in ("zeros", "poison"):
            low = high = 0.0
        if content.kind == "constant":
            low = high = content.parameters[0]
        return f"fill_float<<<1024, 256>>>((float*){pointer}, {count}, {low}f, {high}f);"
    most = {"uniform": content.parameters[-1:] or (1,), "permutation": content.parameters}.get(content.kind, (1,))[0]
    return f"fill_int<<<1024, 256>>>((int*){pointer}, {count}, {int(most)}ll, {int(content.kind == 'permutation')});"


def program(folder: Path) -> str:
    parts, body = [PROLOGUE], [MAIN]
    for number, path in enumerate(sorted(folder.glob("*.cu"))):
        parts.append(f"namespace k{number} {{\n{path.read_text()}\n}}\n")
        unit = parse(SourceFile(path.name, path.read_bytes()))
        kernel = unit.kernels[-1]
        for order, (name, names, launch) in enumerate(kernel_launches(path)):
            label = json.dumps(json.dumps(names))
            lines, arguments, releases = [], [], []
            for index, (parameter, argument) in enumerate(zip(kernel.parameters, launch.arguments, strict=True)):
                if isinstance(argument, BufferArgument):
                    size = argument.length * argument.element.size
                    lines.append(f"void* p{index}; cudaMalloc(&p{index}, {size}ull); {fill(f'p{index}', argument)}")
                    releases.append(f"cudaFree(p{index});")
                    kind = parameter.type.replace("__restrict__", "").strip()
                    arguments.append(f"({kind})p{index}")
                else:
                    arguments.append(repr(argument.value))
            grid, block = (", ".join(map(str, shape)) for shape in (launch.grid, launch.block))
            call = f"k{number}::{name}<<<dim3({grid}), dim3({block}), {launch.shared}>>>({', '.join(arguments)})"
            raise_limit = (
                f"cudaFuncSetAttribute(k{number}::{name}, "
                f"cudaFuncAttributeMaxDynamicSharedMemorySize, {launch.shared});"
                if launch.shared > 48 << 10
                else ""
            )
            body.append(
                f'if ((!only || !strcmp(only, "{name}")) && !(single && {order})) {{ {" ".join(lines)} {raise_limit}\n'
                f"  if (single) {{ {call}; cudaDeviceSynchronize(); }}\n"
                f'  else report("{name}", {label}, [&] {{ {call}; }});\n  {" ".join(releases)} }}'
            )
    return "".join(parts) + "\n".join(body) + "\nreturn 0; }\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(program(FOLDER.parent / (sys.argv[2] if len(sys.argv) > 2 else "kernels")))
