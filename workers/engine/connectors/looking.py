"""Looking: the newest events of a source that does not run, decoded as its connector would, within some seconds.

What looks is beside the connector (`contract.LookAt`). It may wait in a library that nobody can interrupt, so that it
has a thread of its own, which is left behind when the time is over; the process ends then.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from scheduler.contracts.looks import DONE, FAILED, LOOKING, ColumnProposal, LookOrder, LookState, Unread
from scheduler.model.errors import WeirError
from scheduler.model.task_types import TaskType, TaskTypes
from workers.engine.retried import MOST_WORDS
from workers.engine.sealed_secrets import redacted
from workers.library.columns import typed_columns
from workers.library.config import settings as with_defaults

from .contract import DeadLetter, LookAt, Message, Opening, SourceAway
from .formats import Decoded, MessageLayout, decode, layout_of
from .proposed_columns import layout_for
from .source_runner import words_of

MOST_BYTES = 1 << 20  # of the events that are shown
MOST_UNREAD = 5
SAMPLE = 200  # characters of what could not be read
AGAIN = "it is tried again by itself"
TICK_S = 0.1
Tell = Callable[[LookState, pa.RecordBatch | None], None]


def look_at(task_type: TaskType) -> LookAt | None:
    """The function that looks at sources of a type: ``look_at_x`` beside its connector ``open_x``; None where there is
    none."""
    module, _, function = (task_type.connector or "").partition(":")
    if not function.startswith("open_"):
        return None
    with suppress(ImportError):  # the package is not here: whoever looks hears so
        return getattr(import_module(module), f"look_at_{function.removeprefix('open_')}", None)
    return None


@dataclass(slots=True)
class _Come:
    """What has come of a source so far; ``failure`` is why it gives no more."""

    layout: MessageLayout
    count: int
    rows: deque[tuple[tuple, int]]
    dead: deque[DeadLetter]
    raw: deque[Message] = field(default_factory=deque)
    proposal: ColumnProposal | None = None
    lost: deque[DeadLetter] = field(default_factory=lambda: deque(maxlen=MOST_UNREAD))
    lock: threading.RLock = field(default_factory=threading.RLock)
    answered: bool = False
    over: bool = False
    failure: Exception | None = None
    news: int = 0

    def take(self, decoded: Decoded, lost: tuple[DeadLetter, ...]) -> None:
        """Keep the newest of what was decoded."""
        self.rows.extend(zip(decoded.rows, decoded.times_ms, strict=True))
        self.dead.extend((*lost, *decoded.dead))
        self.news += 1

    def take_raw(self, messages: Sequence[Message], lost: Sequence[DeadLetter], config: Mapping[str, Any]) -> None:
        """Keep the newest messages, and decode all of them by the columns that are proposed from them now."""
        self.raw.extend(messages)
        now_ms = _now_ms()
        proposal, layout = layout_for(self.raw, config, now_ms=now_ms)
        decoded = decode(self.raw, layout, now_ms=now_ms)
        self.lost.extend(lost)
        with self.lock:  # rows belong to their layout
            self.proposal, self.layout = proposal, layout
            self.rows.clear()
            self.dead.clear()
            self.take(decoded, tuple(self.lost))

    def batch(self) -> tuple[pa.RecordBatch, int]:
        """The newest events that fit, oldest first; and how many are left out because of their size."""
        fitting: list[pa.RecordBatch] = []
        size, too_large = 0, 0
        for row, time_ms in reversed(list(self.rows)):
            event = pa.RecordBatch.from_pydict(
                {"_seq": [0], "_time": [time_ms], "_born": [time_ms],
                 **{name: [value] for name, value in zip(self.layout.columns, row, strict=True)}},
                schema=self.layout.arrow)
            if size + event.nbytes > MOST_BYTES:
                too_large += 1
                continue
            size += event.nbytes
            fitting.insert(0, event)
        table = pa.Table.from_batches(fitting, self.layout.arrow).combine_chunks()
        return (table.to_batches() or [pa.RecordBatch.from_pylist([], self.layout.arrow)])[0], too_large


def look(order: LookOrder, types: TaskTypes, *, opened: Callable[[Mapping[str, Any]], Mapping[str, Any]],
         tell: Tell) -> None:
    """Look at a source, and say how far that is and what has come, until it is over."""
    began_s = time.monotonic()
    try:
        task_type = types[order.task_type]
        config = with_defaults(task_type, order.config)
        if order.proposes:
            config = {**config, "columns": ()}
        come = _Come(
            layout_of(config), order.count, deque(maxlen=order.count), deque(maxlen=MOST_UNREAD),
            deque(maxlen=order.count), ColumnProposal() if order.proposes else None)
        looks = look_at(task_type)
        if looks is None:
            raise SourceAway(f"A source of type {order.task_type} shows nothing before it runs.",
                             remedy="Its events show here when a dataflow with it runs.")
        values = opened(config)
        opening = Opening(f"look-{order.id}", {**config, **values, "columns": list(typed_columns(config["columns"]))})
    except Exception as error:
        tell(_failed(error, ()), None)
        return
    thread = threading.Thread(target=_read, args=(looks, opening, come), name="look", daemon=True)
    thread.start()
    told_news = -1
    while not come.over and time.monotonic() - began_s < order.waits_s:
        thread.join(TICK_S)
        if come.answered and come.news != told_news:
            told_news = come.news
            _tell(tell, come, LOOKING)
    if come.failure is not None:
        tell(_failed(come.failure, _unread(come)), None)
    elif not come.answered:
        tell(LookState(
            FAILED, SourceAway.code, f"The source did not answer within {order.waits_s:g} s.",
            f"See whether its server answers, and whether the machine of node {order.node} reaches it; then look "
            "again."), None)
    else:
        _tell(tell, come, DONE)


def _read(looks: LookAt, opening: Opening, come: _Come) -> None:
    """Read the source on a thread of its own, until it has no more."""
    try:
        for polled in looks(opening, come.count):
            come.answered = True
            if polled.messages or polled.lost:
                if come.proposal is not None:
                    come.take_raw(polled.messages, polled.lost, opening.config)
                    continue
                come.take(decode(polled.messages, come.layout, now_ms=_now_ms()), tuple(polled.lost))
    except Exception as error:
        come.failure = error
    come.over = True


def _tell(tell: Tell, come: _Come, state: str) -> None:
    with come.lock:
        batch, too_large = come.batch()
        look_state = LookState(state, unread=_unread(come), too_large=too_large, proposal=come.proposal)
    tell(look_state, batch)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _unread(come: _Come) -> tuple[Unread, ...]:
    return tuple(
        Unread(redacted(letter.reason)[:MOST_WORDS], letter.place[:SAMPLE],
               redacted(letter.sample.decode(errors="replace"))[:SAMPLE])
        for letter in reversed(list(come.dead)))


def _failed(error: Exception, unread: tuple[Unread, ...]) -> LookState:
    """Why nothing comes, for somebody who waits: nothing is tried again by itself."""
    if not isinstance(error, WeirError):
        return LookState(FAILED, "look_failed", words_of(error), "See to the config of the source.", unread)
    parts = [part for part in error.remedy.rstrip(".").split("; ") if part.lower() != AGAIN]
    remedy = f"{'; '.join(parts)}." if parts and parts[0] else "Look again when it answers."
    return LookState(
        FAILED, error.code, redacted(error.message)[:MOST_WORDS], redacted(remedy)[:MOST_WORDS], unread)
