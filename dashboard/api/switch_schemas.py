"""Requests about switches of dynamic tasks."""

from __future__ import annotations

from dashboard.api.request_schema import RequestSchema


class SwitchIn(RequestSchema):
    """The alternate that a dynamic task is to have, the tasks that switch with it, by which of theirs, and the seconds
    that it is held so then.

    With ``hold_s`` it may be the alternate that is on. With ``at_once`` it does not warm up, where the task's
    alternates do; while one warms up, the alternate that is on ends that. With ``key`` it is that key's alone.
    """

    task: str
    alternate: str
    along: dict[str, str] = {}
    hold_s: float | None = None
    at_once: bool = False
    key: list[str] = []
