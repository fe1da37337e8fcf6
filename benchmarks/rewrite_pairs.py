"""Naive kernels, our chains of rewrites and the hand-written experts: predicted anywhere, measured on a GPU.

    python benchmarks/rewrite_pairs.py [--device emulator|cuda:0] [--gpu H200] [--only NAME,...] [--json OUT]

The rewrites are applied by name, so nothing but the naive kernels of benchmarks/prediction/kernels is needed. On a GPU
a variant is timed in pairs with the original (a 95 % interval); the expert, another kernel, in a loop of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import asdict, frozen

from optiml_core.device.cuda import CudaDevice
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.protocol import Contents
from optiml_core.measurement import PairPlan
from optiml_core.measurement.statistics import StoppingRule
from optiml_core.profiling import Profiler
from optiml_core.records import Failure, LaunchChange, Variant
from optiml_core.rewrites import Refusal, RewriteContext, rewrite_named
from optiml_core.search.devices import open_device
from optiml_core.search.timing import GpuTimer
from optiml_core.source import SourceFile, apply_edits, parse
from optiml_core.toolchain import CompilePool, GpuFacts, discover, gpu_facts
from optiml_core.workload import Workload, find_workload, make_contents, resolve_launch

FOLDER = Path(__file__).parent / "prediction" / "kernels"
ALLOW = frozenset({"launch", "no-alias"})

# A chain is NAME or NAME(key=value,...) steps joined by +; a step takes the first option with these parameters.
ONE_PASS = "recompute-element+online-softmax+load-ahead(rounds=8)"
BLOCK, WARP = "parallel-row(scope=block,threads=1024)", "parallel-row(scope=warp,threads=256)"
# Naive kernel -> the expert's kernels (run one after another), and our chains.
PAIRS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "softmax_row_per_thread": (
        ("softmax_block_per_row",),
        (
            f"{BLOCK}+{ONE_PASS}", f"{WARP}+{ONE_PASS}", BLOCK, WARP, f"{BLOCK}+load-ahead(rounds=4)",
            f"parallel-row(scope=block,threads=256)+{ONE_PASS}", f"{BLOCK}+recompute-element",
            f"parallel-row(scope=block,threads=512)+{ONE_PASS}", "parallel-row(scope=warp,threads=128)",
        ),
    ),
    "layernorm_row_per_thread": (
        ("layernorm_warp_per_row",),
        (WARP, f"{WARP}+restrict-readonly", f"{WARP}+vectorize-access(of=loops)",
         f"{WARP}+keep-row(rounds=24,restrict=None)", f"{WARP}+keep-row(restrict=True)",
         "parallel-row(scope=warp,threads=128)+keep-row(restrict=True)"),
    ),
    "column_sums_block_per_column": (
        ("column_sums_split_rows", "column_sums_second_pass"),
        ("parallel-column(columns=32,rows=32)", "parallel-column(columns=16)", "parallel-column(columns=8)",
         "parallel-column(columns=32,rows=32)+load-ahead(rounds=8)", "parallel-column(columns=16)+load-ahead(rounds=8)",
         "parallel-column(columns=8)+load-ahead(rounds=8)"),
    ),
    "attention_values_column_per_thread": (
        ("attention_values_block_per_column",),
        ("parallel-column(columns=32,rows=32)", "parallel-column(columns=32,rows=32)+load-ahead(rounds=8)",
         "parallel-column(columns=16)+load-ahead(rounds=8)", "parallel-column(columns=8)",
         "parallel-column(columns=8)+load-ahead(rounds=8)"),
    ),
    "attention_scores_key_per_thread": (
        ("attention_scores_warp_per_key",), (WARP, f"{WARP}+vectorize-access(of=loops)"),
    ),
    "matvec_row_per_thread": (("matvec_warp_per_row_vector",), (WARP, f"{WARP}+vectorize-access(of=loops)")),
    "sgemm_row_by_x": (
        ("sgemm_warp_tiles",),
        ("register-tile-matmul(thread_columns=16)", "register-tile-matmul(depth=16,thread_columns=8)"),
    ),
    "polygon_point_per_thread": (
        ("polygon_points_per_thread",),
        ("coarsen-grid-stride(factor=2)", "unroll-and-jam(factor=4)", "unroll-and-jam(factor=8)",
         "unroll-and-jam(factor=2)"),
    ),
    "histogram_global": (("histogram_shared",), ("privatize-atomics(bins=256)", "privatize-atomics(bins=1024)")),
    "histogram256_global": (
        ("histogram256_shared",),
        ("privatize-atomics(bins=256)", "privatize-atomics(blocks=528)",
         "privatize-atomics(blocks=528)+load-ahead(rounds=4)", "privatize-atomics(blocks=528)+load-ahead(rounds=8)"),
    ),
    "gelu_scalar": (
        ("gelu_vector",),
        ("vectorize-access", "coarsen-grid-stride(factor=4)", "coarsen-grid-stride(factor=4)+load-ahead(rounds=4)",
         "coarsen-grid-stride(blocks=528)+load-ahead(rounds=4)"),
    ),
    "transpose_naive": (("transpose_padded",), ("shared-tile-transpose",)),
    "convolution_naive": (("convolution_tiled",), ("restrict-readonly",)),
    "reduce_divergent": (("reduce_shuffle",), ("shuffle-reduction",)),
}  # fmt: skip
STEP = re.compile(r"([\w-]+)(?:\(([^)]*)\))?")


@frozen
class Row:
    """One variant: its time in seconds, the gain over the naive kernel with its bounds, or what went wrong."""

    naive: str
    variant: str
    notes: tuple[str, ...]
    seconds: float | None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    problem: str = ""


@frozen
class Chained:
    variant: Variant
    notes: tuple[str, ...]


def chained(name: str, chain: str, gpu: GpuFacts) -> Chained | str:
    """The naive kernel after a chain of rewrites, or why a step does not apply."""
    source = SourceFile(f"{name}.cu", (FOLDER / f"{name}.cu").read_bytes())
    change, notes = LaunchChange(), []
    for step in STEP.finditer(chain):
        rewrite = rewrite_named(step[1])
        unit = parse(source)
        if rewrite is None:
            return f"there is no rewrite {step[1]}"
        launch = resolve_launch(original_of(name)[1], 0, None, change)
        context = RewriteContext(
            unit, unit.kernels[-1], allow=ALLOW, other_launch_sites=(), launch_change=change, gpu=gpu,
            launch=None if isinstance(launch, Failure) else launch,
        )  # fmt: skip
        options = rewrite.options(context)
        if isinstance(options, Refusal):
            return f"{step[1]}: {options.reason}"
        wanted = dict(pair.split("=") for pair in (step[2] or "").split(",") if pair)
        option = next((o for o in options if all(str(o.parameters.get(k)) == v for k, v in wanted.items())), None)
        if option is None:
            return f"{step[1]} has no option {wanted}"
        made = rewrite.apply(context, option)
        data = made if isinstance(made, Refusal) else apply_edits(source.data, made.edits)
        if isinstance(made, Refusal) or isinstance(data, Failure | Refusal):
            return f"{step[1]}: {data}"
        source, change = SourceFile(source.path, data), made.launch_change
        notes.append(option.note)
    return Chained(
        Variant(source.path, source.data, parse(source).kernels[-1].qualified, launch_change=change), tuple(notes)
    )


def original_of(name: str) -> tuple[Variant, Workload]:
    source = SourceFile(f"{name}.cu", (FOLDER / f"{name}.cu").read_bytes())
    unit = parse(source)
    return Variant(source.path, source.data, unit.kernels[-1].qualified), find_workload(unit, unit.kernels[-1])


def timed_alone(device: CudaDevice, name: str, repetitions: int = 20) -> float | str:
    """Median seconds of five loops of launches of a kernel on its own workload."""
    variant, workload = original_of(name)
    launch = resolve_launch(workload)
    if isinstance(launch, Failure):
        return launch.message
    made = make_contents(launch, 0)
    built = device.build(variant, launch.template_arguments)
    if isinstance(made, Failure) or isinstance(built, Failure):
        return str(made if isinstance(made, Failure) else built)
    found = []
    for _ in range(5):
        seconds = device.time_launches(built, launch, Contents(made), repetitions, False)
        if isinstance(seconds, Failure):
            return seconds.message
        found.append(seconds)
    return sorted(found)[2]


def measured(
    name: str, chains: tuple[str, ...], experts: tuple[str, ...], device: CudaDevice, gpu: GpuFacts, seconds: float
) -> Iterator[Row]:
    plan = PairPlan(rule=StoppingRule(half_width=0.02, least=6, most=24, step=6), seconds=seconds)
    original, workload = original_of(name)
    timer = GpuTimer(original, workload, device, gpu.name, 0)
    first: float | None = None
    for chain in chains:
        made = chained(name, chain, gpu)
        if isinstance(made, str):
            yield Row(name, chain, (), None, problem=made)
            continue
        result = timer.measure(made.variant, plan)
        if isinstance(result, Failure):
            yield Row(name, chain, made.notes, None, problem=result.message)
            continue
        if first is None:
            first = result.original_time
            yield Row(name, "original", (), first, 1.0)
        yield Row(name, chain, made.notes, result.time, result.speedup, result.low, result.high)
    yield expert_row(name, experts, [timed_alone(device, one) for one in experts], first)


def expert_row(name: str, experts: tuple[str, ...], times: list[float | str], first: float | None) -> Row:
    label = "expert: " + ", ".join(experts)
    numbers = [one for one in times if isinstance(one, float)]
    if len(numbers) != len(times):
        return Row(name, label, (), None, problem=str([one for one in times if isinstance(one, str)]))
    return Row(name, label, (), sum(numbers), None if first is None else first / sum(numbers))


def predicted(
    name: str, chains: tuple[str, ...], experts: tuple[str, ...], profiler: Profiler, gpu: GpuFacts
) -> Iterator[Row]:
    def time_of(variant: Variant, workload: Workload) -> float | str:
        profile = profiler.profile(variant, workload)
        if isinstance(profile, Failure):
            return profile.message
        return profile.time if profile.time is not None else "no time"

    original, workload = original_of(name)
    first = time_of(original, workload)
    base = first if isinstance(first, float) else None
    yield Row(name, "original", (), base, 1.0, problem="" if isinstance(first, float) else first)
    for chain in chains:
        made = chained(name, chain, gpu)
        time = made if isinstance(made, str) else time_of(made.variant, workload)
        notes = () if isinstance(made, str) else made.notes
        if isinstance(time, str):
            yield Row(name, chain, notes, None, problem=time)
        else:
            yield Row(name, chain, notes, time, None if base is None else base / time)
    yield expert_row(name, experts, [time_of(*original_of(one)) for one in experts], base)


def line(row: Row) -> str:
    if row.seconds is None:
        return f"| {row.naive} | {row.variant} | | | {row.problem[:120]} |"
    interval = "" if row.low is None else f" ({row.low:.2f} to {row.high:.2f})"
    gain = "" if row.speedup is None else f"{row.speedup:.2f}x{interval}"
    return f"| {row.naive} | {row.variant} | {row.seconds * 1e6:.1f} | {gain} | {'; '.join(row.notes)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="emulator")
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=4.0, help="at most for one comparison")
    parser.add_argument("--reading", choices=("ptx", "sass"), default="sass")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    wanted = {name for name in arguments.only.split(",") if name}
    gpu = gpu_facts(arguments.gpu)
    if isinstance(gpu, Failure):
        print(gpu.message, file=sys.stderr)
        return 2
    rows: list[Row] = []
    print("| kernel | variant | us | gain | what |\n|---|---|---:|---:|---|", flush=True)

    def add(found: Iterator[Row]) -> None:
        for row in found:
            rows.append(row)
            print(line(row), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))

    chosen = {name: pair for name, pair in PAIRS.items() if not wanted or name in wanted}
    if arguments.device == "emulator":
        toolchain = discover()
        with (
            EmulatorDevice() as emulator,
            CompilePool(toolchain, 1) as pool,
            Profiler(emulator, gpu, toolchain, pool, reading=arguments.reading) as profiler,
        ):
            for name, (experts, chains) in chosen.items():
                add(predicted(name, chains, experts, profiler, gpu))
        return 0
    cuda = open_device(arguments.device, discover())
    if not isinstance(cuda, CudaDevice):
        print(cuda, file=sys.stderr)
        return 3
    for name, (experts, chains) in chosen.items():
        add(measured(name, chains, experts, cuda, gpu, arguments.seconds))
    cuda.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
