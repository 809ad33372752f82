"""The port of a history: writing and reading, wherever it is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from .points import Points
from .series import Annotation, Grain, Series


class History(Protocol):
    """A history of series and annotations.

    Values come a second at a time, in order. A point of a coarser grain is the mean or the maximum of the finer
    points within it (``Metric.fold``); a point whose time is not over is made of the present ones.
    """

    def append(self, at_s: int, values: Mapping[Series, float]) -> None:
        """Take in what was measured in one second. It is read by others after ``flush``.

        ``at_s`` is in whole seconds since the epoch. A second that is there already stays as it is, and one from before
        the newest one appended is left out.
        """

    def flush(self) -> None:
        """Make what was appended last: it is there also where this process ends."""

    def annotate(self, annotations: Collection[Annotation]) -> None:
        """Keep what happened, at once; what is there already is not kept twice."""

    def read(
        self, series: Collection[Series], grain: Grain, *, begin_s: int, end_s: int
    ) -> Mapping[Series, Points]:
        """Points of a grain that have a part in ``[begin_s, end_s)``, for each series that is known.

        All of an answer begin at the same moment and are as many.

        Parameters
        ----------
        series : collection of Series
            The series, each once; those that are not known are left out.
        grain : Grain
            One of ``GRAINS``.
        begin_s, end_s : int
            The range, in seconds since the epoch; its end is not part of it.
        """

    def series_of(self, kind: str, subjects: Collection[str]) -> Sequence[Series]:
        """The series that are known of some subjects of a kind, in order of subject and metric."""

    def annotations(self, *, begin_s: int, end_s: int, subjects: Collection[tuple[str, str]]) -> Sequence[Annotation]:
        """The annotations in ``[begin_s, end_s)`` of any of these (kind, subject), the oldest first."""

    def tidy(self, now_s: int) -> None:
        """Make coarser points of what is complete, and forget what each grain no longer has to keep."""
