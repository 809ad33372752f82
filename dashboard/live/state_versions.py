"""Versions of live states, kept in the broker for each topic and scope, so that every process counts alike.

A version is a number and a state. Who finds the newest one too old builds the state anew and stores it by
compare-and-set under the next number, with the patch that leads to it; of two who do so at once, one wins and the other
takes the winner's. Within a process one builds, and who waited for it takes what it made. Numbers begin at the clock's
milliseconds: they grow also after the broker lost everything.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakValueDictionary

import redis

from dashboard.live.live_protocol import State, difference
from dashboard.node_calls import SITE_SCRIPT

INTERVAL_S = 0.5
KEPT_PATCHES = 20
FORGOTTEN_AFTER_S = 60
KEPT_CHANGES = 8  # of this process: scopes that may know the same have the same states, one after the other

_building: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()

_STORE = SITE_SCRIPT + """
local current = redis.call('HGET', KEYS[1], 'seq')
if (current or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'seq', ARGV[2], 'state', ARGV[3], 'at', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[7])
if ARGV[5] == '' then redis.call('DEL', KEYS[2]) else
  redis.call('RPUSH', KEYS[2], ARGV[5])
  redis.call('LTRIM', KEYS[2], -tonumber(ARGV[6]), -1)
  redis.call('EXPIRE', KEYS[2], ARGV[7])
end
return 1
"""
_TOUCH = SITE_SCRIPT + """
if redis.call('HGET', KEYS[1], 'seq') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'at', ARGV[2])
  redis.call('EXPIRE', KEYS[1], ARGV[3])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
"""


@dataclass(frozen=True, slots=True)
class Version:
    """A state under its number."""

    seq: int
    state: State
    patch: Patch | None = None  # what leads to it from the one before, where that is at hand


@dataclass(frozen=True, slots=True)
class Patch:
    """The patch from one version to the next."""

    before: int
    seq: int
    patch: State


@dataclass(frozen=True, slots=True)
class LiveView:
    """The page (``topic``) and the people (``scope``) of a live document, and its maker."""

    topic: str
    scope: str
    build: Callable[[], State]


class Versions:
    """Numbered states in the broker; every method raises ``redis.RedisError`` where it is away."""

    def __init__(self, broker: redis.Redis, *, now_s: Callable[[], float] = time.time) -> None:
        self._broker = broker
        self._now_s = now_s

    def refresh(self, view: LiveView, *, last_version: Version | None = None) -> Version:
        """The newest version, built anew where it is older than half the interval: who looks once in each interval, as
        processes do at moments of their own, gets one of each. ``last_version``, the version that the caller has, saves
        fetching it again."""
        with _one_at_a_time(view):
            return self._refresh(view, last_version)

    def newest(self, view: LiveView) -> tuple[int, str]:
        """Number and state, as JSON text, of the newest version; built anew where it is older than the interval."""
        # Asked first without the lock: with a broker that is slow to answer, nobody waits for anybody.
        newest = self._fresh_text(view)
        if newest is None:
            with _one_at_a_time(view):
                newest = self._fresh_text(view)
                if newest is None:
                    version = self._refresh(view, None)
                    newest = version.seq, json.dumps(version.state)
        return newest

    def _fresh_text(self, view: LiveView) -> tuple[int, str] | None:
        seq, at, state = self._broker.hmget(_keys(view.topic, view.scope)[0], "seq", "at", "state")
        return (int(seq), state.decode()) if seq is not None and self._is_fresh(at, for_s=INTERVAL_S * 0.9) else None

    def _is_fresh(self, at: bytes, *, for_s: float) -> bool:
        return 0 <= self._now_s() - float(at) < for_s

    def _refresh(self, view: LiveView, last_version: Version | None) -> Version:
        keys = _keys(view.topic, view.scope)
        seq, at = self._broker.hmget(keys[0], "seq", "at")
        current = None if seq is None else self._fetch(keys[0], int(seq), last_version)
        if current is not None and self._is_fresh(at, for_s=INTERVAL_S / 2):
            return current
        began_s = self._now_s()  # what is read is of this moment or later, however long the building takes
        state = view.build()
        change = _change(None if current is None else current.state, state)
        if change.is_none:
            self._broker.eval(_TOUCH, 2, *keys, current.seq, began_s, FORGOTTEN_AFTER_S)
            return current
        return self._store(keys, current, change, began_s) or self._refresh(
            replace(view, build=lambda: state), last_version)

    def patches_since(self, topic: str, scope: str, seq: int, *, until: int) -> list[Patch] | None:
        """The patches that lead from one number to another, or None where they are not kept."""
        changes = [json.loads(text) for text in self._broker.lrange(_keys(topic, scope)[1], 0, -1)]
        chain: list[Patch] = []
        for entry in changes:
            if entry["from"] == seq and seq != until:
                chain.append(Patch(before=seq, seq=entry["seq"], patch=entry["patch"]))
                seq = entry["seq"]
        return chain if seq == until else None

    def _fetch(self, key: str, seq: int, last_version: Version | None) -> Version | None:
        if last_version is not None and last_version.seq == seq:
            return last_version
        seq_text, state = self._broker.hmget(key, "seq", "state")
        return None if state is None else Version(seq=int(seq_text), state=json.loads(state))

    def _store(self, keys: tuple[str, str], current: Version | None, change: _Change, at_s: float) -> Version | None:
        seq = int(at_s * 1000) if current is None else current.seq + 1
        patch, text = None, ""
        if current is not None:
            patch = Patch(current.seq, seq, change.patch)
            text = json.dumps({"from": current.seq, "seq": seq, "patch": patch.patch})
        stored = self._broker.eval(
            _STORE, 2, *keys, current.seq if current else 0, seq, change.text, at_s, text, KEPT_PATCHES,
            FORGOTTEN_AFTER_S)
        return Version(seq=seq, state=change.after, patch=patch) if stored else None


@dataclass(frozen=True, eq=False)
class _Change:
    """The patch from one state to the next, and the newer one as JSON text."""

    before: State | None
    after: State

    @cached_property
    def is_none(self) -> bool:
        return self.before == self.after

    @cached_property
    def patch(self) -> State:
        return difference(self.before or {}, self.after)

    @cached_property
    def text(self) -> str:
        return json.dumps(self.after)


_changes: deque[_Change] = deque(maxlen=KEPT_CHANGES)


def _change(before: State | None, after: State) -> _Change:
    """The same for the same two objects: it is made and written once for all scopes that have them."""
    for stored in tuple(_changes):
        if stored.before is before and stored.after is after:
            return stored
    _changes.append(change := _Change(before, after))
    return change


def _one_at_a_time(view: LiveView) -> threading.Lock:
    """The lock of a view in this process, for as long as somebody holds or awaits it."""
    return _building.setdefault((view.topic, view.scope), threading.Lock())


def _keys(topic: str, scope: str) -> tuple[str, str]:
    name = f"weir:live:{{{scope}|{topic}}}"
    return f"{name}:version", f"{name}:patches"
