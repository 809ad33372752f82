"""Looks: what the site orders of a node's agent to see the newest events of a live source that does not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .codec import Codec

EVENTS = 20  # of a look, at most
WAITS_S = 5.0  # for the source to answer, and for its events
ORDERED, TAKEN, LOOKING, DONE, FAILED = "ordered", "taken", "looking", "done", "failed"


@dataclass(frozen=True, slots=True)
class LookOrder:
    """An order to look at a source: a task's type and config, with the names of its secrets and their team in it, and
    never their values. With ``proposes`` the config names no columns: the look proposes them."""

    id: str
    node: str
    task_type: str
    config: Mapping[str, Any]
    count: int = EVENTS
    waits_s: float = WAITS_S
    proposes: bool = False


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column that would read what was seen: a field of the events or, with a ``path``, a value inside of a field that
    holds a JSON object (the field's name first). ``may_lack``: some of the events that were seen do not have it."""

    name: str
    type: str
    may_lack: bool = False
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """Columns for a source, in order. ``time_field``: the likely event time, empty for none; ``time_unit``: its unit
    where it is a number; ``zoneless``: fields with times that name no zone; ``left_out``: by field, the reason why it
    cannot be a column."""

    columns: tuple[ProposedColumn, ...] = ()
    time_field: str = ""
    time_unit: str = "ms"
    zoneless: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unread:
    """An entry that could not be read, in the form of a dead letter of the source: why, where it was, and how it
    begins."""

    reason: str
    place: str = ""
    sample: str = ""


@dataclass(frozen=True, slots=True)
class LookState:
    """The progress of a look.

    ``state`` is ``ordered``, ``taken`` (a process starts), ``looking`` (the source has answered), ``done`` or
    ``failed``: then ``message`` and ``remedy`` say why, and ``code``, which is that of the connector's error or one of
    ``look_not_taken``, ``look_ended`` (its process died, or the slot was busy), ``look_too_large``, ``slot_not_ready``,
    ``look_failed`` and ``unreadable_order``. ``unread`` are the newest messages that could not be read, the newest
    first; ``too_large`` says how many events are left out because of their size. ``proposal`` is what a look proposes
    that was asked to.
    """

    state: str
    code: str = ""
    message: str = ""
    remedy: str = ""
    unread: tuple[Unread, ...] = ()
    too_large: int = 0
    proposal: ColumnProposal | None = None

    @property
    def is_over(self) -> bool:
        """True if nothing more comes of it."""
        return self.state in (DONE, FAILED)


LOOK_ORDERS = Codec(LookOrder)
LOOK_STATES = Codec(LookState)
