"""What training minimises: the language-model loss through straight-through routing weights, entropy, balance,
consistency (arXiv 2509.21164, with the defects of public code mended: docs/mixture-of-thoughts.md).

How the language-model loss reaches the router:

- through the peers: what a peer says is multiplied by its straight-through weight, in the interaction layers;
- through the choice of the primary: no gradient flows through a choice of output head, so a row's loss above or below
  the usual is charged to the probability of its primary, by a term whose value is exactly zero. Experts have
  different tokens, so the comparison is in nats a byte of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor, nn

from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureOutput, Pair, RowLogits, answer_losses
from optiml_core.mixture_of_thoughts.router import balance_loss, entropy_loss


@frozen
class LossWeights:
    """The public code's weights for entropy, balance and consistency; ``temperature`` of the consistency."""

    entropy: float = 0.01
    balance: float = 0.01
    consistency: float = 0.05
    temperature: float = 2.0


@frozen(eq=False)
class Losses:
    """``total`` is what is minimised; the others are for the log.

    ``language``: nats a token of the primaries' own tokens. ``bits_per_byte``: of the answers, which compares across
    tokenizers. ``usual``: nats a byte, for the next step's comparison.
    """

    total: Tensor
    language: float
    bits_per_byte: float
    entropy: float
    balance: float
    consistency: float
    usual: float
    tokens: int
    primaries: tuple[int, ...]


def losses_of(
    mixture: Mixture,
    pairs: Sequence[Pair],
    weights: LossWeights,
    generator: torch.Generator,
    usual: float | None,
    primary: int | None = None,
) -> Losses:
    """One forward over the pairs, and a second with re-drawn routing where the consistency asks for it.

    ``usual``: nats a byte that are neither praised nor blamed (None: this batch's mean). ``primary`` leads every
    prompt, if given; then the choice of it learns nothing.
    """
    forced = None if primary is None else (primary,) * len(pairs)
    output = mixture(pairs, generator=generator, forced_primary=forced)
    routing = output.routing
    rows = [answer_losses(row) for row in output.rows]
    nats_per_byte = [float(losses.detach().sum()) / len(pair.answer) for losses, pair in zip(rows, pairs, strict=True)]
    language = torch.cat(rows).mean()
    mean = sum(nats_per_byte) / len(nats_per_byte)
    compared = mean if usual is None else usual
    chosen = routing.weights[torch.arange(len(pairs)), list(routing.primary)]
    blame = torch.tensor([one - compared for one in nats_per_byte], device=chosen.device)
    choice = ((chosen - chosen.detach()) * blame).mean() if primary is None else language.new_zeros(())
    entropy = entropy_loss(routing.scores)
    balance = balance_loss(routing.scores)
    consistency = language.new_zeros(())
    if weights.consistency and 1 < mixture.router.active < len(mixture.experts):
        again = mixture(pairs, generator=generator, forced_primary=routing.primary)
        consistency = consistency_loss(output, again, weights.temperature)
    total = (
        language + choice + weights.entropy * entropy + weights.balance * balance + weights.consistency * consistency
    )
    tokens = sum(len(losses) for losses in rows)
    return Losses(
        total,
        float(language.detach()),
        mean / math.log(2.0),
        float(entropy.detach()),
        float(balance.detach()),
        float(consistency.detach()),
        mean,
        tokens,
        routing.primary,
    )


def consistency_loss(one: MixtureOutput, other: MixtureOutput, temperature: float) -> Tensor:
    """Symmetric Kullback-Leibler divergence of two routings' predictions of the answers, mean over their tokens."""
    found = [
        _symmetric_divergence(_answer_logits(first), _answer_logits(second), temperature)
        for first, second in zip(one.rows, other.rows, strict=True)
    ]
    return torch.cat(found).mean() * temperature**2


def _answer_logits(row: RowLogits) -> Tensor:
    return row.logits[max(row.prompt_tokens, 1) - 1 : len(row.tokens.ids) - 1].float()


def _symmetric_divergence(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    one = nn.functional.log_softmax(first / temperature, dim=-1)
    other = nn.functional.log_softmax(second / temperature, dim=-1)
    return 0.5 * ((one.exp() - other.exp()) * (one - other)).sum(-1)


@torch.no_grad()
def held_out_bits_per_byte(
    mixture: Mixture, pairs: Sequence[Pair], batch: int = 8, forced_primary: int | None = None
) -> float:
    """Bits a byte of the answers, all answers together, without noise or dropout."""
    was_training = mixture.training
    mixture.eval()
    nats, size = 0.0, 0
    for start in range(0, len(pairs), batch):
        some = pairs[start : start + batch]
        forced = None if forced_primary is None else (forced_primary,) * len(some)
        output = mixture(some, forced_primary=forced)
        nats += sum(float(answer_losses(row).sum()) for row in output.rows)
        size += sum(len(pair.answer) for pair in some)
    mixture.train(was_training)
    return nats / size / math.log(2.0)
