"""Rules of approval: who has to agree to a plan, how many, for how long that counts, and when it may be enacted.

Each team has rules for plans that concern it, as a value. A plan makes a `Case` for each of these teams; the first
clause that fits it says what is demanded. Times are in ms since the epoch, days and minutes in UTC. Nothing here knows
a clock: whoever asks says what time it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .contracts.codec import Codec, InvalidContract
from .contracts.moments import MomentMs
from .model.checks import require_finite
from .model.effects import REACHES
from .model.errors import WeirError
from .model.plan import Plan
from .model.plan_kinds import PLAN_KINDS

Whose = Literal["any", "own", "others"]  # the dataflow that the plan is for: of this team, or of another
ApproverRole = Literal["approver", "admin"]
RANKS: dict[ApproverRole, int] = {"approver": 1, "admin": 2}
MOST_APPROVALS = 9
MOST_ENTRIES = 40  # clauses, windows or freezes of a team
HOUR_MS, MINUTE_MS, DAY_MS = 3_600_000, 60_000, 86_400_000
MINUTES_A_DAY, DAYS_A_WEEK = 1440, 7
FIRST_WEEKDAY = 3  # 1 January 1970 was a Thursday; Monday is 0


class InvalidRules(WeirError):
    """Rules that cannot be: no such kind, no approvals, a window without an end."""

    code = "invalid_rules"


def _require_kinds(kinds: Iterable[str]) -> None:
    unknown = [kind for kind in kinds if kind not in PLAN_KINDS]
    if unknown:
        raise ValueError(f"there is no kind {unknown[0]!r} of plans")


@dataclass(frozen=True, slots=True)
class Case:
    """Facts of a plan that rules decide by, for one team that it concerns.

    ``money_per_hour`` is what it costs an hour more, capacity of slots that it keeps included; ``touches_others``
    whether another team notices it or pays more; ``pause_ms`` for how long something that runs is expected to stand;
    ``reaches`` what the tasks that it starts reach beyond Weir (`effects.REACHES`).
    """

    kind: str
    is_own: bool
    money_per_hour: float
    touches_others: bool
    pause_ms: float
    reaches: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Clause:
    """A demand for the cases that it fits: those of its kinds (none: of any), whose, and above a price."""

    kinds: tuple[str, ...] = ()
    whose: Whose = "any"
    above_money_per_hour: float | None = None
    approvals: int = 1
    role: ApproverRole = "approver"
    expires_after_h: float | None = None  # an approval counts for so long

    def __post_init__(self) -> None:
        require_finite(self)
        _require_kinds(self.kinds)
        if not 1 <= self.approvals <= MOST_APPROVALS:
            raise ValueError(f"1 to {MOST_APPROVALS} approvals can be demanded")
        if self.expires_after_h is not None and not 0 < self.expires_after_h <= 10_000:
            raise ValueError("an approval counts for more than 0 and at most 10,000 hours")

    def fits(self, case: Case) -> bool:
        """True if the clause is about this case."""
        return (
            (not self.kinds or case.kind in self.kinds)
            and (self.whose == "any" or (self.whose == "own") is case.is_own)
            and (self.above_money_per_hour is None or case.money_per_hour > self.above_money_per_hour))


@dataclass(frozen=True, slots=True)
class Automatic:
    """The limit below which the team agrees beforehand.

    To nothing that starts tasks with outside effects or secrets, but to those that ``effects`` names.
    """

    kinds: tuple[str, ...] = ()
    most_money_per_hour: float = 0.0  # 0: it saves money, or costs none
    most_pause_ms: float = 250.0
    alone: bool = True  # no other team notices it or pays more
    effects: tuple[str, ...] = ()  # of `effects.REACHES`

    def __post_init__(self) -> None:
        require_finite(self)
        _require_kinds(self.kinds)
        if unknown := [effect for effect in self.effects if effect not in REACHES]:
            raise ValueError(f"there is no effect {unknown[0]!r}: {', '.join(REACHES)}")
        if self.most_pause_ms < 0:
            raise ValueError("a pause is 0 ms or longer")

    def allows(self, case: Case) -> bool:
        """True if the team agrees to this without being asked."""
        return (
            (not self.kinds or case.kind in self.kinds)
            and case.money_per_hour <= self.most_money_per_hour and case.pause_ms <= self.most_pause_ms
            and not (self.alone and case.touches_others) and case.reaches.issubset(self.effects))


@dataclass(frozen=True, slots=True)
class EnactmentWindow:
    """A window in which plans may be enacted: on some days of the week (Monday is 0), from a minute of the day to
    another.

    One that ends before it begins ends on the next day.
    """

    days: tuple[int, ...]
    begin_min: int
    end_min: int

    def __post_init__(self) -> None:
        if not self.days or any(not 0 <= day < DAYS_A_WEEK for day in self.days):
            raise ValueError("a window is on some days from 0 (Monday) to 6")
        if not (0 <= self.begin_min < MINUTES_A_DAY and 0 < self.end_min <= MINUTES_A_DAY):
            raise ValueError("a window is from 00:00 to 24:00")
        if self.begin_min == self.end_min:
            raise ValueError("a window ends at another time than it begins")

    def is_open(self, at_ms: int) -> bool:
        """True if it is within the window."""
        day, minute = _weekday(at_ms), at_ms % DAY_MS / MINUTE_MS
        if self.begin_min < self.end_min:
            return day in self.days and self.begin_min <= minute < self.end_min
        begun_yesterday = (day - 1) % DAYS_A_WEEK in self.days and minute < self.end_min
        return begun_yesterday or (day in self.days and minute >= self.begin_min)


@dataclass(frozen=True, slots=True)
class Freeze:
    """A time in which nothing is enacted, and why."""

    since_ms: MomentMs
    until_ms: MomentMs
    reason: str = ""

    def __post_init__(self) -> None:
        if self.until_ms <= self.since_ms:
            raise ValueError("a freeze ends after it begins")


@dataclass(frozen=True, slots=True)
class ApprovalDemand:
    """A team's demand for one plan: so many approvals of people with a role, each of which counts for some hours.

    None where it agreed beforehand; ``why`` says by what.
    """

    approvals: int = 1
    role: ApproverRole = "approver"
    expires_after_h: float | None = None
    why: str = ""

    @property
    def automatic(self) -> bool:
        return self.approvals == 0

    def asks_less_than(self, other: ApprovalDemand) -> bool:
        """True if it asks for fewer approvals than another, of a lower role, or for ones that count for longer."""
        if self.automatic or other.automatic:
            return self.automatic and not other.automatic
        lasts, lasted = (float("inf") if demand.expires_after_h is None else demand.expires_after_h
                         for demand in (self, other))
        return self.approvals < other.approvals or RANKS[self.role] < RANKS[other.role] or lasts > lasted


@dataclass(frozen=True, slots=True)
class Closure:
    """The reason why nothing is enacted now, and the end of that; None where nobody can tell."""

    reason: str
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Rules:
    """A team's rules. Those that a team begins with demand one approver for everything, at any time."""

    clauses: tuple[Clause, ...] = ()  # the first that fits counts
    otherwise: Clause = Clause()
    automatic: Automatic | None = None
    windows: tuple[EnactmentWindow, ...] = ()  # none: at any time
    freezes: tuple[Freeze, ...] = ()

    def __post_init__(self) -> None:
        if max(len(self.clauses), len(self.windows), len(self.freezes)) > MOST_ENTRIES:
            raise ValueError(f"at most {MOST_ENTRIES} of a kind are kept")

    def demand(self, case: Case) -> ApprovalDemand:
        """The team's demand for a plan."""
        if self.automatic is not None and self.automatic.allows(case):
            return ApprovalDemand(0, why="below the limit that the team agrees to beforehand")
        clause = next((clause for clause in self.clauses if clause.fits(case)), self.otherwise)
        return ApprovalDemand(clause.approvals, clause.role, clause.expires_after_h)

    def frozen(self, at_ms: int) -> Freeze | None:
        """The freeze that holds longest of those that hold now; None where none does."""
        return max((freeze for freeze in self.freezes if freeze.since_ms <= at_ms < freeze.until_ms),
                   key=lambda freeze: freeze.until_ms, default=None)

    def closed(self, at_ms: int) -> Closure | None:
        """The obstacle to enacting anything now; None where nothing does."""
        if (longest := self.frozen(at_ms)) is not None:
            return Closure(f"freeze{f': {longest.reason}' if longest.reason else ''}", longest.until_ms)
        if self.windows and not any(window.is_open(at_ms) for window in self.windows):
            return Closure("outside of its windows", self._next_opening(at_ms))
        return None

    def _next_opening(self, at_ms: int) -> int | None:
        midnight = at_ms - at_ms % DAY_MS
        openings = [
            midnight + later * DAY_MS + window.begin_min * MINUTE_MS
            for window in self.windows for later in range(DAYS_A_WEEK + 1)
            if _weekday(midnight + later * DAY_MS) in window.days]
        return min((opening for opening in openings if opening > at_ms), default=None)


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval of a plan by a person for a team: the highest role that they had there."""

    person: int
    role: ApproverRole
    at_ms: int


@dataclass(frozen=True, slots=True)
class DemandStatus:
    """Progress of a team's demand: whose approvals count, how many more it takes, when the first of them expires."""

    counted: tuple[int, ...]
    missing: int
    expires_ms: int | None = None


DEFAULT = Rules()
RULES: Codec[Rules] = Codec(Rules, sparse=True)


def less_asked(before: Rules, after: Rules) -> Case | None:
    """A case in which rules ask for less than those before them; None where they do in no case.

    Rules tell cases apart by what they name alone: their kinds, thresholds and effects. So one case from each side of
    each of these stands for all.

    >>> less_asked(Rules(), Rules(clauses=(Clause(kinds=("remove",), approvals=2),))) is None
    True
    """
    rule_sets = (before, after)
    clauses = [clause for rules in rule_sets for clause in (*rules.clauses, rules.otherwise)]
    limits = [rules.automatic for rules in rule_sets if rules.automatic is not None]
    by_mention = {tuple(kind in scope.kinds for scope in (*clauses, *limits)): kind for kind in PLAN_KINDS}
    money = [clause.above_money_per_hour for clause in clauses if clause.above_money_per_hour is not None]
    effects = {effect for limit in limits for effect in limit.effects}
    unnamed = {effect for effect in REACHES if effect not in effects}
    cases = (
        Case(kind, is_own, price, touches_others, pause_ms, reaches)
        for kind in by_mention.values() for is_own in (True, False)
        for price in _both_sides(money + [limit.most_money_per_hour for limit in limits])
        for touches_others in (False, True)
        for pause_ms in _both_sides([limit.most_pause_ms for limit in limits])
        for reaches in (frozenset(), *(frozenset({effect}) for effect in sorted(effects | set(sorted(unnamed)[:1])))))
    return next((case for case in cases if after.demand(case).asks_less_than(before.demand(case))), None)


def _both_sides(thresholds: list[float]) -> list[float]:
    """A value of each stretch that thresholds cut: up to each of them, and above the last."""
    return [*sorted(set(thresholds)), math.nextafter(max(thresholds), math.inf)] if thresholds else [0.0]


def case_of(plan: Plan, *, team: str, pause_ms: float, reaches: frozenset[str] = frozenset()) -> Case:
    """A plan as a team's rules see it.

    Parameters
    ----------
    pause_ms : float
        For how long outputs are expected to stand while queries hand over or restart; 0 where none does.
    reaches : frozenset of str, optional
        The effects beyond Weir of the tasks that it starts (`effects.reached_by`).
    """
    owner, price = plan.dataflow.team, plan.price
    pays_more = any(change.team != owner and change.money_per_hour_delta > 0 for change in plan.bill_changes)
    return Case(
        kind=plan.kind, is_own=team == owner,
        money_per_hour=0.0 if price is None else price.money_per_hour_delta + price.slots_per_hour_delta,
        touches_others=pays_more or any(name != owner for name in plan.touched_teams),
        pause_ms=pause_ms, reaches=reaches)


def status_of(demand: ApprovalDemand, approvals: Iterable[Approval], *, at_ms: int) -> DemandStatus:
    """The progress of a demand with some approvals; one person counts once, by their last approval."""
    last = {approval.person: approval for approval in sorted(approvals, key=lambda approval: approval.at_ms)}
    lasts_ms = None if demand.expires_after_h is None else int(demand.expires_after_h * HOUR_MS)
    counted = [
        approval for approval in last.values() if RANKS[approval.role] >= RANKS[demand.role]
        and (lasts_ms is None or at_ms < approval.at_ms + lasts_ms)]
    expires_ms = min((approval.at_ms + lasts_ms for approval in counted), default=None) if lasts_ms else None
    return DemandStatus(
        tuple(approval.person for approval in counted), max(0, demand.approvals - len(counted)), expires_ms)


def rules_of(document: object) -> Rules:
    """The rules of a document; ``InvalidRules`` says what they cannot be."""
    try:
        return RULES.read(document)
    except InvalidContract as error:
        raise InvalidRules(
            f"These are no rules: {error.message.partition(': ')[2]}", remedy="Correct that part.",
            place=error.facts["place"]) from error


def _weekday(at_ms: int) -> int:
    return (at_ms // DAY_MS + FIRST_WEEKDAY) % DAYS_A_WEEK
