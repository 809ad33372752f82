"""Answers about choices for the whole estate: how intervals are chosen, and whether teams share slots."""

from __future__ import annotations

from dashboard.operations.estate_store import tenancy_choice
from dashboard.operations.latency_control import pacing_choice

from .common import Answer, answer_of

PacingWay = answer_of(pacing_choice.PacingKind, name="PacingWay")


class PacingAnswer(Answer):
    """The way in force (``is_chosen``: by an administrator, else by the environment), and all ways."""

    pacing: str
    is_chosen: bool
    ways: list[PacingWay]


TenancyWay = answer_of(tenancy_choice.TenancyKind, name="TenancyWay")


class TenancyAnswer(Answer):
    """The way in force (``is_chosen``: by an administrator, else by the environment), all that there are, and the slots
    that hold queries of several teams."""

    tenancy: str
    is_chosen: bool
    shared_slots: list[str]
    ways: list[TenancyWay]
