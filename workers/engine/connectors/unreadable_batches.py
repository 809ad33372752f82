"""A batch of Kafka's that cannot be unpacked comes again at each try, and no client tells where it ends. Pure.

Its beginning is told with each error. So the end is searched, by halves, between the position and the end of the
partition: whoever reads from an offset within the batch meets the same error, and whoever reads from one behind it
something else. Nothing that can be read is passed over, and what is met while searching is read again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """A search for the end of a batch.

    Parameters
    ----------
    first : int
        The offset at which the batch begins, as errors tell it.
    within : int
        An offset that is read from and meets the batch; the position at first.
    behind : int
        One that is behind the batch; the end of the partition at first.
    """

    first: int
    within: int
    behind: int

    @property
    def is_found(self) -> bool:
        """True if the end of the batch is known: ``behind`` is the first offset after it."""
        return self.behind <= self.within + 1

    @property
    def at(self) -> int:
        """The offset to read next."""
        return (self.within + self.behind) // 2

    def after(self, met: int | None) -> UnreadableBatch:
        """The search after what came from ``at``.

        Parameters
        ----------
        met : int, optional
            The offset at which the batch begins that cannot be read; None where something else came.
        """
        return replace(self, within=self.at) if met == self.first else replace(self, behind=self.at)


class UnreadableBatches:
    """The searches of a source, by topic and partition."""

    def __init__(self) -> None:
        self._searches: dict[tuple[str, int], UnreadableBatch] = {}

    def __contains__(self, part: tuple[str, int]) -> bool:
        return part in self._searches

    def at(self, part: tuple[str, int], position: int) -> int:
        """The offset at which a partition is to be read now: at its position, unless the end of a batch is searched."""
        search = self._searches.get(part)
        return position if search is None else search.at

    def search(
        self, part: tuple[str, int], met: int | None, *, position: int, end: Callable[[], int]
    ) -> int | None:
        """Take what came of a partition; the offset behind the batch where that is known now, which ends the search.

        Parameters
        ----------
        met : int, optional
            As for `UnreadableBatch.after`; a search begins with an offset.
        """
        search = self._searches.get(part)
        if search is not None:
            search = search.after(met)
        else:
            search = UnreadableBatch(position if met is None else met, position, max(end(), position + 1))
        self._searches[part] = search
        return self._searches.pop(part).behind if search.is_found else None

    def forget(self, part: tuple[str, int]) -> None:
        """Search no more there."""
        self._searches.pop(part, None)
