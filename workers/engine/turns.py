"""Turns: what one process of the site at a time does, by a lease in the broker that lapses with it."""

from __future__ import annotations

import redis

from workers.engine.channels import keys
from workers.engine.channels.scripts import ALONE

_TAKE = ALONE + """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 1 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
"""
_GIVE = ALONE + "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def hold(broker: redis.Redis, name: str, owner: str, *, for_ms: int) -> bool:
    """Take the lease of that name or hold it for longer; False where another has it."""
    return not broker.eval(_TAKE, 1, keys.turn(name), owner, for_ms)


def give_back(broker: redis.Redis, name: str, owner: str) -> None:
    """Let another process have the lease at once."""
    broker.eval(_GIVE, 1, keys.turn(name), owner)
