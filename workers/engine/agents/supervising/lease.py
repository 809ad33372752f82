"""One agent a node name: a lease in the broker, renewed while the agent lives. It is the node's heartbeat, too."""

from __future__ import annotations

import secrets
from enum import StrEnum
from pathlib import Path

import redis

from workers.engine.broker_room import EVEN_WHERE_FULL
from workers.engine.channels import keys
from workers.engine.channels.scripts import ALONE
from workers.engine.observed import LEASE_LIVES_MS

from ..node_files.atomic_files import write_atomically

_TAKE = EVEN_WHERE_FULL + """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return owner end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
"""
_GIVE = ALONE + "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LeaseState(StrEnum):
    """The state of an agent's lease."""

    HELD = "held"
    TAKEN = "taken"  # by an agent with another data folder
    UNKNOWN = "unknown"  # the broker does not answer


class Lease:
    """The lease of a node name.

    The owner is the data folder, not the process: an agent that was killed gets its own lease back at once, and a file
    lock in the folder keeps two agents of one folder apart.
    """

    def __init__(self, broker: redis.Redis, node: str, *, folder: Path) -> None:
        self._broker = broker
        self._key = keys.lease(node)
        self._owner = _owner(folder)

    def renew(self) -> LeaseState:
        """Take the lease or hold it for longer."""
        try:
            other_owner = self._broker.eval(_TAKE, 1, self._key, self._owner, LEASE_LIVES_MS)
        except redis.RedisError:
            return LeaseState.UNKNOWN
        return LeaseState.TAKEN if other_owner else LeaseState.HELD

    def give_back(self) -> None:
        """Let another agent have the name at once."""
        try:
            self._broker.eval(_GIVE, 1, self._key, self._owner)
        except redis.RedisError:
            return  # it lapses by itself


def _owner(folder: Path) -> str:
    path = folder / "owner"
    if not path.exists() or not path.read_text():  # an earlier version could leave half of it
        write_atomically(path, secrets.token_hex(16))
    return path.read_text()
