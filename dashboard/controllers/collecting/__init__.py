"""What controllers are told: the evidence of each, now and over kept history, and the effect of a round.

A collector is an entry of ``COLLECTORS`` under the name that its controller ``reads``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.controllers.collecting import chains, deployments, fusions, modes, profiles, slow_tasks
from dashboard.controllers.models import RoundRow
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.protocol import Effect
from scheduler.controllers.values import Round


@dataclass(frozen=True, slots=True)
class Collector:
    """Collects for one kind of controller.

    Parameters
    ----------
    evidence : callable
        ``(at)``: what there is now; None where nothing can be known.
    frames : callable
        ``(begin, end)``: what there was, the oldest first, as far as it is kept.
    effect : callable
        ``(round, row, at)``: what was measured until then since a round's change was in force.
    is_urgent : callable, optional
        ``(at)``: whether its controllers are to decide between two turns of the loop, too.
    """

    evidence: Callable[[datetime], Any]
    frames: Callable[[datetime, datetime], Iterator[Frame]]
    effect: Callable[[Round, RoundRow, datetime], Effect | None]
    is_urgent: Callable[[datetime], bool] = lambda at: False


COLLECTORS: Mapping[str, Collector] = {
    "chains": Collector(chains.evidence, chains.frames, chains.effect),
    "deployments": Collector(deployments.evidence, deployments.frames, deployments.effect),
    "fusions": Collector(fusions.evidence, fusions.frames, fusions.effect),
    "modes": Collector(modes.evidence, modes.frames, modes.effect),
    "profiles": Collector(profiles.evidence, profiles.frames, profiles.effect),
    "slow_tasks": Collector(slow_tasks.evidence, slow_tasks.frames, fusions.effect, slow_tasks.is_urgent)}
