"""Orders of the site to connectors: to take in what was posted, to show what could not be read or written, and to look
at a source that does not run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from dashboard.jobs import broker, broker_needed
from scheduler.contracts.looks import ColumnProposal, LookOrder
from scheduler.model.task_types import TaskType
from workers.engine import look_store
from workers.engine.connectors import intake
from workers.engine.connectors.arrow_streams import TooMuch
from workers.engine.connectors.contract import Message
from workers.engine.connectors.intake import KeyUsed
from workers.engine.connectors.looking import look_at
from workers.engine.connectors.proposed_columns import proposal_for
from workers.engine.connectors.pushing import Post, Pushed, push_events
from workers.engine.letters import KeptLetter
from workers.engine.sinks import sink_store as sinks
from workers.library.columns import COLUMN_TYPES, typed_columns
from workers.library.first_document import (
    AS_IS,
    AVERAGE,
    COMPARISONS,
    FILTER,
    FirstDataflow,
    FirstWork,
    OwnColumn,
    first_document,
)
from workers.library.json_values import json_ready
from workers.library.outbound import Line, Unanswered, WrongAddress
from workers.library.registry import makes_events

__all__ = [  # what others need
    "AS_IS", "AVERAGE", "COLUMN_TYPES", "COMPARISONS", "FILTER", "FirstDataflow", "FirstWork", "KeyUsed", "Line",
    "OwnColumn", "Post", "Pushed", "TooMuch", "Unanswered", "WrongAddress", "first_document", "json_ready"]


class NotTaken(Exception):
    """A live source takes nothing now: nobody reads it (``at_rest``), or its readers are behind."""

    def __init__(self, *, at_rest: bool) -> None:
        super().__init__()
        self.at_rest = at_rest


def push(task: str, config: Mapping[str, Any], post: Post) -> Pushed:
    """Write what was posted to the live source that is this running task, of this config.

    Raises
    ------
    BrokerAway
        The broker does not answer.
    NotTaken
        Its readers are behind, or nobody reads it now (``at_rest``).
    KeyUsed
        Its key was taken by another body.
    TooMuch
        It decodes to more than may be.
    """
    with broker_needed("so nothing can be taken in."), _told_to_wait():
        store = intake.IntakeStore(broker(settings.REDIS_URL))
        return push_events(store, task, config, post, most_events=settings.INGEST_EVENTS)


def room_in(tasks: Collection[str], post: Post) -> dict[str, str]:
    """The room of live sources before something is pushed to them: ``full``, ``resting``, or empty for those that take
    it.
    """
    once = post.once()
    with broker_needed("so nothing can be taken in."):
        store = intake.IntakeStore(broker(settings.REDIS_URL))
        if any(store.is_used(task, once) for task in tasks):
            raise KeyUsed
        return {task: "resting" if store.is_resting(task) else "full" if store.is_full(task) else "" for task in tasks}


def dead_letters(task: str, count: int) -> list[KeptLetter]:
    """The newest messages that a live source could not read, newest first; raises ``BrokerAway``."""
    with broker_needed("so they cannot be shown."):
        return intake.IntakeStore(broker(settings.REDIS_URL)).letters(task, count=count)


def refused_events(channel: str, count: int) -> list[KeptLetter]:
    """The newest events that the other system of a sink refused, newest first; raises ``BrokerAway``."""
    with broker_needed("so they cannot be shown."):
        return sinks.SinkStore(broker(settings.REDIS_URL)).letters(channel, count=count)


def write_again(channel: str, extent: str, since_ms: int | None) -> None:
    """Let a sink write again what is kept; ``BrokerAway`` where it cannot be told."""
    with broker_needed("so nothing is written again."):
        sinks.SinkStore(broker(settings.REDIS_URL)).ask(channel, sinks.Order(extent, since_ms))


def shows_before_it_runs(task_type: TaskType) -> bool:
    """True if a node can look at a source of that type which does not run: it reads what is outside, or makes events of
    their numbers alone."""
    return look_at(task_type) is not None or makes_events(task_type)


def order_look(order: LookOrder, *, owner: str) -> None:
    """Let a node look at a source, in the place of what this owner looked at before; raises ``BrokerAway``."""
    with broker_needed("so nobody can look."):
        look_store.order(broker(settings.REDIS_URL), order, owner=owner)


def seen(look_id: str, *, owner: str) -> look_store.LookProgress | None:
    """The progress of a look that this owner ordered, or None; raises ``BrokerAway``."""
    with broker_needed("so it is not known what was seen."):
        return look_store.seen(broker(settings.REDIS_URL), look_id, owner=owner)


def cancel_look(look_id: str, *, owner: str) -> None:
    """Let a look that this owner ordered end; raises ``BrokerAway``."""
    with broker_needed("so the look ends by itself."):
        look_store.cancel(broker(settings.REDIS_URL), look_id, owner=owner)


def proposed_columns(example: str, config: Mapping[str, Any]) -> ColumnProposal:
    """Columns that read a message which somebody has written down, for sources that show nothing before they run."""
    return proposal_for([Message(example.encode(errors="replace"))], config)


@contextmanager
def _told_to_wait() -> Iterator[None]:
    try:
        yield
    except (intake.Full, intake.SourceOvertaken) as error:
        raise NotTaken(at_rest=False) from error
    except (intake.Paused, intake.Closed) as error:
        raise NotTaken(at_rest=True) from error


def columns_read(config: Mapping[str, Any]) -> frozenset[str]:
    """The names of the columns that a source's config says it reads."""
    return frozenset(typed_columns(config.get("columns") or ()))
