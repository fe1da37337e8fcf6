"""`optiml bench synthesis`: scores, models behind an endpoint, the library's calls on the prompts' own arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from optiml_core.bench.synthesis import report, run_model_prompt, run_prompt, scores, share_at
from optiml_core.bench.synthesis_library import CALLS_OF, tensors_of
from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.device.emulator import EmulatorDevice
from tests.language_models.local_endpoint import Script, serving
from tests.synthesis.test_models import endpoint, needs_openai

SQUASH = next(one for one in PROMPTS if one.name == "squash")


@pytest.fixture(scope="module")
def emulator() -> Iterator[EmulatorDevice]:
    with EmulatorDevice() as device:
        yield device


@pytest.mark.parametrize(
    ("count", "good", "k", "share"),
    [(1, 0, 1, 0.0), (1, 1, 1, 1.0), (4, 1, 1, 0.25), (4, 1, 4, 1.0), (4, 2, 2, 1 - 1 / 6), (5, 0, 5, 0.0)],
)
def test_the_share_that_passes_within_k(count: int, good: int, k: int, share: float) -> None:
    assert share_at(count, good, k) == pytest.approx(share)


@needs_openai
def test_models_are_scored_by_the_prompts_own_reference(emulator: EmulatorDevice) -> None:
    """Two of four samples are right, one is wrong and one is no kernel."""
    signature = "__global__ void map_y(const float* __restrict__ x, float* __restrict__ y, int n)"
    index = "const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) "
    bodies = [
        "y[i] = x[i] / (1.0f + fabsf(x[i]));",
        "y[i] = x[i] / (1.0f + x[i]);",
        "",
        "y[i] = x[i] / (fabsf(x[i]) + 1.0f);",
    ]
    given: list[str] = []

    def answer(messages: list[dict[str, Any]]) -> str:
        if len(messages) > 2:
            return "nothing"  # the repair of the empty one
        given.append(bodies[len(given) % 4])
        body = given[-1]
        return f"```cuda\n{signature} {{ {index}{body} }}\n```" if body else "nothing"

    with serving(Script(answer)) as url:
        result = run_model_prompt(SQUASH, emulator, endpoint(url), 4)
    assert (result.samples, result.built, result.passed) == (4, 3, 2), result.detail
    recipes = run_prompt(SQUASH, emulator)
    found = scores([recipes, result])
    assert found["recipes"]["pass@1"] == 1.0
    assert found["scripted"] == {"build@1": 0.75, "pass@1": 0.5, "pass@k": 1.0, "k": 4, "prompts": 1}
    text = report([recipes, result], emulator.name, (), "the emulator has no clock")
    assert "| scripted | 1 | 0.75 | 0.50 | 4 | 1.00 |" in text
    assert "Not measured: the emulator has no clock." in text


def test_an_endpoint_that_fails_passes_nothing(emulator: EmulatorDevice) -> None:
    with serving(Script(lambda messages: "", status=401)) as url:
        result = run_model_prompt(SQUASH, emulator, endpoint(url), 3)
    assert (result.samples, result.built, result.passed) == (3, 0, 0)
    assert result.detail


@pytest.mark.parametrize("name", sorted(CALLS_OF))
def test_the_librarys_call_does_what_the_prompt_asks(name: str) -> None:
    torch = pytest.importorskip("torch")
    prompt = next(one for one in PROMPTS if one.name == name)
    for sizes in prompt.sizes[:2]:
        call, output, _ = CALLS_OF[name]
        tensors = tensors_of(name, sizes, torch, "cpu")
        wanted = prompt.reference(prompt.make(np.random.default_rng(0), sizes), sizes)[output]
        found = np.asarray(call(torch, tensors)).reshape(-1)
        assert np.allclose(found, np.asarray(wanted).reshape(-1), rtol=1e-4, atol=1e-4)
