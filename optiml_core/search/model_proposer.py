"""A language model as a proposer: it thinks in its own threads while evaluations run, so that no device waits.

Its edits become proposals like any other and get the same verification; the rewrites it names get a higher prior.
An edit that could not be read or compiled is sent back once with the reason.
"""

from __future__ import annotations

import concurrent.futures
import queue
from collections.abc import Sequence

from attrs import evolve, frozen

from optiml_core.language_models.interface import Answer, LanguageModel, Message, SamplingSettings, SpendingLimit
from optiml_core.language_models.prompts import (
    REPAIR_REQUEST,
    PathStep,
    ProposerView,
    proposer_messages,
)
from optiml_core.language_models.reading import ReadAnswer, read_proposal
from optiml_core.records import Failure
from optiml_core.rewrites import CATALOGUE
from optiml_core.search.records import VERIFIED_STATES, Proposal
from optiml_core.search.tree import Node, SearchTree
from optiml_core.source import SourceFile, parse
from optiml_core.source.digest import source_digest

MODEL_PRIOR = 1.0
NAMED_REWRITE_FACTOR = 2.0
ROUNDS = 6  # times a model is asked about one node while its edits fail
EXPANDED_NODES = 12  # nodes a model is asked about, best first come


@frozen
class _Conversation:
    node: Node
    messages: tuple[Message, ...]
    repaired: bool


class ModelProposer:
    """Implements ``optimize.LateProposals``. ``notes`` collects what went wrong, once each, for the report."""

    def __init__(
        self,
        model: LanguageModel,
        workload: str,
        settings: SamplingSettings | None = None,
        limit: SpendingLimit | None = None,
        threads: int = 2,
    ) -> None:
        self._model = model
        self._workload = workload
        self._settings = settings or SamplingSettings(samples=2)
        self._limit = limit or SpendingLimit()
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="optiml-model")
        self._arrived: queue.Queue[tuple[Node, tuple[Proposal, ...]]] = queue.Queue()
        self._running: set[concurrent.futures.Future[None]] = set()
        self._seen: set[str] = set()
        self._asked = 0
        self._repairs: dict[str, _Conversation] = {}
        self._rounds: dict[int, int] = {}
        self._stop = False
        self.notes: list[str] = []

    # ------------------------------------------------------------------- optimize.LateProposals

    def submit(self, tree: SearchTree, node: Node) -> None:
        outcome = node.outcome
        if outcome is None or self._stop:
            return
        if outcome.state in VERIFIED_STATES and self._asked < EXPANDED_NODES:
            self._asked += 1
            self._start(_Conversation(node, proposer_messages(self._view(tree, node)), False))
        elif node.proposal is not None and node.proposal.replacement is not None:
            earlier = self._repairs.pop(source_digest(node.proposal.replacement), None)
            if outcome.state == "compile-error" and earlier is not None and not earlier.repaired:
                self._repair(earlier, outcome.reason)
            elif node.parent is not None:
                self._ask_again(tree, node.parent)

    def _ask_again(self, tree: SearchTree, node: Node) -> None:
        """Once more for a node whose edits failed, now that the prompt can say why; at most ``ROUNDS`` in all."""
        under_way = any(child.outcome is None for child in node.children)
        rounds = self._rounds.get(node.identifier, 1)
        if under_way or rounds >= ROUNDS or node.outcome is None:
            return
        self._rounds[node.identifier] = rounds + 1
        self._start(_Conversation(node, proposer_messages(self._view(tree, node)), False))

    def collect(self) -> list[tuple[Node, tuple[Proposal, ...]]]:
        self._running = {future for future in self._running if not future.done()}
        found = []
        while True:
            try:
                found.append(self._arrived.get_nowait())
            except queue.Empty:
                return found

    def waiting(self) -> bool:
        """Whether an answer is still on its way; waits for one a moment, so that an idle search does not spin."""
        if self._running:
            concurrent.futures.wait(self._running, 0.2, concurrent.futures.FIRST_COMPLETED)
        return bool(self._running) or not self._arrived.empty()

    def close(self) -> None:
        """Stops asking; calls under way end within their next piece of text."""
        self._stop = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -------------------------------------------------------------------------------- the calls

    def _start(self, conversation: _Conversation) -> None:
        reason = self._limit.exceeded()
        if reason:
            self._note(reason)
            return
        self._running.add(self._threads.submit(self._ask, conversation))

    def _repair(self, earlier: _Conversation, reason: str) -> None:
        request = Message("user", REPAIR_REQUEST.format(reason=reason[:2000]))
        self._start(_Conversation(earlier.node, (*earlier.messages, request), True))

    def _ask(self, conversation: _Conversation) -> None:
        settings = evolve(self._settings, samples=1) if conversation.repaired else self._settings
        answer = self._model.ask(conversation.messages, settings, cancelled=lambda: self._stop)
        if isinstance(answer, Failure):
            self._note(f"{self._model.name}: {answer.message}")
            return
        self._limit.add(answer.usage)
        self._read(conversation, answer)

    def _read(self, conversation: _Conversation, answer: Answer) -> None:
        outcome = conversation.node.outcome
        if outcome is None:
            return
        source = SourceFile(outcome.variant.file, outcome.variant.data)
        kernel = parse(source).kernel(outcome.variant.kernel)
        if kernel is None:
            return
        names = [rewrite.name for rewrite in CATALOGUE]
        proposals: list[Proposal] = []
        for sample in answer.samples:
            read = read_proposal(sample.text, source, kernel, names)
            said = (*conversation.messages, Message("assistant", sample.text))
            if isinstance(read, Failure):
                self._note(f"{self._model.name}: {read.message}")
                if read.kind == "bad-answer" and not conversation.repaired:
                    self._repair(_Conversation(conversation.node, said, False), read.message)
                continue
            proposals += self._proposals(conversation, read, said)
        if proposals:
            self._arrived.put((conversation.node, tuple(proposals)))

    def _proposals(self, conversation: _Conversation, read: ReadAnswer, said: tuple[Message, ...]) -> list[Proposal]:
        outcome = conversation.node.outcome
        assert outcome is not None
        rationale = "; ".join(part for part in (read.bottleneck, read.idea, read.expected_effect) if part)
        found = [
            evolve(proposal, prior=proposal.prior * NAMED_REWRITE_FACTOR, rationale=proposal.rationale)
            for proposal in outcome.proposals
            if proposal.name in read.rewrites
        ]
        if read.data is not None:
            digest = source_digest(read.data)
            if digest not in self._seen and digest != source_digest(outcome.variant.data):
                self._seen.add(digest)
                self._repairs[digest] = _Conversation(conversation.node, said, conversation.repaired)
                found.append(
                    Proposal(
                        "model-edit", {"model": self._model.name}, rationale, MODEL_PRIOR, self._model.name, read.data
                    )
                )
        return found

    def _view(self, tree: SearchTree, node: Node) -> ProposerView:
        outcome = node.outcome
        assert outcome is not None
        measurement = outcome.measurement
        path = [PathStep(_step_text(step), step.outcome.reason if step.outcome else "") for step in tree.path(node)[1:]]
        failed = [
            PathStep(_step_text(child), f"{child.outcome.state}: {child.outcome.reason}")
            for child in node.children
            if child.outcome is not None and not child.open
        ]
        return ProposerView(
            outcome.variant.data.decode("utf-8", "replace"),
            outcome.variant.kernel,
            self._workload,
            measurement.target if measurement else "",
            f"{measurement.time * 1e6:.4g} us ({measurement.kind})" if measurement else "not timed",
            outcome.findings,
            path,
            failed,
            {rewrite.name: f"answers {', '.join(rewrite.answers)}" for rewrite in CATALOGUE},
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


class JoinedProposers:
    """Several models side by side: every one proposes, what arrives is pooled and checked alike."""

    def __init__(self, proposers: Sequence[ModelProposer]) -> None:
        self._proposers = tuple(proposers)

    def submit(self, tree: SearchTree, node: Node) -> None:
        for proposer in self._proposers:
            proposer.submit(tree, node)

    def collect(self) -> list[tuple[Node, tuple[Proposal, ...]]]:
        return [found for proposer in self._proposers for found in proposer.collect()]

    def waiting(self) -> bool:
        return any(proposer.waiting() for proposer in self._proposers)


def _step_text(node: Node) -> str:
    if node.proposal is None:
        return "original"
    settings = ", ".join(f"{name} = {value}" for name, value in node.proposal.parameters.items())
    return f"{node.proposal.name} ({settings})" if settings else node.proposal.name
