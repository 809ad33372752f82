"""What is killed before or after any change on a disk or a broker."""

from __future__ import annotations

import random
from collections.abc import Callable


class Died(BaseException):
    """A slot was killed here: nothing catches it."""


class Mortal:
    """Who makes ``deadly`` changes dies at each with the probability ``RISK``, before it or after it."""

    RISK = 0.02
    chance: random.Random
    deadly: bool

    def _deadly(self, change: Callable[..., None]) -> Callable[..., None]:
        def changed(*arguments: object, **facts: object) -> None:
            self.may_die()
            change(*arguments, **facts)
            self.may_die()

        return changed

    def may_die(self) -> None:
        if self.deadly and self.chance.random() < self.RISK:
            raise Died
