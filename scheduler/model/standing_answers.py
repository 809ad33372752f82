"""Answers that stand: an expensive decision is made again only after its inputs have changed.

Measured figures are never equal twice. So the caller names the figures that count, each divided by the change up to
which the answer stays the same. All other inputs are the answer's ground, and have to be equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
STANDS_S = 60.0  # after which it is made anew in any case: not all that an answer rests on is told


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    answer: T
    figures: tuple[float, ...]
    made_s: float


class StandingAnswers(Generic[T]):
    """Answers by their grounds: each stands for `STANDS_S` at most, and while no figure is another by 1 or more.

    Parameters
    ----------
    most_effort : float, optional
        The bound of the effort for new ones in a round, in units of who asks: see `affords`.
    """

    def __init__(self, most_effort: float = math.inf) -> None:
        self._answers: dict[Hashable, _Known[T]] = {}
        self._now_s = 0.0
        self._most_effort, self._spent = most_effort, 0.0
        self._spent_by: Counter[str] = Counter()
        self.left_out = 0  # times in this round that there was no effort left

    def begin_round(self, now_s: float) -> None:
        """Forget what is too old by now, or from the future as the clock was put back."""
        self._now_s, self._spent, self.left_out = now_s, 0.0, 0
        self._spent_by = Counter({name: spent / 2 for name, spent in self._spent_by.items() if spent >= 1})
        self._answers = {
            ground: standing for ground, standing in self._answers.items() if 0 <= now_s - standing.made_s < STANDS_S}

    def spent_by(self, name: str) -> float:
        """The effort that was spent for somebody of late: each round halves what was before."""
        return self._spent_by[name]

    def affords(self, effort: float, *, by: str = "") -> bool:
        """True if so much may be spent in this round, which counts from then on, also for somebody; what comes first
        always may."""
        if self._spent and self._spent + effort > self._most_effort:
            self.left_out += 1
            return False
        self._spent += effort
        self._spent_by[by] += effort
        return True

    def of(
        self, ground: Hashable, *, figures: Callable[[T], Sequence[float] | None], make: Callable[[], T | None]
    ) -> T | None:
        """The standing answer, or a new one.

        Parameters
        ----------
        ground : hashable
            The values that have to be equal.
        figures : callable
            Takes an answer; gives the present figures that count for it, always the same number; None if it cannot
            stand, such as a choice that misses its goal.
        make : callable
            Makes a new answer, or None if there is none in this round.
        """
        standing = self._answers.get(ground)
        if standing is not None:
            present = figures(standing.answer)
            if present is not None and all(
                    abs(value - before) < 1.0 for value, before in zip(present, standing.figures, strict=True)):
                return standing.answer
        answer = make()
        rests_on = None if answer is None else figures(answer)
        if answer is not None and rests_on is not None:
            self._answers[ground] = _Known(answer, tuple(rests_on), self._now_s)
        else:
            self._answers.pop(ground, None)
        return answer
