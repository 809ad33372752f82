"""Leases of live sources and sinks: which node's connector host reads or writes each. One at a time, by the broker.

The hash of the source or sink names the holder as ``node``. A holder passes the lease on to the next node; a node takes
the lease that nobody holds. It takes it by force from a node that is silent: what that node writes later is refused, by
the channel's fencing token or by the other system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import redis

from workers.engine.channels import keys, scripts

HELD_MS = 10_000  # after which a lease that its holder is to pass on is taken by force


class ConnectorLeases:
    """The leases of sources, or of sinks.

    Parameters
    ----------
    state : callable
        The key of the hash of a source or sink, by its name.
    leased : callable
        The key of the set of names that a node has leases of, by its name.
    """

    def __init__(self, broker: redis.Redis, *, state: Callable[[str], str], leased: Callable[[str], str]) -> None:
        self._broker, self._state, self._leased = broker, state, leased

    def take(self, name: str, node: str, *, by_force: bool = False) -> bool:
        """Take the lease; False where another node has it."""
        return bool(scripts.run(
            self._broker, "take_hold", [self._state(name), self._leased(node)], [node, name, int(by_force)]))

    def pass_on(self, name: str, node: str, *, to: str) -> bool:
        """Pass the lease on to another node; False where this one does not have it.

        The other node notes its name in its set when it takes the lease.
        """
        return bool(scripts.run(
            self._broker, "pass_hold", [self._state(name), self._leased(node)], [node, name, to]))

    def end(self, name: str, node: str, *, whole: Sequence[str], after_s: int = 0) -> bool:
        """End the lease and delete all keys of the source or sink; False where another node has it.

        Parameters
        ----------
        whole : sequence of str
            The other keys of it.
        after_s : int, optional
            In how many seconds; at once by default.
        """
        return bool(scripts.run(
            self._broker, "end_hold", [self._state(name), self._leased(node), *whole], [node, name, after_s]))

    def token(self, name: str, node: str, meta: str) -> int | None:
        """A new fencing token from the channel's key ``meta``; None where the node has the lease no longer."""
        return int(scripts.run(self._broker, "hold_token", [self._state(name), meta], [node])) or None

    def holder(self, name: str) -> str:
        """The node that has the lease; "" where none does."""
        return (self._broker.hget(self._state(name), "node") or b"").decode(errors="replace")

    def may_be_forced(self, name: str, *, waited_ms: int) -> bool:
        """True where whoever has waited so long for it takes it by force: its holder does not let go, or is lost."""
        return waited_ms >= HELD_MS or bool(self._broker.hexists(keys.LOST, self.holder(name)))

    def names(self, node: str) -> frozenset[str]:
        """Names of the sources or sinks that a node has leases of."""
        return frozenset(name.decode(errors="replace") for name in self._broker.smembers(self._leased(node)))
