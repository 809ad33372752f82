"""Holding: which node's connector host reads a live source, or writes a sink. One at a time, as the broker has it.

The holder stands in the hash of the source or sink as ``node``. It passes it to the next; who wants what nobody holds
takes it. By force it is taken of one that is not heard of: what that one writes later is refused, by the channel's
token, or by the other system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import redis

from workers.engine.channels import keys, scripts

HELD_MS = 10_000  # after which what another node holds that is to let go is taken by force


class Holding:
    """Holders of sources or sinks: the node that has each."""

    def __init__(self, broker: redis.Redis, *, state: Callable[[str], str], holdings: Callable[[str], str]) -> None:
        self._broker, self._state, self._holdings = broker, state, holdings

    def take(self, name: str, node: str, *, by_force: bool = False) -> bool:
        """Hold it from now on; False where another does."""
        return bool(scripts.run(
            self._broker, "take_hold", [self._state(name), self._holdings(node)], [node, name, int(by_force)]))

    def pass_on(self, name: str, node: str, *, to: str) -> bool:
        """Let another node hold it from now on; False where this one does not. What that node has to see to is its own
        note, made as it takes it."""
        return bool(scripts.run(
            self._broker, "pass_hold", [self._state(name), self._holdings(node)], [node, name, to]))

    def end(self, name: str, node: str, *, whole: Sequence[str], after_s: int = 0) -> bool:
        """Nobody is to hold it any more, and all of it goes; False where another holds it.

        Parameters
        ----------
        after_s : int, optional
            In how many seconds; at once by default.
        """
        return bool(scripts.run(
            self._broker, "end_hold", [self._state(name), self._holdings(node), *whole], [node, name, after_s]))

    def token(self, name: str, node: str, meta: str) -> int | None:
        """A new fencing token of what has that key; None where the node does not hold it any more."""
        return int(scripts.run(self._broker, "hold_token", [self._state(name), meta], [node])) or None

    def holder(self, name: str) -> str:
        """The node that holds it; "" where none does."""
        return (self._broker.hget(self._state(name), "node") or b"").decode(errors="replace")

    def may_be_forced(self, name: str, *, waited_ms: int) -> bool:
        """True where whoever has waited so long for it takes it by force: its holder does not let go, or is lost."""
        return waited_ms >= HELD_MS or bool(self._broker.hexists(keys.LOST, self.holder(name)))

    def names(self, node: str) -> frozenset[str]:
        """Names of the sources or sinks that a node holds."""
        return frozenset(name.decode(errors="replace") for name in self._broker.smembers(self._holdings(node)))
