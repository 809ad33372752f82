"""Answers about what runs where."""

from __future__ import annotations

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
    """A slot, the cores that its queries take, and whether that is much."""

    slot: str
    node: str
    cores: Annotated[float, Moving()]
    load: Annotated[Literal["high", "normal", "low"], Moving()]
    queries: list[DeployedQuery]


class Traffic(Answer):
    """What passes from one slot, or query, to another."""

    source: str
    target: str
    bytes_per_s: Annotated[float, Moving()]
    events_per_s: Annotated[float, Moving()]


class SuggestedMove(Answer):
    """A move that is worth it by what is measured now, with what its slots would have to do then; or why none is.

    ``along`` are queries that go to the slot with it; ``saved_bytes_per_s`` is what passes between nodes less, where
    the move is made for that.
    """

    why: str
    lacking: float
    query: str | None
    along: list[str] = []
    source: str | None = None
    target: str | None = None
    dataflow: Named | None = None
    source_cores: float | None = None
    source_after: float | None = None
    target_after: float | None = None
    saved_bytes_per_s: float | None = None
    pause_s: float | None = None
    risk: str | None = None


class Deployment(Answer):
    """Slots with their queries, the traffic between slots (``traffic``) and between queries (``pairs``), and a move
    that is worth it."""

    available: bool
    slots: list[DeployedSlot]
    traffic: list[Traffic]
    pairs: list[Traffic]
    between_nodes: Annotated[float, Moving()]
    queries: int
    suggestion: SuggestedMove | None


class QueryOnNode(Answer):
    """A query on a node, its tasks in words, and why it cannot go to another node; empty where it can."""

    id: str
    slot: str
    name: str
    why_not: str


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
