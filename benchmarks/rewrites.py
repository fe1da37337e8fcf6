"""Tries every rewrite on every kernel of some folders: how many it applies to, compile, and pass verification.

    python benchmarks/rewrites.py FOLDER... [--seconds N] [--no-verify] [--details FILE.jsonl]

A kernel counts for compiling if it compiles before the rewrite, and for verification if its workload is declared
or inferred and the original itself gets a verdict. Chains: `register-accumulator` is applied first where a kernel
accumulates in memory, as the search would. Only the first option of each rewrite is tried. No text of the files
is kept: the details hold names, reasons and verdicts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.records import Failure, Kernel, Step, Variant
from optiml_core.rewrites import CATALOGUE, Refusal, RewriteContext, rewrite_named
from optiml_core.source import SourceFile, TranslationUnit, apply_edits, parse
from optiml_core.toolchain import CompilePool, compile_request, discover, gpu_facts
from optiml_core.verification import Verifier
from optiml_core.workload import find_workload, resolve_launch

ALLOW = frozenset({"launch", "no-alias"})


def changed(unit: TranslationUnit, kernel: Kernel, name: str, variant: Variant) -> Variant | str:
    """The variant after the rewrite's first option, or why there is none."""
    rewrite = rewrite_named(name)
    assert rewrite is not None
    launch = resolve_launch(find_workload(unit, kernel), 0, None, variant.launch_change)
    gpu = gpu_facts("H100")
    context = RewriteContext(
        unit, kernel, launch=None if isinstance(launch, Failure) else launch, allow=ALLOW, other_launch_sites=(),
        launch_change=variant.launch_change, gpu=None if isinstance(gpu, Failure) else gpu,
    )  # fmt: skip
    options = rewrite.options(context)
    if isinstance(options, Refusal):
        return options.reason
    made = rewrite.apply(context, options[0])
    if isinstance(made, Refusal):
        return made.reason
    data = apply_edits(unit.source.data, [one for one in made.edits if one.file == unit.source.path])
    if isinstance(data, Failure):
        return data.message
    step = Step(name, options[0].parameters, made.rationale)
    return Variant(
        variant.file, data, variant.kernel, variant.flags, made.launch_change, (*variant.steps, step), made.not_checked
    )


class Trial:
    """One kernel: its original, compiled once, and the verifier that judges its rewritten forms."""

    def __init__(self, unit: TranslationUnit, kernel: Kernel, pool: CompilePool, device: EmulatorDevice | None) -> None:
        self.unit, self.kernel, self.pool = unit, kernel, pool
        self.original = Variant(unit.source.path, unit.source.data, kernel.qualified)
        self.arguments = kernel.instantiations[0] if kernel.instantiations else ()
        self.compiles = not kernel.template_parameters or bool(self.arguments)
        self.compiles = self.compiles and self.compile(self.original) == "ok"
        self.verifier: Verifier | None = None
        if device is not None and self.compiles:
            workload = find_workload(unit, kernel)
            if not workload.failures and not isinstance(resolve_launch(workload), Failure):
                verifier = Verifier(self.original, workload, device, allow=frozenset({"no-alias"}))
                if verifier.verify(self.original, "quick").equivalent is True:
                    self.verifier = verifier

    def compile(self, variant: Variant) -> str:
        unit = parse(SourceFile(variant.file, variant.data))
        kernel = unit.kernel(variant.kernel)
        if kernel is None:
            return "the kernel is gone"
        request = compile_request(unit, kernel, "sm_90", template_arguments=self.arguments)
        made = request if isinstance(request, Failure) else self.pool.compile(request)
        return f"{made.kind}: {made.message}" if isinstance(made, Failure) else "ok"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--details", type=Path)
    arguments = parser.parse_args()
    started = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()
    kernels = 0
    details = arguments.details.open("w") if arguments.details else None
    device = None if arguments.no_verify else EmulatorDevice()
    with CompilePool(discover(), workers=1) as pool:
        files = sorted({p for f in arguments.folders for s in ("*.cu", "*.cuh", "*.h") for p in f.rglob(s)})
        for path in files:
            source = SourceFile.read(path)
            if isinstance(source, Failure) or time.monotonic() - started > arguments.seconds:
                continue
            unit = parse(source)
            for kernel in unit.kernels:
                kernels += 1
                for row in tried(unit, kernel, pool, device):
                    for outcome in row["outcomes"]:
                        counts[(row["rewrite"], outcome)] += 1
                    if details is not None:
                        details.write(json.dumps({"file": str(path), "kernel": kernel.qualified, **row}) + "\n")
                        details.flush()
    if device is not None:
        device.close()
    columns = ("options", "compilable", "compiled", "verifiable", "equivalent", "not equivalent", "could not tell")
    print(f"{kernels} kernels in {len(files)} files, {time.monotonic() - started:.0f} s\n")
    print("| rewrite | " + " | ".join(columns) + " |\n|---" + "|---:" * len(columns) + "|")
    for rewrite in CATALOGUE:
        print(f"| {rewrite.name} | " + " | ".join(str(counts[(rewrite.name, c)]) for c in columns) + " |")


def tried(unit: TranslationUnit, kernel: Kernel, pool: CompilePool, device: EmulatorDevice | None) -> list[dict]:  # type: ignore[type-arg]
    """One row per rewrite that has an option for the kernel."""
    original = Variant(unit.source.path, unit.source.data, kernel.qualified)
    offers: dict[str, Variant] = {}
    accumulated: Variant | None = None
    for rewrite in CATALOGUE:
        made = changed(unit, kernel, rewrite.name, original)
        if isinstance(made, str) and rewrite.name in ("register-tile-matmul", "parallel-row", "parallel-column"):
            if accumulated is None:
                accumulated = chain_start(unit, kernel)
            if accumulated.steps:
                later = parse(SourceFile(accumulated.file, accumulated.data))
                own = later.kernel(kernel.qualified)
                made = made if own is None else changed(later, own, rewrite.name, accumulated)
        if not isinstance(made, str):
            offers[rewrite.name] = made
    if not offers:
        return []
    trial = Trial(unit, kernel, pool, device)
    rows = []
    for name, variant in offers.items():
        outcomes, reason = ["options"], ""
        if trial.compiles:
            outcomes.append("compilable")
            result = trial.compile(variant)
            if result == "ok":
                outcomes.append("compiled")
            else:
                reason = result
        if trial.verifier is not None and "compiled" in outcomes:
            outcomes.append("verifiable")
            verdict = trial.verifier.verify(variant, "quick")
            words = {True: "equivalent", False: "not equivalent", None: "could not tell"}
            outcomes.append(words[verdict.equivalent])
            reason = verdict.reason
        rows.append({"rewrite": name, "outcomes": outcomes, "reason": reason})
    return rows


def chain_start(unit: TranslationUnit, kernel: Kernel) -> Variant:
    """The kernel with what its loops accumulate kept in registers."""
    variant = Variant(unit.source.path, unit.source.data, kernel.qualified)
    for _ in range(3):
        current = parse(SourceFile(variant.file, variant.data))
        own = current.kernel(kernel.qualified)
        made = "" if own is None else changed(current, own, "register-accumulator", variant)
        if isinstance(made, str):
            break
        variant = made
    return variant


if __name__ == "__main__":
    main()
