"""One interaction layer: the primary's hidden states attend over its peers', causally in byte offsets.

The update is a gated residual whose gate starts at zero, so that an untrained mixture is exactly its primary.
Peers are not changed: they are read-only, which lets each keep its own key-value cache while decoding.
"""

from __future__ import annotations

import math

import torch
from attrs import frozen
from torch import Tensor, nn


@frozen(eq=False)
class PeerStates:
    """What one peer offers a query: keys and values in the shared space and from which byte each may be seen.

    ``keys``, ``values``: ``(batch, length, shared)``; ``available``: ``(batch, length)`` bytes, a huge number for
    padding; ``weight``: ``(batch,)`` straight-through weights.
    """

    keys: Tensor
    values: Tensor
    available: Tensor
    weight: Tensor


NEVER = 1 << 40  # an availability that no text reaches


class InteractionLayer(nn.Module):
    """Projections of every expert into the shared space and back, for one stack border."""

    def __init__(self, hidden_sizes: tuple[int, ...], shared: int, heads: int = 8) -> None:
        super().__init__()
        if shared % heads:
            raise ValueError(f"the shared size {shared} is not a multiple of {heads} heads")
        self.heads = heads
        self.shared = shared
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in hidden_sizes)
        self.into = nn.ModuleList(nn.Linear(size, shared) for size in hidden_sizes)
        self.back = nn.ModuleList(nn.Linear(shared, size) for size in hidden_sizes)
        self.query = nn.Linear(shared, shared)
        self.key = nn.Linear(shared, shared)
        self.value = nn.Linear(shared, shared)
        self.output = nn.Linear(shared, shared)
        # A key of nothing: a query whose peers have nothing to say yet attends to it and gets zero.
        self.nothing = nn.Parameter(torch.zeros(shared))
        self.gates = nn.Parameter(torch.zeros(len(hidden_sizes)))
        for module in self.into:
            nn.init.normal_(module.weight, std=0.02)

    def project(self, expert: int, hidden: Tensor) -> Tensor:
        """An expert's hidden states ``(batch, length, d)`` in the shared space, in float32."""
        return self.into[expert](self.norms[expert](hidden.float()))

    def peer_states(self, expert: int, hidden: Tensor, available: Tensor, weight: Tensor) -> PeerStates:
        shared = self.project(expert, hidden)
        return PeerStates(self.key(shared), self.value(shared), available, weight)

    def forward(self, primary: int, hidden: Tensor, offsets: Tensor, peers: list[PeerStates]) -> Tensor:
        """The primary's hidden states after listening. ``offsets``: ``(batch, length)``, where each token ends."""
        gate = torch.tanh(self.gates[primary])
        batch, length, _ = hidden.shape
        query = self._split(self.query(self.project(primary, hidden)))
        keys = [self.nothing.expand(batch, 1, self.shared)]
        values = [torch.zeros_like(keys[0])]
        seen = [torch.ones(batch, length, 1, dtype=torch.bool, device=hidden.device)]
        for peer in peers:
            keys.append(peer.keys)
            values.append(peer.values * peer.weight[:, None, None])
            seen.append(peer.available[:, None, :] <= offsets[:, :, None])
        key, value = self._split(torch.cat(keys, 1)), self._split(torch.cat(values, 1))
        allowed = torch.cat(seen, 2)[:, None]
        scores = (query @ key.transpose(-1, -2)) / math.sqrt(self.shared // self.heads)
        attention = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
        mixed = (attention @ value).transpose(1, 2).reshape(batch, length, self.shared)
        update = self.back[primary](self.output(mixed))
        return (hidden.float() + gate * update).to(hidden.dtype)

    def _split(self, tensor: Tensor) -> Tensor:
        batch, length, _ = tensor.shape
        return tensor.view(batch, length, self.heads, self.shared // self.heads).transpose(1, 2)
