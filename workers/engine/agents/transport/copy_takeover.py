"""Going on from a copy: a fragment whose predecessor's node is lost begins with the copy that this node holds.

Each step can be repeated. Whoever has the claim goes on; the predecessor finds itself overtaken where it plans a batch
(``lua/range.lua``), writes a block (its token), or is to be started again (the claim).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import redis

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import SAVEPOINTS
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import (
    TICKS,
    are_recorded,
    entries_of,
    kept_from,
    place_of,
    recorded_behind,
    take_ranges,
)
from workers.engine.channels.channel_info import texts
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import PART, WAVE, is_route, restored, without_boundary

from .claims import CLAIM
from .parcels import COMING, Files

HELD, RECEIVED = "held", "received"  # kinds of files
_ON_ITS_WAY = f"{COMING}-{HELD}"
_PASSED_ON = ("tail", "tail:was", "routes", keys.COPIED)  # of a control hash, beside outlets, parts and routes
KEPT_S = 7 * 24 * 3600  # for so long a node that is back hears that others go on


def go_on_from_copy(broker: redis.Redis, files: Files, before: str, heir: WantedFragment, *, node: str) -> bool:
    """Let a fragment begin with this node's copy of another's state; True once it has that."""
    copy = keys.copy_name(before, node)
    if files.size(copy, HELD) is not None and broker.hexists(keys.copies(before), node):
        files.write(heir.id, _ON_ITS_WAY, files.read(copy, HELD))
    if files.size(heir.id, _ON_ITS_WAY) is None:
        return False
    saved = SAVEPOINTS.loads(files.read(heir.id, _ON_ITS_WAY))
    owner = heir.id if are_recorded(broker, heir.id) else before
    ends = recorded_behind(broker, owner, place_of(saved))
    if ends is None or max(saved.batch_bases.values(), default=0) < kept_from(broker, owner):
        return False  # what comes behind it is freed
    channels = Channels(broker)
    read = [item.channel for item in heir.inputs]
    read = list(dict.fromkeys((*read, *(keys.whole_of(name) for name in read if keys.is_part(name)))))
    # Others that the copy has read are gone: their writers left once all copies had come to their end.
    if ends and any((info := channels.info(channel)) is not None and info.trimmed > saved.offsets[channel]
                    for channel in read if channel in saved.offsets):
        return False  # likewise: it was paused, and its writer heard of that first
    broker.hsetnx(keys.handover(before), CLAIM, heir.id)
    broker.expire(keys.handover(before), KEPT_S)
    if broker.hget(keys.handover(before), CLAIM) != heir.id.encode() or not take_ranges(broker, before, heir.id):
        return False
    ends = recorded_behind(broker, heir.id, place_of(saved)) or []
    for channel in read:
        # What comes next for the oldest copy may be needed by another holder, should this one be lost, too. A channel
        # that the copy lacks came behind it: nothing is freed there until all copies have read of it. In one that was
        # not read at all there is a place alone.
        places = broker.hmget(keys.readers(channel), keys.copies_reader(before), before)
        oldest = next((Offset(offset.decode()) for offset in places if offset), saved.offsets.get(channel))
        if oldest is not None:
            if ends or not heir.paused:  # who rests has a place at a live source alone, and nothing is kept for it
                channels.join(channel, keys.copies_reader(heir.id), where=oldest)
            channels.join(channel, heir.id, where=saved.offsets.get(channel, oldest))
        channels.unregister(channel, before)
    control = texts(broker.hgetall(keys.valve(before)))
    moved = moved_on(control, batches=saved.repeats or 0, recorded=len(ends))
    broker.hset(keys.valve(heir.id), mapping={**moved, keys.COPIED: "1"})
    broker.expire(keys.copies(before), KEPT_S)
    reads = sorted({*saved.offsets, *(channel for end in ends for channel in entries_of(end) if channel != TICKS)})
    whole = replace(saved, recorded=len(ends), reads=tuple(reads))
    files.write(heir.id, _ON_ITS_WAY, SAVEPOINTS.dumps(whole).encode())
    files.rename(heir.id, _ON_ITS_WAY, RECEIVED)
    return True


def moved_on(control: Mapping[str, str], *, batches: int, recorded: int) -> dict[str, str]:
    """The boundaries of a control hash for a query whose first batch is the one after so many.

    What has no boundary yet gets the first batch behind those that are ``recorded``: no other could have been set.
    """
    moved: dict[str, str] = {}
    waves: dict[int, str] = {}
    for name, value in restored(control).items():
        if name.endswith(":from"):
            moved[name] = str(max(0, int(value) - batches))
        elif name.startswith(WAVE):
            waves[int(name.removeprefix(WAVE)) - batches] = value
        elif name in _PASSED_ON or name.endswith(":outlet") or PART in name or is_route(name):
            moved[name] = value
    moved |= dict.fromkeys(without_boundary(moved), str(recorded))
    before = max((batch for batch in waves if batch <= 0), default=None)
    return moved | {f"{WAVE}{max(0, batch)}": value for batch, value in waves.items() if batch > 0 or batch == before}
