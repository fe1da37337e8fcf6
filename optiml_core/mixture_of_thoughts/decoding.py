"""Decoding with a cache for every expert: each reads the growing text by its own tokenizer, none is re-run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from attrs import frozen
from torch import Tensor

from optiml_core.mixture_of_thoughts.byte_offsets import encode_whole, segment_tokens
from optiml_core.mixture_of_thoughts.experts import CachedExpert
from optiml_core.mixture_of_thoughts.interaction import PeerStates
from optiml_core.mixture_of_thoughts.mixture import Mixture


@frozen
class Sampling:
    """``temperature`` 0 is greedy. ``top_p``: nucleus. ``seed`` makes a run repeatable."""

    tokens: int = 256
    temperature: float = 0.0
    top_p: float = 0.95
    seed: int = 0
    stop: tuple[bytes, ...] = ()


class _CachedPeer:
    """A peer's cache with its keys and values at every border so far."""

    def __init__(self, mixture: Mixture, index: int, weight: Tensor) -> None:
        self._mixture, self._index, self._weight = mixture, index, weight
        self._reader = CachedExpert(mixture.experts[index], mixture.stack_ends[index])
        self._reached = 0
        self.states: list[PeerStates] | None = None

    def read_up_to(self, text: bytes) -> None:
        """Reads the segments that ``text`` has closed since the last call."""
        expert = self._mixture.experts[self._index]
        first = expert.start if self._reader.length == 0 else ()
        tokens, self._reached = segment_tokens(expert.segment_ids, expert.spelled, text, self._reached, first)
        if not tokens.ids:
            return
        _, hidden = self._reader.read(tokens.ids)
        available = torch.tensor([tokens.available], device=hidden[0].device)
        new = [
            layer.peer_states(self._index, state, available, self._weight)
            for layer, state in zip(self._mixture.interactions, hidden, strict=True)
        ]
        if self.states is None:
            self.states = new
        else:
            self.states = [
                PeerStates(
                    torch.cat([old.keys, more.keys], 1),
                    torch.cat([old.values, more.values], 1),
                    torch.cat([old.available, more.available], 1),
                    self._weight,
                )
                for old, more in zip(self.states, new, strict=True)
            ]


class Decoder:
    """One prompt's decoding. ``step`` gives the logits after the text so far."""

    @torch.no_grad()
    def __init__(self, mixture: Mixture, prompt: bytes, primary: int | None = None) -> None:
        mixture.eval()
        forced = None if primary is None else (primary,)
        routing = mixture.route([prompt], forced_primary=forced)
        self.primary = routing.primary[0]
        self._mixture = mixture
        self._expert = mixture.experts[self.primary]
        self._reader = CachedExpert(self._expert, mixture.stack_ends[self.primary])
        self._peers = [
            _CachedPeer(mixture, index, routing.weights[:, index])
            for index in range(len(mixture.experts))
            if mixture.settings.interaction and index != self.primary and bool(routing.active[0, index])
        ]
        self._text = b""
        whole = encode_whole(self._expert.tokenizer, self._expert.spelled, prompt)
        self.logits = self._read(self._expert.start + whole)

    def _read(self, ids: tuple[int, ...]) -> Tensor:
        offsets = []
        at = len(self._text)
        for identifier in ids:
            piece = self._expert.spelled[identifier]
            self._text += piece
            at += len(piece)
            offsets.append(at)
        for peer in self._peers:
            peer.read_up_to(self._text)
        ends = torch.tensor([offsets], device=self._expert.device)

        def listen(border: int, hidden: Tensor) -> Tensor | None:
            if not self._mixture.settings.interaction:
                return None
            heard = [peer.states[border] for peer in self._peers if peer.states is not None]
            changed: Tensor = self._mixture.interactions[border](self.primary, hidden, ends, heard)
            return changed

        logits, _ = self._reader.read(ids, listen)
        return logits[0]

    @torch.no_grad()
    def step(self, identifier: int) -> Tensor:
        """Appends one token and returns the logits ``(vocabulary,)`` after it."""
        self.logits = self._read((identifier,))
        return self.logits[-1]


def generate(
    mixture: Mixture,
    prompt: bytes,
    sampling: Sampling,
    cancelled: Callable[[], bool] = lambda: False,
    primary: int | None = None,
) -> Iterator[bytes]:
    """Streams the answer's bytes, token by token, until an end token, a stop text or the limit."""
    decoder = Decoder(mixture, prompt, primary)
    expert = mixture.experts[decoder.primary]
    ends = expert.end_of_text()
    generator = torch.Generator().manual_seed(sampling.seed)
    logits = decoder.logits[-1]
    answer = b""
    for _ in range(sampling.tokens):
        if cancelled():
            return
        identifier = choose(logits, sampling, generator)
        if identifier in ends:
            return
        piece = expert.spelled[identifier]
        answer += piece
        yield piece
        if any(stop in answer for stop in sampling.stop):
            return
        logits = decoder.step(identifier)


def choose(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """One token id from ``(vocabulary,)`` logits."""
    if sampling.temperature <= 0:
        return int(logits.argmax())
    probabilities = torch.softmax(logits.float().cpu() / sampling.temperature, dim=-1)
    ordered, order = probabilities.sort(descending=True, stable=True)
    # The smallest set whose mass reaches top_p: a token is kept if the mass before it has not reached it yet.
    kept = ordered * ((ordered.cumsum(0) - ordered) < sampling.top_p)
    return int(order[torch.multinomial(kept, 1, generator=generator)])
