"""Of kernels launched by name in their own file, how many get a whole workload by inference?

    python benchmarks/infer_workloads.py FOLDER... [--alone] [--list] [--every N]

Counted are kernels in .cu files with a launch by name in the same file whose parameters are all pointers or numbers
(no texture handles, no library state).
Complete: a launch can be made with nothing guessed (a choice between values that the program runs through in turn is
no guess). Guessed: a launch can be made, with guesses that the problems name. Open: something has to be declared first,
and the problems say what. ``--alone``: read no header and no caller. ``--list``: one line for each kernel.
``--every``: of each folder's files, in the order of their names, only every N-th.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

from optiml_core.records import Failure, Kernel
from optiml_core.source import SourceFile, parse
from optiml_core.workload import Workload, find_workload, resolve_launch


def counts_here(kernel: Kernel, launched: bool) -> bool:
    """Whether a kernel is one of those that are counted."""
    plain = all(not one.is_reference and one.type.count("*") <= 1 and one.name for one in kernel.parameters)
    by_value = [one for one in kernel.parameters if not one.is_pointer]
    numbers = all(one.element is None or (not one.element.fields and one.element.lanes == 1) for one in by_value)
    words = ("int", "float", "double", "size_t", "long", "char", "bool", "unsigned", "short", "half", "uint")
    known = all(one.element is not None or any(word in one.type for word in words) for one in by_value)
    # A texture or surface is a handle to something else, a random state belongs to a library.
    handles = any(re.search(r"Texture|Surface|curandState|Function_t", one.type) for one in kernel.parameters)
    return launched and plain and numbers and known and not handles and bool(kernel.parameters)


def outcome(workload: Workload) -> tuple[str, str]:
    """``complete``, ``guessed`` or ``open``, and why."""
    launch = resolve_launch(workload)
    if isinstance(launch, Failure):
        return "open", launch.message
    choices = (" in turn; ", "changes in a loop", "the Makefile beside the file")
    guesses = [one.message for one in workload.problems if not any(part in one.message for part in choices)]
    return ("guessed", guesses[0]) if guesses else ("complete", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    per_folder: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    files, seconds, slowest = 0, 0.0, 0.0
    for folder in options.folders:
        for path in sorted(Path(folder).rglob("*.cu"))[:: options.every]:
            source = SourceFile.read(str(path))
            if isinstance(source, Failure):
                continue
            files += 1
            unit = parse(source)
            for kernel in unit.kernels:
                if not counts_here(kernel, bool(unit.launches_of(kernel))):
                    continue
                start = time.perf_counter()
                workload = find_workload(unit, kernel, others=() if options.alone else None)
                took = time.perf_counter() - start
                seconds, slowest = seconds + took, max(slowest, took)
                result, why = outcome(workload)
                counts[result] += 1
                per_folder.setdefault(Path(folder).name, Counter())[result] += 1
                if why:
                    reasons[f"{result}: {_general(why)}"] += 1
                if options.list:
                    print(f"{result}\t{path}:{kernel.name_range.start_line}\t{kernel.qualified}\t{why}")
    total = sum(counts.values())
    print(f"{files} files, {total} kernels, {1000 * seconds / max(total, 1):.0f} ms each (slowest {slowest:.2f} s)")
    for name, count in counts.most_common():
        print(f"  {name}: {count} ({100 * count / max(total, 1):.1f} %)")
    for name, folder_counts in per_folder.items():
        print(f"  {name}: {dict(folder_counts)}")
    for reason, count in reasons.most_common(25):
        print(f"    {count:4d} {reason}")
    return 0


def _general(message: str) -> str:
    """A message without the names in it, for counting."""
    parts = message.split("`")
    return "`".join("…" if index % 2 else part for index, part in enumerate(parts))[:110]


if __name__ == "__main__":
    sys.exit(main())
