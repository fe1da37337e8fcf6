"""The whole search with a scripted model: its good edit wins, useless and hostile ones never pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optiml_core.language_models.interface import Answer, Message, Sample, SamplingSettings, SpendingLimit, Usage
from optiml_core.records import Failure, Variant
from optiml_core.search.budget import Budget
from optiml_core.search.problem import SearchProblem
from optiml_core.search.records import SearchResult
from optiml_core.search.run import optimize

EXAMPLE = Path(__file__).parents[2] / "examples" / "transpose.cu"
HEAD = json.dumps({"bottleneck": "strided stores", "idea": "go through shared memory", "expected_effect": "8x"})
SIGNATURE = "__global__ void transpose(const float* in, float* out, int rows, int cols) {"
TILED = (
    "// optiml: rows = 2048, cols = 2048, in[rows * cols]: normal, out[rows * cols]\n"
    "// optiml: block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 8))\n"
    + SIGNATURE
    + """
  __shared__ float tile[8][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x < cols && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * cols + x];
  __syncthreads();
  int lane = threadIdx.y * 32 + threadIdx.x;
  int c = lane / 8, r = lane % 8;
  if (blockIdx.x * 32 + c < cols && blockIdx.y * 8 + r < rows)
    out[(blockIdx.x * 32 + c) * rows + blockIdx.y * 8 + r] = tile[r][c];
}"""
)
EDITS = {
    "good": TILED,
    "a comment": SIGNATURE
    + "\n  // faster now\n  int x = blockIdx.x * blockDim.x + threadIdx.x;\n"
    + "  int y = blockIdx.y * blockDim.y + threadIdx.y;\n"
    + "  if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];\n}",
    "no barrier": TILED.replace("  __syncthreads();\n", ""),
    "nothing": SIGNATURE + "\n}",
    "zeros": SIGNATURE + "\n  out[0] = 0.0f;\n}",
    "inline assembly": SIGNATURE + '\n  asm("trap;");\n}',
    "cached": "__device__ float cache[4194304];\n" + SIGNATURE + "\n  out[threadIdx.x] = cache[threadIdx.x];\n}",
    "another signature": SIGNATURE.replace("int cols", "int cols, int more") + "\n}",
    "host code": SIGNATURE + '\n}\nint helper() { return system("true"); }',
    "a system call": SIGNATURE + '\n  printf("%d", fork());\n}',
    "half": SIGNATURE + "\n  out[0] = __half2float(__float2half(in[0]));\n}",
    "no kernel at all": "I would rather not.",
}  # fmt: skip


class ScriptedModel:
    """Answers each proposal request with the next edits, each judge's request with a scripted judgement."""

    def __init__(self, edits: list[str], veto: bool = False) -> None:
        self._edits = list(edits)
        self._veto = veto
        self.judged = 0

    name = "scripted"
    destination = "this machine"

    def ask(
        self,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        *,
        on_text: Callable[[int, str], None] = lambda sample, text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer | Failure:
        if "You judge" in messages[0].content:
            self.judged += 1
            said = json.dumps({"diagnosis": "scripted", "plausible": not self._veto, "veto": self._veto, "reason": ""})
            return Answer((Sample(said),), Usage(1, 1), self.name, 0.0)
        taken, self._edits = self._edits[:2], self._edits[2:]
        if not taken:
            return Failure("http-429", "enough")
        return Answer(tuple(Sample(f"{HEAD}\n```cuda\n{edit}\n```") for edit in taken), Usage(1, 1), self.name, 0.0)


def search(model: ScriptedModel, evaluations: int = 30) -> SearchResult:
    original = Variant(str(EXAMPLE), EXAMPLE.read_bytes(), "transpose")
    # Only a rewrite that has nothing to do here: what is found, the model found.
    problem = SearchProblem(original, "emulator", "H100", rewrites=("privatize-atomics",))
    result = optimize(
        problem, Budget(seconds=120, evaluations=evaluations), processes=1, models=[(model, SpendingLimit())]
    )
    assert isinstance(result, SearchResult), result
    return result


@pytest.mark.cuda_toolchain
def test_the_good_edit_wins_and_hostile_ones_never_pass() -> None:
    order = ["nothing", "zeros", "good", *(name for name in EDITS if name not in ("nothing", "zeros", "good"))]
    model = ScriptedModel([EDITS[name] for name in order])
    result = search(model)
    assert result.best is not None, [(node.state, node.reason) for node in result.nodes]
    assert b"__shared__ float tile[8][33]" in result.best.variant.data
    assert result.best.verdict is not None
    assert result.best.verdict.level == "full"
    assert model.judged >= 1
    # Of twelve edits two are the same function: the tiled kernel, which is faster, and the one that is not.
    assert [node.state for node in result.nodes[1:] if node.state in ("better", "not-better")].count("better") == 1
    assert sum(node.state in ("better", "not-better") for node in result.nodes[1:]) <= 2


@pytest.mark.cuda_toolchain
def test_the_models_veto_takes_a_variant_out() -> None:
    result = search(ScriptedModel([EDITS["good"]], veto=True))
    assert result.best is None
    assert any(node.state == "vetoed" for node in result.nodes)


@pytest.mark.cuda_toolchain
def test_a_failing_endpoint_leaves_the_search_to_the_rewrites() -> None:
    result = search(ScriptedModel([]))
    assert result.best is None
    assert any("enough" in note for note in result.notes)
