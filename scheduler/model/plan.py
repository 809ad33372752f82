"""A plan: what would change, before and after, with its price; frozen, with a digest and a generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .cost_figures import ESTIMATED, CostFigure
from .errors import StalePlan
from .estate import Submitted
from .fragment import Fragment, RunningTask
from .plan_kinds import PLAN_KINDS
from .promise import Promise
from .refinement import Refinement
from .settings_of_fragments import FragmentSettings


@dataclass(frozen=True, slots=True)
class Step:
    """One reversible change of one fragment.

    ``task`` is the running task concerned (outlets and tails), ``reader`` the fragment that begins or ceases
    to read an outlet, ``active`` a tail's new number of working tasks and ``active_before`` the old one. ``bundle`` is
    the part of a divided fragment that starts, gets another slot or number of threads, or gets nothing more and leaves;
    ``route`` divides the fragment's events anew. ``of_key`` is the key (its text) for which ``alternate`` is to work.
    """

    kind: str  # of scheduler.step_kinds
    fragment: str
    task: str | None = None
    reader: str | None = None
    active: int | None = None
    active_before: int | None = None
    bundle: str | None = None
    of_key: str | None = None
    alternate: str | None = None

    @property
    def key(self) -> str:
        """A name that is unique within a plan."""
        return ":".join(part for part in (self.kind, self.fragment, self.task, self.reader, self.bundle) if part)


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of the estate for this dataflow; cores are CPU cores, money is per hour in the setting's currency.

    Money is for CPU, as bills charge it. What a schedule keeps of slots for itself, whether it uses them or not, is
    ``slots_kept`` and ``slots_per_hour_delta``: that capacity is in no bill.
    """

    tasks_started: int
    tasks_reused: int
    tasks_stopped: int
    queries_started: int
    queries_stopped: int
    cores_delta: float  # estimated change of the estate's CPU
    cores_alone: float  # CPU of all that executes the dataflow, as if nobody shared it
    money_per_hour_delta: float
    basis: str  # how it was estimated, in a sentence for the reviewer
    cores_error: float = 0.0  # by which cores_delta may be off: half of its range
    measured_queries: int = 0  # that it rests on, on machines of the class ``machine``; 0 where all is declared
    machine: str = ""
    not_measured: tuple[str, ...] = ()  # types of its tasks that are as declared, where others were measured
    slots_kept: int = 0  # by its schedule
    slots_per_hour_delta: float = 0.0  # what those cost an hour more than those that it kept before
    money_per_hour_alone: float = 0.0  # price of cores_alone
    alone_error: float = 0.0  # by which cores_alone may be off
    rests_on: str = ""  # "measured" or "billed" (`cost_figures`); empty where cores_delta is an estimate
    since_ms: int | None = None  # since when that was seen

    @property
    def whole(self) -> CostFigure:
        """The planned cost of all that executes the dataflow, as if nobody shared it."""
        per_hour = self.money_per_hour_alone
        if not per_hour and self.cores_delta:  # of a plan of an earlier version
            per_hour = self.money_per_hour_delta / self.cores_delta * self.cores_alone
        return CostFigure(
            self.cores_alone, max(0.0, self.cores_alone - self.alone_error), self.cores_alone + self.alone_error,
            per_hour, ESTIMATED)


@dataclass(frozen=True, slots=True)
class BillChange:
    """The change of the bills of a team's other dataflows together, in money an hour: shares are equal, and one user
    more or less makes each of them smaller or larger."""

    team: str
    money_per_hour_delta: float


@dataclass(frozen=True)
class Plan:
    """A frozen proposal for the estate.

    ``fragments_after`` holds every fragment that the plan starts or changes, as it will be;
    ``fragments_before`` the same ones as they were (absent for new ones). ``settings_after`` is what it sets queries
    to, by fragment, and ``settings_before`` what these were set to. Touched are the other submitted dataflows
    whose running tasks this plan reuses or whose fragments it changes: ``touched_teams`` are all their teams,
    ``touched`` the first of their ids, `usage.NAMED` at most, and ``touched_count`` is how many there are, exactly so
    where ``touched`` names them all or they share one of the tasks, else the users of the most used task.

    Of the reused tasks, ``rested`` cease to work and ``resumed`` begin to work again. Of the started ones, ``fresh``
    are equivalent to tasks that are there, and do not join those because the team wants none of their state.
    """

    kind: str  # of plan_kinds
    generation: int
    dataflow: Submitted  # as it is after the plan, or was before it is removed
    reused: tuple[str, ...]  # running task ids, already there
    started: tuple[RunningTask, ...]
    stopped: tuple[RunningTask, ...]
    steps: tuple[Step, ...]
    fragments_before: Mapping[str, Fragment] = field(default_factory=dict)
    fragments_after: Mapping[str, Fragment] = field(default_factory=dict)
    touched: tuple[str, ...] = ()
    touched_teams: tuple[str, ...] = ()  # sorted; none in plans of older versions
    touched_count: int = 0
    price: Price | None = None
    rested: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()  # running task ids
    refined: tuple[Refinement, ...] = ()  # submitted tasks that are made from wider ones that run
    otherwise: Price | None = None  # the price of the other choice: to join where this starts fresh, or the reverse
    promise: Promise | None = None  # of a schedule: what it keeps if its profiles are right
    notes: tuple[str, ...] = ()  # what reviewers should know besides, in sentences
    bill_changes: tuple[BillChange, ...] = ()  # of who shares its tasks, by team
    replaced: Submitted | None = None  # of another version: the dataflow's entry that gives way to this one's
    settings_before: Mapping[str, FragmentSettings] = field(default_factory=dict)
    settings_after: Mapping[str, FragmentSettings] = field(default_factory=dict)
    why: str = ""  # what a defragmentation gains, against what it disturbs, in a sentence or two
    digest: str = ""  # SHA-256 over what all that means, `encoding.plan_digest`

    @property
    def entry_after(self) -> Submitted | None:
        """The dataflow's entry that the plan brings into the estate, or renews there; None where it brings none."""
        if PLAN_KINDS[self.kind].entry in {"removed", "kept"}:
            return None
        # Plans from before it was kept with the dataflow tell by their promise alone that it has a schedule.
        return self.dataflow if self.promise is None else replace(self.dataflow, scheduled=True)

    @property
    def entry_before(self) -> Submitted | None:
        """The dataflow's entry that the plan takes out of the estate, or renews there, as it was."""
        match PLAN_KINDS[self.kind].entry:
            case "turned":
                return replace(self.dataflow, paused=not self.dataflow.paused)
            case "removed" | "renewed":
                return self.dataflow
            case "replaced":
                return self.replaced
            case "added" | "kept":
                return None

    @property
    def settings_of_others(self) -> Mapping[str, FragmentSettings]:
        """The new settings of fragments that are there already; new ones begin with theirs."""
        new = self.fragments_after.keys() - self.fragments_before.keys()
        return {name: settings for name, settings in self.settings_after.items() if name not in new}

    def require_generation(self, generation: int) -> None:
        """Raise ``StalePlan`` unless the plan was computed from this generation of the estate."""
        if self.generation != generation:
            raise StalePlan(
                f"The plan was computed from generation {self.generation}; the estate is at {generation}",
                remedy="Compute the plan again and have it reviewed.",
                plan_generation=self.generation, estate_generation=generation,
            )
