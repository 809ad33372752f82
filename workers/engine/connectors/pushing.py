"""Pushing: what somebody posted to a live source, into its channel. Runs in the site, without a host between."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.model.bounds import INGEST_EVENTS

from .contract import Message
from .formats import MessageLayout, decode, layout_of
from .intake import IntakeStore, OnceOnly, SourceOvertaken

TRIES = 50  # while others push to the same source at the same time


@dataclass(frozen=True, slots=True)
class Pushed:
    """The outcome of a post: events taken, and events that could not be read with the first reasons; ``again`` where it
    was taken before under the same key, with the figures of then."""

    taken: int
    dead: int
    reasons: tuple[str, ...] = ()
    again: bool = False

    @property
    def is_refused(self) -> bool:
        """True where not one event of it could be read."""
        return bool(self.dead) and not self.taken


@dataclass(frozen=True, slots=True)
class Post:
    """A body that somebody posted. ``format`` says how the body is written, where that is not as the config says; under
    its ``key``, if it has one, a repetition does nothing."""

    body: bytes
    format: str | None = None
    key: str = ""

    def once(self, answer: Pushed | None = None) -> OnceOnly:
        """A note that tells a repetition from another body under the same key; what is refused keeps no key."""
        if not self.key:
            return OnceOnly()
        digest = hashlib.sha256(f"{self.format or ''}:".encode() + self.body).hexdigest()
        if answer is None or answer.is_refused:
            return OnceOnly(self.key, digest)
        return OnceOnly(self.key, digest, json.dumps([answer.taken, answer.dead, answer.reasons]))


def push_events(
    store: IntakeStore, task: str, config: Mapping[str, Any], post: Post, *, most_events: int = INGEST_EVENTS.most
) -> Pushed:
    """Write what was posted to a live source, all of it or nothing.

    Raises
    ------
    TooMuch
        It decodes to more than may be: nothing was written.
    Full, Paused, KeyUsed, Closed
        Nothing was written (``intake``).
    SourceOvertaken
        Others kept being first.
    """
    layout = layout_of(config)
    reading: MessageLayout = replace(layout, format=post.format) if post.format else layout
    now_ms = time.time_ns() // 1_000_000
    decoded = decode(
        [Message(post.body, "posted")], reading, now_ms=now_ms, most_events=most_events, refuses=True)
    reasons = tuple(dict.fromkeys(letter.reason for letter in decoded.dead))[:5]
    pushed = Pushed(len(decoded.rows), len(decoded.dead), reasons)
    once = post.once(pushed)
    for _ in range(TRIES):
        try:
            before = store.write(
                task, decoded, layout, first=store.state(task).seq, now_ms=now_ms, once=once,
                keep_dead=int(config.get("keep_dead") or 1000))
        except SourceOvertaken:
            continue
        return pushed if before is None else _again(before)
    raise SourceOvertaken(f"others kept pushing to {task}")


def _again(answer: str) -> Pushed:
    """The first answer once more; where an earlier version kept none, that of nothing."""
    taken, dead, reasons = json.loads(answer) if answer else (0, 0, ())
    return Pushed(taken, dead, tuple(reasons), again=True)
