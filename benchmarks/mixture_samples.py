"""Verifies the answers that benchmarks/mixture_proof.py drew: how many are kernels, edits, and the same function?

    python benchmarks/mixture_samples.py PAIRS.jsonl PROOF.json --output VERDICTS.json

Only prompts that ask for an edit are judged: an answer to a description cannot know our kernel's name and parameters.
An answer passes if the search would read an edit from it that changes the kernel's code or launch and passes the
quick gate on the emulator. For each system: the share of answers that pass (pass@1), of prompts with any (pass@k),
and of prompts whose most frequent answer passes (self-consistency; the first drawn of equally frequent ones).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.language_models.reading import read_proposal
from optiml_core.records import Failure, Variant
from optiml_core.rewrites import CATALOGUE
from optiml_core.source import SourceFile, normalised_source, parse
from optiml_core.verification import Verifier
from optiml_core.workload import find_workload, launch_change_of

FILE = "kernel.cu"
ALLOW = frozenset({"launch", "no-alias"})


def judge(answer: str, text: bytes, verifier: Verifier) -> tuple[str, str]:
    """What became of an answer, in a word, and its edit as normalised text ("" if there is none)."""
    source = SourceFile(FILE, text)
    unit = parse(source)
    read = read_proposal(answer, source, unit.kernels[0], [one.name for one in CATALOGUE])
    if isinstance(read, Failure):
        return f"not read: {read.message[:80]}", ""
    if read.data is None:
        return "names a rewrite only", ""
    # The declaration lies in a comment, and it may be all that an edit changes.
    edited = "\n".join([*(line for line in read.data.decode().splitlines() if "optiml:" in line),
                        normalised_source(read.data)])  # fmt: skip
    before = "\n".join([*(line for line in text.decode().splitlines() if "optiml:" in line), normalised_source(text)])
    if edited == before:
        return "a copy", edited
    candidate = parse(SourceFile(FILE, read.data))
    change = launch_change_of(find_workload(unit, unit.kernels[0]), candidate, candidate.kernels[0])
    if isinstance(change, Failure):
        return f"launch: {change.message[:80]}", edited
    verdict = verifier.verify(Variant(FILE, read.data, unit.kernels[0].qualified, launch_change=change), "quick")
    return ("passed" if verdict.equivalent is True else f"refused: {verdict.reason[:80]}"), edited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs")
    parser.add_argument("proof")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    lines = Path(options.pairs).read_text("utf-8").splitlines()
    samples = json.loads(Path(options.proof).read_text())["samples"]
    by_prompt: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for sample in samples:
        by_prompt[sample["line"]].append(sample)
    device = EmulatorDevice()
    judged: list[dict[str, Any]] = []
    for line, some in sorted(by_prompt.items()):
        pair = json.loads(lines[line - 1])
        if not pair["generator"].startswith("rewrite: "):
            continue
        text = pair["prompt"].split("```cuda\n")[1].removesuffix("```\n").encode()
        unit = parse(SourceFile(FILE, text))
        original = Variant(FILE, text, unit.kernels[0].qualified)
        verifier = Verifier(original, find_workload(unit, unit.kernels[0]), device, allow=ALLOW)
        for sample in some:
            result, edited = judge(sample["answer"], text, verifier)
            judged.append({**sample, "result": result, "edited": edited, "generator": pair["generator"]})
    device.close()
    systems = sorted({one["system"] for one in judged})
    table = {name: score([one for one in judged if one["system"] == name]) for name in systems}
    for name, row in table.items():
        print(name, json.dumps(row))
    Path(options.output).write_text(json.dumps({"table": table, "judged": judged}, indent=1))


def score(judged: list[dict[str, Any]]) -> dict[str, Any]:
    prompts: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in judged:
        prompts[one["line"]].append(one)
    voted = 0
    for some in prompts.values():
        votes = Counter(one["edited"] for one in some if one["edited"])
        if votes:
            most = max(votes.values())
            chosen = next(one for one in some if votes.get(one["edited"], 0) == most)
            voted += chosen["result"] == "passed"
    passed = [one for one in judged if one["result"] == "passed"]
    return {
        "prompts": len(prompts),
        "answers": len(judged),
        "pass@1": len(passed) / len(judged),
        "pass@k": len({one["line"] for one in passed}) / len(prompts),
        "most frequent passes": voted / len(prompts),
        "results": Counter(one["result"].split(":")[0] for one in judged),
    }


if __name__ == "__main__":
    main()
