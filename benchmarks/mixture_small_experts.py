"""Trains two small experts from nothing, each on another skill, for a proof of the mixture on a machine without a GPU.

    python benchmarks/mixture_small_experts.py PAIRS.jsonl FOLDER --seconds 300

``edits`` (Qwen2's architecture) sees only pairs that edit a kernel, ``kernels`` (StarCoder2's) only those that write
one from a comment; each has a byte-level BPE of its own. About a million weights each. Held-out groups are not read.
``benchmarks/mixture_proof.py`` then takes both as frozen experts. This is the setting that favours a mixture: what one
expert cannot do, the other can.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch

from optiml_core.mixture_of_thoughts.training_data import TrainingPair, read_training_data
from optiml_core.records import Failure

SKILLS = {"edits": ("rewrite: ", "qwen2", 1800), "kernels": ("recipe: ", "starcoder2", 1300)}


def make(skill: str, texts: list[str]) -> tuple[Any, Any]:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Starcoder2Config

    _, family, vocabulary = SKILLS[skill]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=vocabulary, min_frequency=2, special_tokens=["<end>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<end>", pad_token="<end>")
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer) + 8, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 2048,
        "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None, "tie_word_embeddings": True,
    }  # fmt: skip
    config = Qwen2Config(**common) if family == "qwen2" else Starcoder2Config(**common, sliding_window=None)
    return AutoModelForCausalLM.from_config(config), tokenizer


def train(skill: str, pairs: list[TrainingPair], seconds: float, batch: int = 6) -> tuple[Any, Any, dict[str, float]]:
    """AdamW on prompt and answer until the time is up; a cosine over the time."""
    texts = [(one.pair.prompt + one.pair.answer).decode() for one in pairs]
    torch.manual_seed(0)
    model, tokenizer = make(skill, texts)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    rng = random.Random(0)
    started = time.monotonic()
    loss, steps = 0.0, 0
    while (at := (time.monotonic() - started) / seconds) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (steps + 1) / 30) * max(0.05, 1.0 - at)
        some = [rng.choice(ids) for _ in range(batch)]
        longest = max(len(one) for one in some)
        inputs = torch.tensor([one + [0] * (longest - len(one)) for one in some])
        labels = torch.tensor([one + [-100] * (longest - len(one)) for one in some])
        found = model(input_ids=inputs, labels=labels).loss
        optimizer.zero_grad()
        found.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        loss = 0.95 * loss + 0.05 * float(found.detach()) if steps > 1 else float(found.detach())
        if steps % 50 == 0:
            print(f"{skill}: step {steps}, {loss:.3f} nats a token", flush=True)
    weights = sum(p.numel() for p in model.parameters())
    return model, tokenizer, {"steps": steps, "nats_per_token": loss, "weights": weights, "pairs": len(pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs")
    parser.add_argument("folder")
    parser.add_argument("--skill", choices=list(SKILLS), action="append")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--longest", type=int, default=1200, help="bytes of a pair")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = read_training_data(Path(options.pairs), 0.08, options.longest)
    if isinstance(data, Failure):
        raise SystemExit(f"{data.file}:{data.line}: {data.message}")
    for skill in options.skill or list(SKILLS):
        pairs = [one for one in data.trained if one.generator.startswith(SKILLS[skill][0])]
        model, tokenizer, facts = train(skill, pairs, options.seconds)
        folder = Path(options.folder) / skill
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "facts.json").write_text(json.dumps(facts))
        print(skill, facts, flush=True)


if __name__ == "__main__":
    main()
