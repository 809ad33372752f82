"""Read sets: what of the estate a plan was made from. The plan stands as long as that is unchanged.

A plan is a function of its look-ups (and of prices and profiles, which are frozen with it). While it is made, each
look-up is noted with a digest of its answer. If all answers are equal later, planning would give the same plan again,
whatever else has changed. If one differs, it names the change, and the plan is stale, unless a plan that is made anew
does the same (`replanning`).

Two sorts of look-ups are not noted. The slots of new queries without a schedule are chosen at the enactment
(`rebasing`); only that they are on offer is noted. And of slots whose loads were compared, only those that the plan
counts on are noted, with the plan itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from .model.canonical import canonical_json
from .model.encoding import to_json
from .model.estate import Submitted
from .model.fragment import Fragment, RunningTask, Slot
from .model.plan import Plan
from .model.plan_kinds import PLAN_KINDS
from .model.ports import EstateView, expect
from .model.usage import Users
from .reuse import siblings as kin

T = TypeVar("T")
SUBMITTED, TASKS, PLACES, FRAGMENTS = "submitted", "tasks", "places", "fragments"
USERS, DIVIDED, SIBLINGS, SLOTS = "users", "divided", "siblings", "slots"
PAYING = "paying"  # no part of its own: of the users that were looked up, how many pay
BEGUN = "begun"  # nor this: the slots on which something of the plan begins to work
PARTS = (SUBMITTED, TASKS, PLACES, FRAGMENTS, USERS, DIVIDED, SIBLINGS, SLOTS)  # in the order that says most first


@dataclass(frozen=True)
class Reads:
    """The look-ups of a plan: for each part of the estate its keys, and a digest of each answer ("" where none)."""

    answers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def paying(self) -> Mapping[str, int]:
        """The number of dataflows that paid for each running task whose users were looked up."""
        return {task_id: int(count) for task_id, count in self.answers.get(PAYING, {}).items()}

    @property
    def begun(self) -> frozenset[str] | None:
        """The slots on which something of the plan begins to work; None where that was not noted yet."""
        return frozenset(self.answers[BEGUN]) if BEGUN in self.answers else None

    def to_json(self) -> str:
        """The stored form."""
        return canonical_json(self.answers)

    @classmethod
    def from_json(cls, text: str) -> Reads:
        """The reads from their stored form."""
        return cls(json.loads(text))


@dataclass(frozen=True, slots=True)
class ChangedRead:
    """An answer that has changed; ``gone`` without a present answer, ``new`` without a former one."""

    part: str
    key: str
    gone: bool = False
    new: bool = False


class ReadTrackingView:
    """An estate, as a view for planning, that notes what is looked up (`ports.EstateView`)."""

    def __init__(self, estate: EstateView) -> None:
        self._estate = estate
        self._answers: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        self.generation = estate.generation
        self.tasks: Mapping[str, RunningTask] = _Noting(estate.tasks, self._answers[TASKS])
        self.submitted: Mapping[str, Submitted] = _Noting(estate.submitted, self._answers[SUBMITTED])
        self.fragments: Mapping[str, Fragment] = _Noting(estate.fragments, self._answers[FRAGMENTS])
        self.places: Mapping[str, tuple[str, int]] = _Noting(estate.places, self._answers[PLACES])
        self.teams_apart = estate.teams_apart  # who changes that makes another generation
        self.settings = estate.settings  # not noted: intervals change all the time, and no plan follows from them

    def users_of(self, task_id: str) -> Users:
        """The users of a running task."""
        return self._note(USERS, task_id, self._estate.users_of(task_id))

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False, held_by: str | None = None, node: str = ""
    ) -> Sequence[tuple[Slot, float]]:
        """The slots that have least to do; not noted."""
        return self._estate.least_loaded(
            count, query_cores=query_cores, apart=apart, held_by=held_by, node=node)

    def teams_on(self, slots: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """The tenants of slots; not noted: where teams are apart, each plan is held to it anew (`rebasing`)."""
        return self._estate.teams_on(slots)

    def slot_loads(self, slots: Collection[str]) -> Mapping[str, Any]:
        """The loads of slots that are on offer; not noted."""
        return self._estate.slot_loads(slots)

    def divided_on(self, slots: Collection[str]) -> Sequence[Fragment]:
        """The fragments that work and that a schedule has put on any of these slots."""
        return self._note(DIVIDED, ",".join(sorted(slots)), self._estate.divided_on(slots))

    def siblings_in(self, siblings: kin.Siblings) -> kin.Siblings:
        """Siblings that note what is looked up."""
        return _NotingSiblings(siblings, self._answers[SIBLINGS])

    def reads(self, plan: Plan) -> Reads:
        """The look-ups of a plan, and the loads of slots that it counts on."""
        slots = counted_on(plan)
        loads = self._estate.slot_loads(slots)
        noted = {**self._answers, SLOTS: {slot: loads.get(slot) for slot in sorted(slots)}}
        paying = {
            task_id: str(users.count - users.paused) for task_id, users in sorted(self._answers[USERS].items())}
        digests = {
            part: {key: _digest(part, answer) for key, answer in sorted(answers.items())}
            for part, answers in noted.items() if answers}
        begun = {BEGUN: dict.fromkeys(sorted(begun_on(plan)), "")}
        return Reads(digests | begun | ({PAYING: paying} if paying else {}))

    def _note(self, part: str, key: str, answer: T) -> T:
        self._answers[part][key] = answer
        return answer


def counted_on(plan: Plan) -> frozenset[str]:
    """The slots whose other load a plan counts on: those of a schedule, and of queries that are cut or fused."""
    stays = plan.fragments_before == plan.fragments_after  # what queries are set to is decided whatever else runs there
    if plan.promise is None and (stays or not PLAN_KINDS[plan.kind].moves_queries):
        return frozenset()
    return frozenset(bundle.slot for fragment in plan.fragments_after.values() for bundle in fragment.queries)


def begun_on(plan: Plan) -> frozenset[str]:
    """The slots on which something of a plan begins to work that did not before."""
    before, after = (
        {bundle.slot for fragment in fragments.values() if not fragment.paused for bundle in fragment.queries}
        for fragments in (plan.fragments_before, plan.fragments_after))
    return frozenset(after - before)


class Answers:
    """The present answers of an estate to what plans looked up: each question once, however many plans asked it.

    Parameters
    ----------
    noted : sequence of Reads
        The reads of the plans that are asked about, so that their look-ups are read together.
    """

    def __init__(self, estate: EstateView, siblings: kin.Siblings, noted: Sequence[Reads]) -> None:
        keys = {part: {key for reads in noted for key in reads.answers.get(part, ())} for part in (*PARTS, BEGUN)}
        for rows, expected in (
            (estate.submitted, keys[SUBMITTED]), (estate.tasks, keys[TASKS] | keys[USERS]),
            (estate.places, keys[PLACES]), (estate.fragments, keys[FRAGMENTS]),
        ):
            expect(rows, expected)
        kin.expect(siblings, keys[SIBLINGS])
        self._loads = estate.slot_loads(keys[SLOTS] | keys[BEGUN])
        self._look_ups: Mapping[str, Callable[[str], Any]] = {
            SUBMITTED: estate.submitted.get, TASKS: estate.tasks.get, PLACES: estate.places.get,
            FRAGMENTS: estate.fragments.get, USERS: estate.users_of,
            DIVIDED: lambda slots: estate.divided_on(slots.split(",")),
            SIBLINGS: siblings.siblings, SLOTS: self._loads.get,
        }
        self._digests: dict[tuple[str, str], str] = {}
        self._teams_apart = estate.teams_apart

    def changes(self, reads: Reads) -> tuple[ChangedRead, ...]:
        """The look-ups of a plan that would give another answer now; empty if planning would give the same plan
        again."""
        return tuple(
            ChangedRead(part, key, gone=not now, new=not before)
            for part in PARTS for key, before in reads.answers.get(part, {}).items()
            if (now := self._digest(part, key)) != before)

    def leave_standing(self, reads: Reads) -> bool:
        """True if planning would give the same plan again, and all slots on which it starts something are on offer.

        Nothing has to be done for such a plan before its enactment. If teams are apart it is always False: the read set
        does not note which slots are whose.
        """
        return not self._teams_apart and (
            reads.begun is not None and reads.begun <= self._loads.keys() and not self.changes(reads))

    def _digest(self, part: str, key: str) -> str:
        digest = self._digests.get((part, key))
        if digest is None:
            digest = self._digests[part, key] = _digest(part, self._look_ups[part](key))
        return digest


def _digest(part: str, answer: Any) -> str:
    """64 bits of a hash of an answer: enough to tell two answers to one question apart."""
    if answer is None:
        return ""
    if part == SIBLINGS:
        answer = [task.id for task in answer]
    if part == FRAGMENTS:
        answer = replace(answer, team="")  # stays what it is, and older versions did not know of it
    if part == DIVIDED:
        answer = sorted((replace(fragment, team="") for fragment in answer), key=lambda fragment: fragment.id)
    return hashlib.sha256(to_json(answer).encode()).hexdigest()[:16]


class _Noting(Mapping[str, T], Generic[T]):
    """A mapping that notes what is looked up: the value, or None where there is none."""

    def __init__(self, rows: Mapping[str, T], noted: dict[str, Any]) -> None:
        self._rows, self._answers = rows, noted

    def expect(self, keys: Iterable[str]) -> None:
        """Passed on: reading ahead is no look-up."""
        expect(self._rows, keys)

    def __getitem__(self, key: str) -> T:
        if key in self._rows:
            self._answers[key] = value = self._rows[key]
            return value
        self._answers[key] = None
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("planning looks the estate up, it never walks it")

    def __len__(self) -> int:
        raise TypeError("planning looks the estate up, it never walks it")


class _NotingSiblings:
    def __init__(self, siblings: kin.Siblings, noted: dict[str, Any]) -> None:
        self._siblings, self._answers = siblings, noted

    def expect(self, kins: Iterable[str]) -> None:
        """Passed on."""
        kin.expect(self._siblings, kins)

    def siblings(self, kin_id: str) -> Sequence[RunningTask]:
        """The running tasks of this kin."""
        self._answers[kin_id] = alike = self._siblings.siblings(kin_id)
        return alike
