"""Tiny random experts of two families with different tokenizers, built in process: no network, no weights."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `llm`")
torch.set_num_threads(1)  # the models are tiny: a second thread only waits
pytest.importorskip("transformers", reason="needs the extra `llm`")

from optiml_core.mixture_of_thoughts.experts import Expert  # noqa: E402
from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings  # noqa: E402
from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder  # noqa: E402

TEXTS = [
    "__global__ void saxpy(int n, float a, const float* x, float* y) { int i = blockIdx.x * blockDim.x + 1; }",
    "for (int k = 0; k < n; k += 4) sum += a[row * n + k] * b[k * n + col];  // accumulate in a register",
    "extern __shared__ float tile[]; __syncthreads(); out[i] = tile[threadIdx.x];",
    "Größe und Maß: naïve café über 数据",
]


def make_tokenizer(vocabulary: int, texts: list[str], begins: bool) -> Any:
    """``begins``: it puts a beginning-of-text token before every text, as some families do."""
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=vocabulary, min_frequency=1, special_tokens=["<end>", "<begin>"])
    if begins:
        trained._tokenizer.post_processor = TemplateProcessing(single="<begin> $A", special_tokens=[("<begin>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, eos_token="<end>", pad_token="<end>", bos_token="<begin>"
    )


@lru_cache(maxsize=8)
def shared_expert(family: str, seed: int, vocabulary: int, hidden: int = 32, layers: int = 4) -> Expert:
    """The same expert for every test: it is frozen. A test that changes one makes its own."""
    return make_expert(family, seed, vocabulary, hidden, layers)


def make_expert(family: str, seed: int, vocabulary: int, hidden: int = 32, layers: int = 4) -> Expert:
    from transformers import AutoModelForCausalLM, Qwen2Config, Starcoder2Config

    tokenizer = make_tokenizer(vocabulary, TEXTS[: 2 + seed % 3], begins=seed == 3)
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "intermediate_size": hidden * 2,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.bos_token_id,
    }
    config = Qwen2Config(**common) if family == "qwen2" else Starcoder2Config(**common, sliding_window=None)
    torch.manual_seed(seed)
    return Expert(f"{family}-{seed}", AutoModelForCausalLM.from_config(config), tokenizer)


def make_mixture(active: int = 3, gate: float = 0.0, interaction: bool = True) -> Mixture:
    experts = [
        shared_expert("qwen2", 1, 330),
        shared_expert("starcoder2", 2, 290, hidden=48, layers=6),
        shared_expert("qwen2", 3, 400, hidden=32, layers=5),
    ]
    torch.manual_seed(7)
    settings = MixtureSettings(stacks=3, active=active, heads=4, router_hidden=16, dropout=0.0, interaction=interaction)
    mixture = Mixture(experts, HashedWordsEncoder(64), settings)
    with torch.no_grad():
        for layer in mixture.interactions:
            layer.gates.fill_(gate)
            for module in (layer.query, layer.key, layer.value, layer.output, *layer.back, *layer.into):
                module.weight.normal_(std=0.3)
            layer.nothing.normal_()
    return mixture.eval()


@pytest.fixture(scope="module")
def closed() -> Mixture:
    """Every gate at zero: an untrained mixture."""
    return make_mixture(gate=0.0)


@pytest.fixture(scope="module")
def open_gates() -> Mixture:
    """Gates wide open and large weights, so that every leak would show."""
    return make_mixture(gate=1.5)
