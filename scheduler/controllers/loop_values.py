"""The values of the loop: policies, decisions with what they promise, rounds and the commands that carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.model.checks import FiniteFigures

from .changes import AspectChange

HOUR_S, DAY_S = 3600.0, 86_400.0

OFF, RECOMMENDS, ACTS = "off", "recommends", "acts"
MODES = (OFF, RECOMMENDS, ACTS)

UNDO = "undo"  # in a decision's arguments: the round, or the plan, that it takes back

# How far a round is. Open:
BEGUN = "begun"  # its command was given; nothing was heard of it yet
ASKED = "asked"  # people are asked
ENACTING = "enacting"
CHECKING = "checking"  # in force: does what was promised come?
WITHDRAWING = "withdrawing"  # given up before anything has changed
ROLLING_BACK = "rolling_back"
# Ended:
KEPT = "kept"  # the promise came
ROLLED_BACK = "rolled_back"  # it did not come, or people took it back
BROKEN = "broken"  # it did not come; people had approved the change, and it is theirs to take back
UNCHECKED = "unchecked"  # in force, but nobody could tell whether the promise came
DECLINED = "declined"  # nothing has changed: people refused, the estate moved on, or nothing carried it out
STUCK = "stuck"  # it was to be taken back and cannot be: what it changed is another by now

OPEN_PHASES = frozenset({BEGUN, ASKED, ENACTING, CHECKING, WITHDRAWING, ROLLING_BACK})
MOVING = frozenset({BEGUN, ENACTING, WITHDRAWING, ROLLING_BACK})  # something may change at any moment


@dataclass(frozen=True, slots=True)
class Policy(FiniteFigures):
    """A team's permission for a controller: its mode, changes an hour and a day, and the rest after a change in
    seconds."""

    mode: str = RECOMMENDS
    changes_per_hour: int = 2
    changes_per_day: int = 12
    cool_down_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class PromiseBound(FiniteFigures):
    """A figure that is promised: measured ``before``, and afterwards ``at_most``.

    One that is ``hard`` is held at whatever load, and not waited for: it keeps others from harm.
    """

    measure: str
    unit: str
    before: float
    at_most: float
    hard: bool = False


@dataclass(frozen=True, slots=True)
class ControllerPromise(FiniteFigures):
    """The figures that a change is to bring, and the time within which it is to do so, in seconds from when it is in
    force.

    ``load`` is what it was measured at (events/s, or None where it does not depend on load): later figures count where
    the load is about the same.
    """

    text: str
    within_s: float
    bounds: tuple[PromiseBound, ...] = ()
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A change that a controller finds worth it.

    Parameters
    ----------
    target : str
        The id of what it is about: a dataflow, a profile.
    team : str
        The team whose settings count; empty for what belongs to no team.
    worth : float
        By which decisions of one evaluation are ranked, the greatest first.
    moves_queries : bool
        True if it restarts queries: of such changes there is one at a time in the whole estate.
    arguments : mapping of str to str
        Further values for whoever carries it out.
    urgent : bool
        True if it takes back what breaks a limit now: no cool-down and no budget holds it up, and what it takes back is
        not made again for a day.
    alongside : bool
        True if it may begin while people are asked about other rounds of its team, or these are checked; never while
        one is moving.
    """

    target: str
    team: str
    changes: tuple[AspectChange, ...]
    promise: ControllerPromise
    why: str
    worth: float = 0.0
    touched: tuple[str, ...] = ()
    moves_queries: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    urgent: bool = False
    alongside: bool = False

    @property
    def teams(self) -> tuple[str, ...]:
        """The own team and those that are touched."""
        return (self.team, *self.touched)


@dataclass(frozen=True, slots=True)
class IdleReason:
    """The reason why an evaluation did not lead to a round, for one team."""

    team: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of the loop for one decision.

    ``key`` names it for good: whoever carries its commands out does so once for each key. Moments are seconds since the
    epoch, as the loop noticed them: ``changed_s`` when its change was in force, ``back_s`` when it was taken back.
    """

    key: str
    controller: str
    mode: str
    decision: Decision
    begun_s: float
    phase: str = BEGUN
    changed_s: float | None = None
    back_s: float | None = None
    ended_s: float | None = None
    why: str = ""
    refused: bool = False  # people turned it down

    @property
    def is_open(self) -> bool:
        """True if it is in flight."""
        return self.phase in OPEN_PHASES

    @property
    def has_changed(self) -> bool:
        """True if its change was in force, or may have been."""
        return self.changed_s is not None or self.phase in {ENACTING, CHECKING, ROLLING_BACK}


@dataclass(frozen=True, slots=True)
class LoopState:
    """The state of the loop: rounds in flight and those that ended lately, of every controller.

    ``clock_s``: its newest moment; earlier ones count as this one.
    """

    rounds: tuple[Round, ...] = ()
    next_number: int = 1
    clock_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Begin:
    """Make the change of a round, or propose it; once for its key, and never after it was withdrawn."""

    round: Round


@dataclass(frozen=True, slots=True)
class WithdrawRound:
    """See that the change of a round is never made, where that has not happened yet."""

    round: Round


@dataclass(frozen=True, slots=True)
class RollBack:
    """Take the change of a round back; ``changes`` say what gets which value again."""

    round: Round
    changes: tuple[AspectChange, ...]


Command = Begin | WithdrawRound | RollBack
