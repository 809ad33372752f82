"""Heartbeats: which nodes are missed, by somebody who looks for them again and again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A node's newest heartbeat.

    Attributes
    ----------
    age_s : float, optional
        How many seconds ago it came; None where none is there.
    apart_s : float
        Seconds between two of the node's heartbeats, as it says.
    """

    age_s: float | None
    apart_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HeartbeatWatch:
    """The knowledge of a watch that looks for nodes' heartbeats at short intervals.

    A node is missed if none of its heartbeats came for ``lost_s`` seconds in which every look went well. So a broker
    that is away or stands still, and a watcher that was held up, make nobody missed.

    Parameters
    ----------
    lost_s : float
        Seconds, positive. It is longer for a node of which fewer than four heartbeats would come in that time.
    since_s : float
        The time since which every look went well; like all times here, in seconds of the watcher's clock, which never
        goes back.
    heard_s : Mapping
        By node: when its newest heartbeat came.
    """

    lost_s: float
    since_s: float = float("inf")
    looked_s: float = float("-inf")
    heard_s: Mapping[str, float] = field(default_factory=dict)
    missed: frozenset[str] = frozenset()

    def look(self, newest: Mapping[str, Heartbeat], *, began_s: float, ended_s: float) -> HeartbeatWatch:
        """The watch after a look.

        Parameters
        ----------
        newest : Mapping
            By node: its newest heartbeat.
        began_s, ended_s : float
            The times of the question to the broker and of its answer, in seconds.
        """
        is_late = began_s - self.looked_s > self.lost_s or ended_s - began_s > self.lost_s / 4
        since_s = ended_s if is_late else self.since_s
        heard_s = {
            node: max(self.heard_s.get(node, since_s), since_s if beat.age_s is None else ended_s - beat.age_s)
            for node, beat in newest.items()}
        missed = frozenset(
            node for node, at_s in heard_s.items()
            if ended_s - max(at_s, since_s) >= max(self.lost_s, 4 * newest[node].apart_s))
        return replace(self, since_s=since_s, looked_s=ended_s, heard_s=heard_s, missed=missed)

    def fail(self) -> HeartbeatWatch:
        """The watch after the broker did not answer: nobody is missed until it has done so for a while."""
        return replace(self, looked_s=float("-inf"), missed=frozenset())
