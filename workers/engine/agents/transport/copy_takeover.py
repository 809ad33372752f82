"""Going on from a copy: a fragment whose predecessor's node is lost begins with the copy that this node holds.

Each step can be repeated. Whoever has the claim goes on; the predecessor finds itself overtaken where it plans a batch
(``lua/range.lua``), writes a block (its token), or is to be started again (the claim).
"""

from __future__ import annotations

import redis

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.savepoints import SAVEPOINTS
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import take_ranges
from workers.engine.channels.channel_info import texts
from workers.engine.channels.channel_registry import Channels

from .claims import CLAIM
from .parcels import COMING, Files

HELD, RECEIVED = "held", "received"  # kinds of files
_ON_ITS_WAY = f"{COMING}-{HELD}"
KEPT_S = 7 * 24 * 3600  # for so long a node that is back hears that others go on
_WAVE = "wave:"


def go_on_from_copy(broker: redis.Redis, files: Files, before: str, heir: WantedFragment, *, node: str) -> bool:
    """Whether a fragment has what it begins with: the copy of another's state that this node holds."""
    copy = keys.copy_name(before, node)
    if files.size(copy, HELD) is not None and broker.hexists(keys.copies(before), node):
        files.write(heir.id, _ON_ITS_WAY, files.read(copy, HELD))
    if files.size(heir.id, _ON_ITS_WAY) is None:
        return False
    broker.hsetnx(keys.handover(before), CLAIM, heir.id)
    broker.expire(keys.handover(before), KEPT_S)
    if broker.hget(keys.handover(before), CLAIM) != heir.id.encode() or not take_ranges(broker, before, heir.id):
        return False
    saved = SAVEPOINTS.loads(files.read(heir.id, _ON_ITS_WAY))
    channels = Channels(broker)
    for channel, offset in saved.offsets.items():
        # What comes next for the oldest copy may be needed by another holder, should this one be lost, too.
        place = broker.hget(keys.readers(channel), keys.copies_reader(before))
        channels.join(channel, keys.copies_reader(heir.id), where=place.decode() if place else offset)
        channels.join(channel, heir.id, where=offset)
        channels.unregister(channel, before)
    moved = moved_on(texts(broker.hgetall(keys.valve(before))), batches=saved.repeats or 0)
    if moved:
        broker.hset(keys.valve(heir.id), mapping=moved)
    broker.expire(keys.copies(before), KEPT_S)
    files.rename(heir.id, _ON_ITS_WAY, RECEIVED)
    return True


def moved_on(control: dict[str, str], *, batches: int) -> dict[str, str]:
    """The boundaries of a control hash for a query whose first batch is the one after so many."""
    moved: dict[str, str] = {}
    waves: dict[int, str] = {}
    for name, value in control.items():
        if name.endswith(":from"):
            moved[name] = str(max(0, int(value) - batches))
        elif name.endswith(":outlet") or name in ("tail", "tail:was"):
            moved[name] = value
        elif name.startswith(_WAVE):
            waves[int(name.removeprefix(_WAVE)) - batches] = value
    before = max((batch for batch in waves if batch <= 0), default=None)
    return moved | {f"{_WAVE}{max(0, batch)}": value for batch, value in waves.items() if batch > 0 or batch == before}
