"""Holding: which node's connector host reads a live source, or writes a sink. One at a time, as the broker has it.

The holder stands in the hash of the source or sink as ``node``. It passes it to the next; who wants what nobody holds
takes it. By force it is taken of one that is not heard of: what that one writes later is refused, by the channel's
token, or by the other system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import redis

HELD_MS = 10_000  # after which what another node holds that is to let go is taken by force

# KEYS: hash, set of the node.  ARGV: node, name, 1 by force
_TAKE = """
local holder = redis.call('HGET', KEYS[1], 'node')
if holder and holder ~= '' and holder ~= ARGV[1] and ARGV[3] ~= '1' then return 0 end
redis.call('HSET', KEYS[1], 'node', ARGV[1])
redis.call('SADD', KEYS[2], ARGV[2])
return 1
"""
# KEYS: hash, set of the node, set of the next one.  ARGV: node, name, next node
_PASS = """
redis.call('SREM', KEYS[2], ARGV[2])
if redis.call('HGET', KEYS[1], 'node') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'node', ARGV[3])
redis.call('SADD', KEYS[3], ARGV[2])
return 1
"""
# KEYS: hash, set of the node, what goes...  ARGV: node, name, seconds after which it does
_END = """
redis.call('SREM', KEYS[2], ARGV[2])
local holder = redis.call('HGET', KEYS[1], 'node')
if holder and holder ~= '' and holder ~= ARGV[1] then return 0 end
for i = 3, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
return 1
"""
# KEYS: hash, what has the token.  ARGV: node
_TOKEN = """
if (redis.call('HGET', KEYS[1], 'node') or '') ~= ARGV[1] then return 0 end
return redis.call('HINCRBY', KEYS[2], 'fence', 1)
"""


class Holding:
    """Who holds each of some things.

    Parameters
    ----------
    broker : redis.Redis
        A client that does not decode responses.
    state : callable
        The key of a thing's hash, by its name.
    held : callable
        The key of the set of what a node holds.
    """

    def __init__(self, broker: redis.Redis, *, state: Callable[[str], str], held: Callable[[str], str]) -> None:
        self._broker, self._state, self._held = broker, state, held

    def take(self, name: str, node: str, *, by_force: bool = False) -> bool:
        """Hold it from now on; False where another does."""
        script = self._broker.register_script(_TAKE)
        return bool(script(keys=[self._state(name), self._held(node)], args=[node, name, int(by_force)]))

    def pass_on(self, name: str, node: str, *, to: str) -> bool:
        """Let another node hold it from now on; False where this one does not."""
        script = self._broker.register_script(_PASS)
        return bool(script(keys=[self._state(name), self._held(node), self._held(to)], args=[node, name, to]))

    def end(self, name: str, node: str, *, whole: Sequence[str], after_s: int = 0) -> bool:
        """Nobody is to hold it any more, and all of it goes; False where another holds it.

        Parameters
        ----------
        after_s : int, optional
            In how many seconds; at once by default.
        """
        script = self._broker.register_script(_END)
        return bool(script(keys=[self._state(name), self._held(node), *whole], args=[node, name, after_s]))

    def token(self, name: str, node: str, meta: str) -> int | None:
        """A new fencing token of what has that key; None where the node does not hold it any more."""
        return int(self._broker.register_script(_TOKEN)(keys=[self._state(name), meta], args=[node])) or None

    def holder(self, name: str) -> str:
        """The node that holds it; "" where none does."""
        return (self._broker.hget(self._state(name), "node") or b"").decode()

    def names(self, node: str) -> frozenset[str]:
        """What a node holds."""
        return frozenset(name.decode() for name in self._broker.smembers(self._held(node)))
