"""The claim: the fencing token of a handover between nodes, one field beside the record that whoever sets it first has.

With the heir's id in it the old fragment never runs again; with the old one's, the heir never begins.
"""

from __future__ import annotations

import redis

from workers.engine.channels import keys, scripts

CLAIM = "claim"


def claim(broker: redis.Redis, fragment_id: str, heir: str, *, manifest: bytes) -> bool:
    """Claim what a fragment left for an heir; True if the heir has it, and nobody else ever will.

    Parameters
    ----------
    manifest : bytes
        The manifest of what has come. If another one is there, the record was taken back meanwhile.
    """
    return bool(scripts.run(broker, "claim", [keys.handover(fragment_id)], [manifest, heir]))


def withdraw(broker: redis.Redis, fragment_id: str) -> str | None:
    """Take back what a fragment left, because it works on; if it is too late, the heir that has claimed it."""
    key = keys.handover(fragment_id)
    broker.hsetnx(key, CLAIM, fragment_id)
    claimed = broker.hget(key, CLAIM)
    if claimed not in (None, fragment_id.encode()):
        return claimed.decode()
    broker.delete(key)
    return None
