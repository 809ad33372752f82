"""Joint moves: bundles that go to one slot together, where that lowers the traffic between nodes.

A line of bundles in two halves on two nodes stays there as long as one bundle moves at a time: each loses on one side
what it gains on the other. So bundles are added one after the other, always the one with the greatest gain, even a
negative one. The beginning of that order with the greatest sum of gains moves (Kernighan and Lin, "An Efficient
Heuristic Procedure for Partitioning Graphs", 1970; Fiduccia and Mattheyses, "A Linear-Time Heuristic for Improving
Network Partitions", 1982). Paper [4], algorithm 2, knows a single bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from scheduler.model.fragment import node_of

from .deployed_bundles import Deployment

MOST = 16  # bundles that go together: each of them stands still for a moment
MOST_EFFORT = 100_000  # bundles that a search weighs, after which it begins with no further one

Groups = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class JointMove:
    """Bundles that go to a slot together. ``gain``: the additional traffic within nodes; ``worth``: what of it exceeds
    the least that so many moves have to bring."""

    bundles: tuple[str, ...]
    target: str
    gain: float
    worth: float


class Search:
    """Finds joint moves in one deployment.

    Parameters
    ----------
    may_go : callable
        True of a bundle that may go to another node.
    most_cores : float
        The largest load of a slot afterwards, in cores.
    least : float
        The least saving of each move, in the unit of the traffic.
    groups : mapping of str to collection of str, optional
        The groups of each bundle: all bundles of a joint move share one. Without it any may go together.
    """

    def __init__(
        self, deployment: Deployment, *, may_go: Callable[[str], bool], most_cores: float, least: float,
        groups: Groups | None = None,
    ) -> None:
        self._deployment, self._may_go, self._groups = deployment, may_go, groups
        self._most_cores, self._least = most_cores, least
        self._effort = 0

    def from_ties(self, slots: Mapping[str, str]) -> JointMove | None:
        """The joint move of the greatest worth to one of these slots, by node; None where none is worth it.

        It begins with the bundles of the strongest ties to these nodes. No search begins with a bundle that an earlier
        one has added.
        """
        nodes = self._deployment.nodes
        ties = [
            (rate, bundle, node) for bundle in self._deployment.partners if self._may_go(bundle)
            for node, rate in self._deployment.by_node(bundle).items() if node in slots and node != nodes[bundle]]
        best: JointMove | None = None
        tried: set[tuple[str, str]] = set()
        for _, bundle, node in sorted(ties, reverse=True):
            if (bundle, node) not in tried:
                added, joint = self._grown(bundle, slots[node])
                tried.update((name, node) for name in added)
                if joint is not None and (best is None or joint.worth > best.worth):
                    best = joint
            if self._effort > MOST_EFFORT:
                break
        return best

    def with_company(self, bundle: str, target: str) -> JointMove | None:
        """The joint move of the greatest worth that begins with a bundle; None where none is worth it."""
        return self._grown(bundle, target)[1]

    def _grown(self, first: str, target: str) -> tuple[list[str], JointMove | None]:
        """All bundles that were added to one, in order, and the beginning of that which is worth most."""
        partners, nodes, bundles = self._deployment.partners, self._deployment.nodes, self._deployment.bundles
        node, cores = node_of(target), self._deployment.loads[target]
        shared = None if self._groups is None else set(self._groups.get(first, ()))
        gains, passed = {first: self._alone(first, node)}, set[str]()
        joined: set[str] = set()  # bundles of the node that are connected with what goes to it
        added: list[str] = []
        gain = worth = best_gain = best_worth = 0.0
        length = 0
        while gains and len(added) < MOST:
            name = max(gains, key=lambda name: (gains[name], name))
            change = gains.pop(name)
            passed.add(name)
            others = None if shared is None else shared.intersection(self._groups.get(name, ()))
            if cores + bundles[name].cores > self._most_cores or (others is not None and not others):
                continue
            shared, cores = others, cores + bundles[name].cores
            added.append(name)
            gain, worth = gain + change, worth + change - self._least
            if worth > best_worth:
                best_gain, best_worth, length = gain, worth, len(added)
            for partner, rate in partners.get(name, {}).items():
                if partner in gains:
                    gains[partner] += rate if nodes[partner] != nodes[name] else 2 * rate
                elif partner not in passed and nodes[partner] != node and self._may_go(partner):
                    gains[partner] = self._alone(partner, node) + (
                        rate if nodes[partner] != nodes[name] else 2 * rate)
            for partner in self._connected(name, node, joined):
                if partner not in gains and partner not in passed and self._may_go(partner):
                    gains[partner] = self._alone(partner, node)
            self._effort += 1 + len(gains)
        self._effort += len(joined)
        if not length:
            return added, None
        return added, JointMove(tuple(added[:length]), target, best_gain, best_worth)

    def _connected(self, bundle: str, node: str, joined: set[str]) -> Iterator[str]:
        """The bundles elsewhere that exchange something with those of the node that a bundle is connected with there;
        of those that are not in ``joined`` yet."""
        waiting = [bundle]
        while waiting:
            for partner in self._deployment.partners.get(waiting.pop(), {}):
                if self._deployment.nodes[partner] != node:
                    yield partner
                elif partner not in joined:
                    joined.add(partner)
                    waiting.append(partner)

    def _alone(self, bundle: str, node: str) -> float:
        """The additional traffic within nodes if only this bundle went."""
        nodes = self._deployment.nodes
        home, gain = nodes[bundle], 0.0
        for partner, rate in self._deployment.partners.get(bundle, {}).items():
            if nodes[partner] == node:
                gain += rate
            elif nodes[partner] == home:
                gain -= rate
        return gain
