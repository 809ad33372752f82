"""Answers about choices for the whole estate: how intervals are chosen, and whether teams share slots."""

from __future__ import annotations

from .common import Answer


class PacingWay(Answer):
    """A way to choose intervals: what it does, what it costs, and whether batches may stay open with it."""

    name: str
    title: str
    does: str
    costs: str
    leaves_batches_open: bool


class PacingAnswer(Answer):
    """The way in force (``is_chosen``: by an administrator, else by the environment), and all that there are."""

    pacing: str
    is_chosen: bool
    ways: list[PacingWay]


class TenancyWay(Answer):
    """A way to place the queries of teams: what it does, and what it costs."""

    name: str
    title: str
    does: str
    costs: str


class TenancyAnswer(Answer):
    """The way in force (``is_chosen``: by an administrator, else by the environment), all that there are, and the slots
    that hold queries of several teams."""

    tenancy: str
    is_chosen: bool
    shared_slots: list[str]
    ways: list[TenancyWay]
