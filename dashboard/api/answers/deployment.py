"""Answers about what runs where."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from .common import Answer, Moving


class Named(Answer):
    """A dataflow by id, name and team."""

    id: str
    name: str
    team: str


class DeployedQuery(Answer):
    """A query on a slot: its tasks in words, the cores that it takes (null: not measured yet), how many events wait for
    it (an estimate where they are many), whose dataflows run in it, the one of the viewer's own to ask for its move, to
    which slots it may go, and why it stays where it does."""

    id: str
    name: str
    cores: Annotated[float | None, Moving()]
    waiting: Annotated[int, Moving()]
    users: list[Named]
    dataflow: Named | None
    targets: list[str]
    why_not: str


class DeployedSlot(Answer):
    """A slot, the cores that its queries take, whether that is much, and why nothing more may go there (``closed``,
    empty where it may)."""

    slot: str
    node: str
    cores: Annotated[float, Moving()]
    load: Annotated[Literal["high", "normal", "low"], Moving()]
    closed: str
    queries: list[DeployedQuery]


class Traffic(Answer):
    """What passes from one slot, or query, to another."""

    source: str
    target: str
    bytes_per_s: Annotated[float, Moving()]
    events_per_s: Annotated[float, Moving()]


class SlotThen(Answer):
    """What a slot that a move leaves or goes to has to do, in cores, now and then; and how much that is then."""

    slot: str
    cores: Annotated[float, Moving()]
    after: Annotated[float, Moving()]
    load: Literal["high", "normal", "low"]


class TeamToAgree(Answer):
    """A team that a move concerns: how many approvals it demands, and of whom; 0 where it agreed beforehand."""

    slug: str
    name: str
    approvals: int
    role: str


class MovePreview(Answer):
    """What a move of a dataflow's query, and of those ``along`` with it, to a slot would bring; nothing is proposed.

    ``refused`` says why it cannot be proposed now, and ``remedy`` what to do; both are empty where it can.
    ``is_planned`` says whether there is a plan of it, of which all else tells. ``slots`` are those that it leaves and,
    as the last, the one that it goes to. ``saved_bytes_per_s`` is what passes between nodes less, of
    ``between_bytes_per_s`` now, negative where more does (null: not known). ``pause_s`` is for about how long an output
    stands still, ``pause_at_most_s`` for how long at most in 19 of 20.
    """

    dataflow: Named
    query: str
    along: list[str]
    slot: str
    may_propose: bool
    refused: str
    remedy: str
    is_planned: bool
    slots: list[SlotThen]
    between_bytes_per_s: Annotated[float | None, Moving()]
    saved_bytes_per_s: Annotated[float | None, Moving()]
    between_nodes: bool
    pause_s: Annotated[float, Moving()]
    pause_at_most_s: Annotated[float, Moving()]
    risks: list[str]
    teams: list[TeamToAgree]


class Suggestion(Answer):
    """A ``move`` that is worth it by what is measured now, or null; why, and how many cores slots are ``lacking``."""

    why: str
    lacking: float
    move: MovePreview | None


class Deployment(Answer):
    """Slots with their queries, the traffic between slots (``traffic``) and between queries (``pairs``), and a move
    that is worth it."""

    available: bool
    slots: list[DeployedSlot]
    traffic: list[Traffic]
    pairs: list[Traffic]
    between_nodes: Annotated[float, Moving()]
    queries: int
    suggestion: Suggestion | None


class QueryOnNode(Answer):
    """A query on a node, its tasks in words, and why it cannot go to another node; empty where it can.

    Where the node is drained, ``held`` says what keeps it from going now (empty: nothing does), ``proposal`` which
    proposal that is about, and ``again_at`` when Weir tries again by itself.
    """

    id: str
    slot: str
    name: str
    why_not: str
    held: str
    proposal: str | None
    again_at: datetime | None


class Drain(Answer):
    """Whether a node is drained, and what is on it; ``others`` counts queries that the caller may not know of,
    ``leaving`` those that it still hands over or ends (null: nothing is heard of it). One that ``is_empty`` can be
    stopped."""

    node: str
    draining: bool
    queries: list[QueryOnNode]
    others: int
    leaving: int | None
    is_empty: bool
