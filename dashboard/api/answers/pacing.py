"""Answers about how intervals are chosen."""

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
