"""The router: from the prompt alone, which expert leads and which peers it listens to.

Mixture of Thoughts (arXiv 2509.21164): a frozen sentence encoder embeds the prompt, a small MLP scores the
experts, the highest are active and the very highest is primary. In training Gumbel noise moves the choice itself,
and the straight-through weights carry the language-model loss back to the scores.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from attrs import frozen
from torch import Tensor, nn


class PromptEncoder(Protocol):
    """Frozen; embeds prompts. Sees the prompt only, never the answer."""

    @property
    def size(self) -> int: ...

    @property
    def identity(self) -> str: ...

    def encode(self, prompts: list[str]) -> Tensor:
        """``(len(prompts), size)`` float32, without gradient."""
        ...


class HashedWordsEncoder:
    """A frozen encoder with no weights: hashed words and byte pairs, signed, scaled to unit length.

    For tests and for machines with no encoder; a real one is ``TransformerEncoder``.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    @property
    def identity(self) -> str:
        return f"hashed-words-{self._size}"

    def encode(self, prompts: list[str]) -> Tensor:
        import hashlib

        rows = torch.zeros(len(prompts), self._size)
        for row, prompt in zip(rows, prompts, strict=True):
            words = prompt.lower().split()
            for feature in words + [prompt[i : i + 3] for i in range(len(prompt) - 2)]:
                digest = hashlib.blake2b(feature.encode(), digest_size=5).digest()
                row[int.from_bytes(digest[:4], "little") % self._size] += 1.0 if digest[4] & 1 else -1.0
        return nn.functional.normalize(rows, dim=1)


class TransformerEncoder:
    """A frozen sentence encoder of ``transformers`` (the paper: DeBERTa-v3), mean-pooled over its tokens."""

    def __init__(self, model: Any, tokenizer: Any, name: str, limit: int = 512) -> None:
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._name = name
        self._limit = limit

    @property
    def size(self) -> int:
        return int(self._model.config.hidden_size)

    @property
    def identity(self) -> str:
        return f"{self._name}-{self.size}"

    @torch.no_grad()
    def encode(self, prompts: list[str]) -> Tensor:
        batch = self._tokenizer(prompts, return_tensors="pt", padding=True, truncation=True, max_length=self._limit)
        batch = {key: value.to(next(self._model.parameters()).device) for key, value in batch.items()}
        hidden = self._model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return ((hidden * mask).sum(1) / mask.sum(1).clamp(min=1)).float().cpu()


@frozen(eq=False)
class Routing:
    """For a batch: scores ``(batch, experts)``, the primary of each row, which experts are active, and the
    straight-through weights (exactly 1 for active experts and 0 for others in value, soft in gradient)."""

    scores: Tensor
    primary: tuple[int, ...]
    active: Tensor  # bool (batch, experts)
    weights: Tensor  # (batch, experts)


class Router(nn.Module):
    """Two hidden layers with ReLU and dropout, as the derived public code has them."""

    def __init__(self, encoder_size: int, experts: int, active: int, hidden: int = 512, dropout: float = 0.1) -> None:
        super().__init__()
        if not 1 <= active <= experts:
            raise ValueError(f"{active} of {experts} experts cannot be active")
        self.active = active
        self.scorer = nn.Sequential(
            nn.Linear(encoder_size, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, experts),
        )

    def forward(
        self,
        embedded: Tensor,
        *,
        generator: torch.Generator | None = None,
        forced_primary: tuple[int, ...] | None = None,
    ) -> Routing:
        """Routes each row. In training mode with a ``generator``, Gumbel noise is added before choosing."""
        scores: Tensor = self.scorer(embedded)
        noisy = scores
        if self.training and generator is not None:
            uniform = torch.rand(scores.shape, generator=generator).clamp(1e-9, 1 - 1e-9).to(scores.device)
            noisy = scores - torch.log(-torch.log(uniform))
        chosen = noisy.detach().clone()
        if forced_primary is not None:
            rows = torch.arange(len(forced_primary))
            chosen[rows, list(forced_primary)] = float("inf")
        order = chosen.argsort(dim=1, descending=True, stable=True)
        hard = torch.zeros_like(scores).scatter_(1, order[:, : self.active], 1.0)
        soft = torch.softmax(noisy, dim=1)
        weights = hard + soft - soft.detach()
        return Routing(scores, tuple(int(row[0]) for row in order), hard.bool(), weights)


def entropy_loss(scores: Tensor) -> Tensor:
    """Negative mean entropy of the routing distribution: minimising it keeps the router undecided for a while."""
    log = torch.log_softmax(scores, dim=1)
    return (log.exp() * log).sum(1).mean()


def balance_loss(scores: Tensor) -> Tensor:
    """Squared coefficient of variation of the experts' load (Shazeer et al. 2017), on differentiable loads."""
    load = torch.softmax(scores, dim=1).mean(0)
    return load.var(unbiased=False) / load.mean().square()
