"""Answers about what runs where."""

from __future__ import annotations

from typing import Literal

from dashboard.approvals import drains, move_previews

from .common import Answer, User, answer_of


class DeployedQuery(Answer):
    """A query on a slot: its tasks in words, the cores that it takes (null: not measured yet), how many events wait for
    it (an estimate where they are many), whose dataflows run in it, the one of the viewer's own to ask for its move, to
    which slots it may go, and why it stays where it does."""

    id: str
    state: str
    name: str
    cores: float | None
    waiting: int
    users: list[User]
    dataflow: User | None
    targets: list[str]
    why_not: str


class DeployedSlot(Answer):
    """A slot, the cores that its queries take, whether that is much, and why nothing more may go there (``closed``,
    empty where it may)."""

    slot: str
    node: str
    cores: float
    load: Literal["high", "normal", "low"]
    closed: str
    queries: list[DeployedQuery]


class Traffic(Answer):
    """Traffic from one slot, or query, to another."""

    source: str
    target: str
    bytes_per_s: float
    events_per_s: float


MovePreview = answer_of(move_previews.MovePreview)
Suggestion = answer_of(move_previews.Suggestion)


class DeploymentAnswer(Answer):
    """Slots with their queries, the traffic between slots (``traffic``) and between queries (``pairs``, most bytes
    first), the part of the bytes that passes between nodes, and a move that is worth it."""

    available: bool
    slots: list[DeployedSlot]
    traffic: list[Traffic]
    pairs: list[Traffic]
    between_nodes: float
    queries: int
    suggestion: Suggestion | None


QueryOnNode = answer_of(drains.QueryThere, name="QueryOnNode")
DrainAnswer = answer_of(drains.Drain, name="DrainAnswer", is_empty=bool)
