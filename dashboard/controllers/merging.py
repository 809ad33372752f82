"""Repeated reasons for doing nothing, merged into one row with its count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.controllers.loop_values import IdleReason

_FIGURES = re.compile(r"\d[\d.,e+-]*")


@dataclass(frozen=True, slots=True)
class MergedReason:
    """A reason in its last wording, the first and last time that it was given (seconds since the epoch), and how
    often."""

    team: str
    target: str
    why: str
    since_s: float
    until_s: float
    times: int = 1


def gist(reason: str) -> str:
    """A sentence without its figures, which change from one time to the next."""
    return _FIGURES.sub("#", reason)


def merged_reasons(reasons: Iterable[tuple[float, IdleReason]]) -> list[MergedReason]:
    """Merge successive reasons of one team and target that differ in figures alone; the newest first.

    ``reasons`` come in order of time.
    """
    newest: dict[tuple[str, str], MergedReason] = {}
    done: list[MergedReason] = []
    for at_s, reason in reasons:
        about = reason.team, reason.target
        before = newest.get(about)
        if before is not None and gist(before.why) == gist(reason.why):
            newest[about] = replace(before, why=reason.why, until_s=at_s, times=before.times + 1)
            continue
        if before is not None:
            done.append(before)
        newest[about] = MergedReason(reason.team, reason.target, reason.why, at_s, at_s)
    return sorted([*done, *newest.values()], key=lambda reason: -reason.until_s)
