"""The search tree: selection, progressive widening, virtual loss and backup.

Selection is PUCT (Rosin 2011; Silver et al. 2017): the mean reward, scaled to 0..1 over the tree as in
MuZero, plus ``exploration * prior * sqrt(visits of the parent) / (1 + visits of the child)``. A node may have
``ceil(widening * visits ** widening_exponent)`` children (Chaslot et al. 2008), best prior first. There is no
random rollout: a new node is evaluated for real once. The mean is backed up; the best is remembered elsewhere.
The constants are ours; the paper does not give any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import define, field, frozen

from optiml_core.records import Step
from optiml_core.search.records import VERIFIED_STATES, NodeRecord, Outcome, Proposal


@frozen
class TreeSettings:
    exploration: float = 1.25
    widening: float = 2.0
    widening_exponent: float = 0.5
    depth_limit: int = 8


@define(eq=False)
class Node:
    """One variant in the tree. ``outcome`` is None while its evaluation is under way."""

    identifier: int
    parent: Node | None
    proposal: Proposal | None
    depth: int
    outcome: Outcome | None = None
    children: list[Node] = field(factory=list)
    untried: list[Proposal] = field(factory=list)
    visits: int = 0
    total_reward: float = 0.0
    pending: int = 0
    order: int = -1

    @property
    def open(self) -> bool:
        """Whether children make sense: evaluated, verified, not a duplicate."""
        return self.outcome is not None and self.outcome.state in VERIFIED_STATES

    def mean(self) -> float:
        return self.total_reward / self.visits if self.visits else 0.0


@define
class SearchTree:
    """Grows by ``select`` (which issues a leaf to evaluate) and ``complete`` (which backs a result up)."""

    settings: TreeSettings
    root: Node
    nodes: list[Node] = field(factory=list)
    by_source: dict[str, Node] = field(factory=dict)
    lowest: float = 0.0
    highest: float = 0.0
    completed: int = 0

    @classmethod
    def start(cls, outcome: Outcome, settings: TreeSettings | None = None) -> SearchTree:
        """A tree whose root is the evaluated original."""
        root = Node(identifier=0, parent=None, proposal=None, depth=0, outcome=outcome, visits=1, order=0)
        root.total_reward = outcome.reward
        root.untried = _ordered(outcome.proposals)
        tree = cls(settings or TreeSettings(), root, [root], {outcome.source_key: root})
        tree.lowest = tree.highest = outcome.reward
        return tree

    # ------------------------------------------------------------------------------- selection

    def select(self) -> Node | None:
        """Issues one new leaf, with a virtual loss on its path; None when nothing can be expanded now."""
        node = self._descend(self.root)
        if node is None:
            return None
        proposal = node.untried.pop(0)
        child = Node(len(self.nodes), node, proposal, node.depth + 1)
        node.children.append(child)
        self.nodes.append(child)
        walker: Node | None = child
        while walker is not None:
            walker.pending += 1
            walker = walker.parent
        return child

    def _descend(self, node: Node) -> Node | None:
        if node.depth < self.settings.depth_limit and node.untried and self._may_widen(node):
            return node
        ranked = sorted(
            (child for child in node.children if child.open),
            key=lambda child: (-self._score(node, child), child.identifier),
        )
        for child in ranked:
            found = self._descend(child)
            if found is not None:
                return found
        # Nothing below can grow: this node may then widen beyond its allowance rather than end the search.
        if node.depth < self.settings.depth_limit and node.untried:
            return node
        return None

    def _may_widen(self, node: Node) -> bool:
        visits = node.visits + node.pending
        allowance = math.ceil(self.settings.widening * max(visits, 1) ** self.settings.widening_exponent)
        # Only children that led somewhere use up the allowance: a refused proposal costs nothing.
        used = sum(1 for child in node.children if child.outcome is None or child.open)
        return used < int(allowance)

    def _score(self, parent: Node, child: Node) -> float:
        spread = self.highest - self.lowest
        visits = child.visits + child.pending
        total = child.total_reward + child.pending * self.lowest
        mean = total / visits if visits else self.lowest
        value = (mean - self.lowest) / spread if spread > 0 else 0.5
        prior_sum = sum(c.proposal.prior for c in parent.children if c.proposal) + sum(p.prior for p in parent.untried)
        prior = child.proposal.prior / prior_sum if child.proposal and prior_sum > 0 else 0.0
        exploration = self.settings.exploration * prior * math.sqrt(max(parent.visits + parent.pending, 1))
        return value + exploration / (1 + visits)

    # ---------------------------------------------------------------------------------- backup

    def complete(self, node: Node, outcome: Outcome) -> Node:
        """Records a leaf's outcome and backs its reward up. Returns the node that now stands for the source
        (an earlier node if this one turned out to be a duplicate)."""
        node.outcome = outcome
        self.completed += 1
        node.order = self.completed
        standing = self.by_source.get(outcome.source_key)
        if outcome.state in VERIFIED_STATES and standing is None:
            self.by_source[outcome.source_key] = node
            standing = node
            node.untried = _ordered(outcome.proposals)
        self.lowest = min(self.lowest, outcome.reward)
        self.highest = max(self.highest, outcome.reward)
        walker: Node | None = node
        while walker is not None:
            walker.pending -= 1
            walker.visits += 1
            walker.total_reward += outcome.reward
            walker = walker.parent
        return standing or node

    def abandon(self, node: Node) -> None:
        """Takes back an issued leaf that was not evaluated: its proposal is untried again."""
        parent = node.parent
        assert parent is not None
        assert node.outcome is None
        walker: Node | None = node
        while walker is not None:
            walker.pending -= 1
            walker = walker.parent
        parent.children.remove(node)
        self.nodes.remove(node)
        if node.proposal is not None:
            parent.untried = _ordered((*parent.untried, node.proposal))

    def withdraw(self, node: Node, outcome: Outcome) -> None:
        """Takes a node that turned out to be bad (its full verdict failed) out of the search."""
        assert node.outcome is not None
        difference = outcome.reward - node.outcome.reward
        node.outcome = outcome
        node.untried.clear()
        walker: Node | None = node
        while walker is not None:
            walker.total_reward += difference
            walker = walker.parent
        self.lowest = min(self.lowest, outcome.reward)

    def add_proposals(self, node: Node, proposals: tuple[Proposal, ...]) -> None:
        """Merges late proposals (a model's) into a node's untried ones, best prior first."""
        node.untried = _ordered((*node.untried, *proposals))

    @property
    def exhausted(self) -> bool:
        """Nothing is pending and nothing can be expanded."""
        return self.root.pending == 0 and self._descend(self.root) is None

    # --------------------------------------------------------------------------------- reading

    def best(self, level: str | None = None) -> Node | None:
        """The fastest verified node that is better than the original; the earliest wins a tie.

        ``level`` ``"full"`` looks only at nodes that have passed the full verdict.
        """
        candidates = [
            node
            for node in self.nodes[1:]
            if node.outcome is not None
            and node.outcome.state == "better"
            and (level is None or (node.outcome.verdict is not None and node.outcome.verdict.level == level))
        ]
        if not candidates:
            return None
        return min(candidates, key=lambda node: (_time(node), node.order))

    def path(self, node: Node) -> tuple[Node, ...]:
        """From the root (first) to ``node`` (last)."""
        reverse: list[Node] = []
        walker: Node | None = node
        while walker is not None:
            reverse.append(walker)
            walker = walker.parent
        return tuple(reversed(reverse))

    def records(self) -> tuple[NodeRecord, ...]:
        """The evaluated nodes in the order in which they were issued."""
        return tuple(_record(node) for node in self.nodes if node.outcome is not None)


def _ordered(proposals: Iterable[Proposal]) -> list[Proposal]:
    return sorted(proposals, key=lambda p: (-p.prior, p.name, sorted((k, str(v)) for k, v in p.parameters.items())))


def _time(node: Node) -> float:
    measurement = node.outcome.measurement if node.outcome else None
    return measurement.time if measurement else math.inf


def _record(node: Node) -> NodeRecord:
    outcome = node.outcome
    assert outcome is not None
    measurement = outcome.measurement
    step: Step | None = outcome.variant.steps[-1] if node.parent is not None and outcome.variant.steps else None
    if step is None and node.proposal is not None:
        step = Step(node.proposal.name, dict(node.proposal.parameters), node.proposal.rationale, node.proposal.proposer)
    return NodeRecord(
        identifier=node.identifier,
        parent=node.parent.identifier if node.parent else None,
        step=step,
        state=outcome.state,
        reason=outcome.reason,
        time=measurement.time if measurement else None,
        speedup=measurement.speedup if measurement else None,
        visits=node.visits,
        reward=outcome.reward,
        prior=node.proposal.prior if node.proposal else 1.0,
        order=node.order,
    )
