"""Changes by controllers: one aspect of one subject, from one value to another, each of the aspect's own type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.fragment import Slot


class Aspect(StrEnum):
    """An aspect of a subject that a change sets. Controllers share these names and those of subjects, so that none
    undoes a change of another."""

    SLOT = "slot"  # where a query runs
    STREAM = "stream"  # what carries a stream: ``parent>child``
    TASKS = "query"  # which tasks a query has
    BATCHES = "batches of"  # how a query's batches run
    PROFILE = "profile"  # by which profile a type of task is predicted
    ALTERNATE = "alternate of"  # by which alternate a dynamic task is done
    SCHEDULE = "schedule of"  # for which rate a dataflow's schedule is
    KEYS = "keys of"  # how the ring of a task is cut


class Carriage(StrEnum):
    """The carrier of a stream."""

    CHANNEL = "in a channel"
    WITHIN = "within a query"


class Surplus(StrEnum):
    """Tasks of a query that nobody needs."""

    WITH = "with tasks that nobody needs"
    WITHOUT = "without"


class BatchMode(StrEnum):
    """The mode of a query's batches: one after the other, or each left open for events that come."""

    MICRO = "micro-batches"
    OPEN = "open"


class SlotName(str):
    """The name of a slot, ``<node>/<index>``; `ValueError` where it is none."""

    def __new__(cls, name: str) -> SlotName:
        return super().__new__(cls, Slot.of(name).name)


class ProfileName(str):
    """The id of a profile, or what is said of one that is still to be measured."""


class AlternateName(str):
    """The name of an alternate; `ValueError` where it is empty."""

    def __new__(cls, name: str) -> AlternateName:
        if not name:
            raise ValueError("an alternate has a name")
        return super().__new__(cls, name)


class ScheduledRate(str):
    """Events a second of each source, or ``own``; `ValueError` where it is no such rate."""

    def __new__(cls, rate: str) -> ScheduledRate:
        if rate != "own" and not 0 < float(rate) < float("inf"):
            raise ValueError("a schedule is for a rate above 0")
        return super().__new__(cls, rate)


class RingCut(str):
    """Parts of the ring, in their order on it; `ValueError` where there are none."""

    def __new__(cls, cut: str) -> RingCut:
        if not cut:
            raise ValueError("a ring is cut into parts")
        return super().__new__(cls, cut)


ChangeValue = Carriage | Surplus | BatchMode | str
_VALUES: Mapping[Aspect, Callable[[str], ChangeValue]] = {
    Aspect.SLOT: SlotName, Aspect.STREAM: Carriage, Aspect.TASKS: Surplus, Aspect.BATCHES: BatchMode,
    Aspect.PROFILE: ProfileName, Aspect.ALTERNATE: AlternateName, Aspect.SCHEDULE: ScheduledRate,
    Aspect.KEYS: RingCut}


@dataclass(frozen=True, slots=True)
class AspectChange:
    """Another value for one aspect of one subject.

    `ValueError` for an unknown aspect, or a value of another type than the aspect's.

    Examples
    --------
    >>> change = AspectChange(Aspect.STREAM, "a>b", Carriage.CHANNEL, Carriage.WITHIN)
    >>> change.reverse.after
    <Carriage.CHANNEL: 'in a channel'>
    >>> AspectChange(Aspect.STREAM, "a>b", "in a channel", "open")
    Traceback (most recent call last):
    ...
    ValueError: 'open' is not a valid Carriage
    """

    aspect: Aspect
    subject: str
    before: ChangeValue
    after: ChangeValue

    def __post_init__(self) -> None:
        aspect = Aspect(self.aspect)
        object.__setattr__(self, "aspect", aspect)
        for name in ("before", "after"):
            object.__setattr__(self, name, _VALUES[aspect](getattr(self, name)))

    @property
    def what(self) -> tuple[Aspect, str]:
        """The aspect and the subject of the change."""
        return self.aspect, self.subject

    @property
    def reverse(self) -> AspectChange:
        """The change that takes this one back."""
        return AspectChange(self.aspect, self.subject, self.after, self.before)
