"""What torch takes for a prompt of ``optiml bench synthesis`` on the same GPU, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from optiml_core.bench.synthesis import PromptResult, Speed
from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.measurement import TimingDevice
from optiml_core.synthesis.draft_time import measured_seconds

LOOPS, CALLS = 7, 20
SECONDS = 120.0
Tensors = Mapping[str, Any]

# prompt -> the call on the prompt's own arrays, the name of its result, and the call for people.
CALLS_OF: dict[str, tuple[Callable[[Any, Tensors], Any], str, str]] = {
    "gemm": (lambda torch, t: t["A"] @ t["B"], "C", "matmul in float32"),
    "gemv": (lambda torch, t: torch.mv(t["A"], t["x"]), "y", "mv"),
    "axpy": (lambda torch, t: torch.add(t["y"], t["x"], alpha=1.5), "y", "add with alpha"),
    "power spectrum": (lambda torch, t: t["re"] ** 2 + t["im"] ** 2, "p", "three element-wise calls"),
    "sum": (lambda torch, t: t["x"].sum(), "result", "sum"),
    "row maximum": (lambda torch, t: t["x"].amax(1), "top", "amax(1)"),
    "euclidean norm": (lambda torch, t: torch.linalg.vector_norm(t["v"]), "norm", "vector_norm"),
    "inclusive scan": (lambda torch, t: torch.cumsum(t["x"], 0), "y", "cumsum"),
    "row scan": (lambda torch, t: torch.cumsum(t["x"], 1), "y", "cumsum(1)"),
    "argmax": (lambda torch, t: t["x"].argmax(), "index", "argmax"),
    "count above": (lambda torch, t: (t["x"] > 0.5).sum(), "count", "compare and sum"),
    "lower bound": (lambda torch, t: torch.searchsorted(t["table"], t["queries"]), "position", "searchsorted"),
    "sort": (lambda torch, t: torch.sort(t["x"]).values, "y", "sort"),
    "permute": (lambda torch, t: t["x"][t["order"].long()], "y", "index"),
    "byte histogram": (lambda torch, t: torch.bincount(t["data"], minlength=256), "counts", "bincount"),
    "convolution": (
        lambda torch, t: torch.nn.functional.conv2d(t["image"][None, None], t["filter"][None, None], padding=1)[0, 0],
        "out", "conv2d in float32",
    ),
    "squash": (lambda torch, t: torch.nn.functional.softsign(t["x"]), "y", "softsign"),
    "softmax": (lambda torch, t: torch.softmax(t["x"], 1), "y", "softmax(1)"),
}  # fmt: skip


def tensors_of(name: str, sizes: Mapping[str, int], torch: Any, device: str) -> dict[str, Any]:
    """The prompt's arrays at these sizes as tensors."""
    prompt = next(one for one in PROMPTS if one.name == name)
    arrays = prompt.make(np.random.default_rng(0), sizes)
    return {key: torch.from_numpy(values).to(device) for key, values in arrays.items()}


def speeds_of(results: tuple[PromptResult, ...], device: TimingDevice, index: int) -> tuple[Speed, ...]:
    """Kernels of the recipes and torch's calls at the declared sizes on GPU ``index``."""
    found = []
    for one in results:
        if one.draft is None or one.source != "recipes" or one.name not in CALLS_OF:
            continue
        sizes = {p.name: int(p.value) for p in one.draft.specification.parameters if p.role == "size"}
        seconds, what = library_seconds(one.name, sizes, index)
        found.append(Speed(one.name, sizes, measured_seconds(one.draft, device), seconds, what))
    return tuple(found)


def library_seconds(name: str, sizes: Mapping[str, int], index: int) -> tuple[float | None, str]:
    """Median seconds of torch's call on GPU ``index`` and the call's name; None with the reason."""
    command = [sys.executable, "-m", "optiml_core.bench.synthesis_library", name, json.dumps(dict(sizes)), str(index)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None, "torch gave no time"
    return answer["seconds"], str(answer["what"])


def main(name: str, sizes: Mapping[str, int], index: int) -> dict[str, Any]:
    """Seconds or None, and what was called or why not."""
    try:
        import torch
    except ImportError:
        return {"seconds": None, "what": "torch is not installed (extra llm)"}
    if not torch.cuda.is_available():
        return {"seconds": None, "what": "torch sees no GPU"}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    call, _, what = CALLS_OF[name]
    with torch.no_grad(), torch.cuda.device(index):
        tensors = tensors_of(name, sizes, torch, f"cuda:{index}")
        call(torch, tensors)
        torch.cuda.synchronize()
        times = []
        for _ in range(LOOPS):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(CALLS):
                call(torch, tensors)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / CALLS * 1e-3)
    return {"seconds": sorted(times)[LOOPS // 2], "what": f"torch {what}"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))))
