"""What a library takes for the same work: torch on the same GPU, in a process of its own. ``python -m`` runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LOOPS = 7
SECONDS = 120.0


def library_seconds(name: str, index: int) -> tuple[float | None, str]:
    """Median seconds of torch's call on GPU ``index`` and the call's name; None with the reason if it has none."""
    if not name:
        return None, "no single call does this"
    command = [sys.executable, "-m", "optiml_core.bench.library_times", name, str(index)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None, "torch gave no time"
    return answer["seconds"], str(answer["what"])


def _call(name: str, torch: Any, device: str) -> tuple[Callable[[], object], str]:
    """The call with the shapes of the suite's kernel, its inputs ready on the GPU."""
    make = torch.Generator(device=device).manual_seed(1)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, device=device, generator=make)

    functional = torch.nn.functional
    if name == "transpose":
        image = normal(1024, 1024)
        return lambda: image.t().contiguous(), "t().contiguous()"
    if name == "softmax":
        rows = normal(8192, 50257)
        return lambda: torch.softmax(rows, 1), "softmax"
    if name == "layer_norm":
        rows, weight, bias = normal(8192, 768), normal(768), normal(768)
        return lambda: functional.layer_norm(rows, (768,), weight, bias), "layer_norm"
    if name == "matvec":
        matrix, vector = normal(8192, 8192), normal(8192)
        return lambda: torch.mv(matrix, vector), "mv (cuBLAS)"
    if name == "column_sums":
        rows = normal(8192, 3072)
        return lambda: rows.sum(0), "sum(0)"
    if name == "gelu":
        values = normal(6291456)
        return lambda: functional.gelu(values, approximate="tanh"), "gelu, tanh"
    if name == "histogram":
        bins = torch.randint(0, 256, (8388608,), device=device, generator=make)
        return lambda: torch.bincount(bins, minlength=256), "bincount"
    if name == "matrix_product":
        torch.backends.cuda.matmul.allow_tf32 = False
        a, b, c = normal(4096, 4096), normal(4096, 4096), normal(4096, 4096)
        return lambda: torch.addmm(c, a, b, beta=3.0, alpha=0.5), "addmm in float32 (cuBLAS)"
    if name == "block_sums":
        parts = normal(33554432).view(-1, 256)
        return lambda: parts.sum(1), "sum(1)"
    if name == "convolution":
        image, weights = normal(1, 1, 2048, 2048), normal(1, 1, 9, 9)
        torch.backends.cudnn.allow_tf32 = False
        return lambda: functional.conv2d(image, weights, padding=4), "conv2d in float32 (cuDNN)"
    raise ValueError(name)


def main(name: str, index: int) -> dict[str, Any]:
    """The answer for one name: seconds or None, and what was called or why not."""
    try:
        import torch
    except ImportError:
        return {"seconds": None, "what": "torch is not installed (extra llm)"}
    if not torch.cuda.is_available():
        return {"seconds": None, "what": "torch sees no GPU"}
    device = f"cuda:{index}"
    with torch.no_grad(), torch.cuda.device(index):
        call, what = _call(name, torch, device)
        call()
        torch.cuda.synchronize()
        times = []
        for _ in range(LOOPS):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(20):
                call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 20 * 1e-3)
    return {"seconds": sorted(times)[LOOPS // 2], "what": f"torch {what}"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
