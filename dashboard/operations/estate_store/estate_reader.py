"""The part of the estate that a plan needs, read from its rows by indexed look-ups in a few statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Exists, F, Manager, OuterRef, Q, QuerySet

from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.offered_slots import offered_slots, unreserved_slots
from dashboard.operations.models import BundleSlot, EstateState, FragmentRow, RunningTaskRow, SlotRow, TeamUse, Use
from scheduler.model.encoding import value_of
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot, divided_among
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.tenancy import teams_by_slot
from scheduler.model.usage import NAMED, NANO, SlotLoad, Users, nanocores

T = TypeVar("T")
SHARED, TEAM = "shared", "team"  # tenancies; with the second one teams have slots of their own
MOST_PARTS = 200  # of one compound SELECT: SQLite takes 500


class LookUps(Mapping[str, T], Generic[T]):
    """Rows by id, read when they are looked up, together with all those that are expected to be looked up next."""

    def __init__(self, fetch: Callable[[Collection[str]], Mapping[str, T]]) -> None:
        self._fetch = fetch
        self._values: dict[str, T | None] = {}  # None: looked for, and not there
        self._expected_keys: set[str] = set()

    def expect(self, keys: Iterable[str]) -> None:
        """Read these in the same statement as the first one that is looked up."""
        self._expected_keys.update(key for key in keys if key not in self._values)

    def __getitem__(self, key: str) -> T:
        if key not in self._values:
            wanted_keys = {key, *self._expected_keys}
            self._expected_keys.clear()
            self._values.update(dict.fromkeys(wanted_keys))
            self._values.update(self._fetch(wanted_keys))
        answer = self._values[key]
        if answer is None:
            raise KeyError(key)
        return answer

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a part of the estate is looked up, never walked: load_estate() gives the whole")

    def __len__(self) -> int:
        raise TypeError("a part of the estate has no length: load_estate() gives the whole")


class StoredEstate:
    """The estate in the database, as a view for planning (`scheduler.model.ports.EstateView`).

    A look-up also reads, in one statement, what is looked up next: with a dataflow its tasks, with a task its fragment
    and its users, with a fragment its tasks.

    All answers are of one generation while that lasts. A plan made with them is stored under the estate's lock, and
    only at that generation; if the estate has changed, the plan is thrown away with all that was read.

    Parameters
    ----------
    back_to : collection of str, optional
        Slots to which queries go back: their nodes may be drained.
    teams_apart : bool, optional
        True if teams have slots of their own; by default it is read when needed.
    """

    def __init__(
        self, generation: int, *, back_to: Collection[str] = (), teams_apart: bool | None = None
    ) -> None:
        self.generation = generation
        self._teams_apart = teams_apart
        self._back_to = back_to
        self.submitted = LookUps[Submitted](self._fetch_submitted)
        self.tasks = LookUps[RunningTask](self._fetch_tasks)
        self.places = LookUps[tuple[str, int]](self._fetch_places)
        self.fragments = LookUps[Fragment](self._fetch_fragments)
        self.settings = LookUps[FragmentSettings](_fetch_settings)
        self._users = LookUps[Users](_fetch_users)
        self._places: dict[str, tuple[str, int]] = {}

    def has_moved_on(self) -> bool:
        """True if the estate is of another generation by now."""
        return self.generation != current_generation()

    def users_of(self, task_id: str) -> Users:
        """The users of a running task."""
        return self._users[task_id]

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False, held_by: str | None = None, node: str = ""
    ) -> tuple[tuple[Slot, float], ...]:
        """The slots with the least to do, as `scheduler.model.ports.EstateView` says.

        Reserved slots, and slots of silent nodes, are left out.
        """
        spent = F("queries") * nanocores(query_cores) + F("task_nanocores")
        slots = offered_slots().annotate(spent=spent)
        if node:
            slots = slots.filter(node=node)
        if held_by is not None:
            slots = slots.exclude(_holds(FragmentRow.objects.exclude(team=held_by) if held_by else FragmentRow.objects))
        if held_by:
            slots = slots.filter(_holds(FragmentRow.objects.filter(team=held_by)))
        if apart and slots.filter(bundles=0).exists():
            slots = slots.filter(bundles=0)
        least = slots.order_by("spent", "node_id", "index").values("pk")[:count]
        rows = slots.filter(pk__in=least).order_by("node_id", "index")
        return tuple((Slot(node=row.node_id, index=row.index), row.spent / NANO) for row in rows)

    def slot_loads(self, slots: Collection[str]) -> dict[str, SlotLoad]:
        """The load of the named slots that can take queries: existing, unreserved, on a node that is not draining.

        A move back may use a slot of a draining node.
        """
        rows = unreserved_slots(drained_too=self._back_to).filter(name__in=slots) if slots else ()
        return {row.name: SlotLoad(row.queries, row.task_nanocores, row.bundles) for row in rows}

    @cached_property
    def teams_apart(self) -> bool:
        """True if teams have slots of their own."""
        return are_teams_apart() if self._teams_apart is None else self._teams_apart

    def teams_on(self, slots: Collection[str]) -> dict[str, Counter[str]]:
        """The number of queries of each team on the named slots, paused ones too."""
        holding = FragmentRow.objects.filter(Q(slot__in=slots) | Q(bundle_slots__slot__in=slots)).distinct()
        return {slot: teams for slot, teams in teams_by_slot(map(fragment_of, holding)).items() if slot in slots}

    def divided_on(self, slots: Collection[str]) -> tuple[Fragment, ...]:
        """The fragments that work and that a schedule has put on any of these slots."""
        ids = set(BundleSlot.objects.filter(slot__in=slots).values_list("fragment", flat=True))
        return divided_among(self._fetch_fragments(ids).values(), slots)

    def _fetch_submitted(self, dataflow_ids: Collection[str]) -> dict[str, Submitted]:
        submitted_now = submitted_of(dataflow_ids)
        for submitted in submitted_now.values():
            self.tasks.expect(submitted.running.values())
        return submitted_now

    def _fetch_tasks(self, task_ids: Collection[str]) -> dict[str, RunningTask]:
        rows = list(RunningTaskRow.objects.filter(pk__in=task_ids))
        self._places.update((row.pk, (row.fragment, row.position)) for row in rows)
        self.fragments.expect(row.fragment for row in rows)
        self._users.expect(row.pk for row in rows)
        return {row.pk: task_of(row) for row in rows}

    def _fetch_places(self, task_ids: Collection[str]) -> dict[str, tuple[str, int]]:
        self.tasks.expect(task_ids)
        return {task_id: self._places[task_id] for task_id in task_ids if task_id in self.tasks}

    def _fetch_fragments(self, fragment_ids: Collection[str]) -> dict[str, Fragment]:
        read = {row.pk: fragment_of(row) for row in FragmentRow.objects.filter(pk__in=fragment_ids)}
        for fragment in read.values():
            self.tasks.expect(fragment.kept_tasks)
        return read


def _fetch_settings(fragment_ids: Collection[str]) -> dict[str, FragmentSettings]:
    return {row.pk: row.settings for row in FragmentRow.objects.filter(pk__in=fragment_ids)}


def _holds(fragments: QuerySet[FragmentRow] | Manager[FragmentRow]) -> Q:
    """The condition that a slot has a query of one of these fragments."""
    return Q(name__in=fragments.values("slot")) | Q(
        name__in=BundleSlot.objects.filter(fragment__in=fragments.values("pk")).values("slot"))


def are_teams_apart() -> bool:
    """True if teams have slots of their own: what an administrator chose, else what the environment says."""
    return is_apart(EstateState.objects.filter(pk=1).values_list("tenancy", flat=True).first())


def is_apart(chosen: str | None) -> bool:
    """True if teams have slots of their own by what was chosen, if anything was."""
    return (chosen if chosen in (SHARED, TEAM) else settings.TENANCY) == TEAM


def current_generation() -> int:
    """The estate's generation as it stands."""
    return EstateState.objects.filter(pk=1).values_list("generation", flat=True).first() or 0


def task_of(row: RunningTaskRow) -> RunningTask:
    """The running task of a row."""
    return RunningTask(
        id=row.fingerprint, type=row.type, config=row.config, parents=tuple(row.parents), scope=row.scope,
        cores=row.cores, rate_per_s=row.rate_per_s)


def slots_gone(slots: Collection[str]) -> set[str]:
    """The slots, by name, that no node offers."""
    return set(slots).difference(SlotRow.objects.filter(name__in=slots).values_list("name", flat=True))


def slots_around(fragments: Collection[Fragment]) -> set[str]:
    """The slots of all that write for these fragments, and of all that read them."""
    if not fragments:
        return set()
    heads = RunningTaskRow.objects.filter(pk__in=[fragment.tasks[0] for fragment in fragments])
    parents = {parent for parents in heads.values_list("parents", flat=True) for parent in parents}
    around = {reader for fragment in fragments for readers in fragment.outlets.values() for reader in readers}
    around.update(RunningTaskRow.objects.filter(pk__in=parents).values_list("fragment", flat=True))
    return {
        *FragmentRow.objects.filter(pk__in=around).values_list("slot", flat=True),
        *BundleSlot.objects.filter(fragment__in=around).values_list("slot", flat=True),
    }


def fragment_of(row: FragmentRow) -> Fragment:
    """The fragment of a row."""
    return Fragment(
        id=row.id, tasks=tuple(row.tasks), slot=row.slot, active=row.active, resting=row.resting,
        outlets={task: tuple(readers) for task, readers in row.outlets.items()}, channels=row.channels,
        inherits=tuple(row.inherits), joins=row.joins, bundles=value_of(tuple[RunningBundle, ...], row.bundles),
        origin=row.origin, team=row.team)


def queries_of(query_ids: Collection[str]) -> dict[str, Fragment]:
    """The fragments of these queries, each as a fragment of its own: a bundle looks as if it were alone."""
    whole = FragmentRow.objects.filter(Q(pk__in=query_ids) | Q(bundle_slots__bundle__in=query_ids)).distinct()
    return {
        bundle.id: replace(fragment, id=bundle.id, slot=bundle.slot, bundles=()) if fragment.divided else fragment
        for fragment in map(fragment_of, whole) for bundle in fragment.queries if bundle.id in query_ids}


def submitted_of(dataflow_ids: Collection[str] | None = None) -> dict[str, Submitted]:
    """The entries of these dataflows in the estate, as far as they are there; without ids, of all."""
    use_rows = Use.objects.order_by("dataflow_id", "position")
    if dataflow_ids is not None:
        use_rows = use_rows.filter(dataflow_id__in=dataflow_ids)
    uses: dict[str, list[Use]] = {}
    for use in use_rows:
        uses.setdefault(str(use.dataflow_id), []).append(use)
    records = DataflowRecord.objects.filter(pk__in=uses).select_related("team") if uses else ()
    return {
        str(record.pk): Submitted(
            id=str(record.pk), name=record.name, team=record.team.slug,
            running={use.task_id: use.running_task_id for use in uses[str(record.pk)]},
            sinks=tuple(use.task_id for use in uses[str(record.pk)] if use.is_sink),
            paused=uses[str(record.pk)][0].paused, scheduled=uses[str(record.pk)][0].scheduled,
            unchained=tuple(use.task_id for use in uses[str(record.pk)] if use.unchained))
        for record in records
    }


def _fetch_users(task_ids: Collection[str]) -> dict[str, Users]:
    by_team: dict[str, dict[str, int]] = {task_id: {} for task_id in task_ids}
    paused = dict.fromkeys(task_ids, 0)
    unchained = set()
    says_so = Exists(Use.objects.filter(running_task=OuterRef("running_task"), unchained=True))
    for use in TeamUse.objects.filter(running_task__in=task_ids).select_related("team").annotate(unchained=says_so):
        by_team[use.running_task_id][use.team.slug] = use.dataflows
        paused[use.running_task_id] += use.paused
        if use.unchained:
            unchained.add(use.running_task_id)
    first = _first_users(list(task_ids))
    return {
        task_id: Users(
            by_team=by_team[task_id], first=tuple(first.get(task_id, ())), paused=paused[task_id],
            unchained=task_id in unchained)
        for task_id in task_ids
    }


def _first_users(task_ids: list[str]) -> dict[str, list[str]]:
    """The least ids among each task's users, each list read from the index and no further."""
    part = (
        f"SELECT * FROM (SELECT running_task_id, dataflow_id FROM {Use._meta.db_table}"
        " WHERE running_task_id = %s ORDER BY dataflow_id LIMIT %s) AS part"
    )
    first: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        for begin in range(0, len(task_ids), MOST_PARTS):
            some = task_ids[begin:begin + MOST_PARTS]
            arguments = [argument for task_id in some for argument in (task_id, NAMED + 1)]
            cursor.execute(" UNION ALL ".join([part] * len(some)), arguments)
            for task_id, dataflow_id in cursor.fetchall():
                first.setdefault(task_id, []).append(str(UUID(str(dataflow_id))))
    return {task_id: sorted(ids) for task_id, ids in first.items()}
