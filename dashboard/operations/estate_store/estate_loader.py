"""Reading the estate from its rows into the scheduler's values: whole, a node's part of it, or as it is looked up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TypeVar

from dashboard.core.one_reading import once
from dashboard.operations.estate_store.estate_reader import (
    StoredEstate,
    are_teams_apart,
    fragment_of,
    is_apart,
    submitted_of,
    task_of,
)
from dashboard.operations.estate_store.fragment_settings import settings_of
from dashboard.operations.models import BundleSlot, EstateState, FragmentRow, NodeRow, RunningTaskRow, SlotRow
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, Slot
from scheduler.model.task_types import DYNAMIC, DYNAMIC_FOLD, WAVE
from scheduler.model.wave_elements import WaveElement, wave_elements

T = TypeVar("T")

_kept_estate: tuple[tuple[int, datetime, int] | None, Estate] = (None, Estate())


def load_estate() -> Estate:
    """The whole estate at one generation and revision: rows that were changed while they were read are read again."""
    return _consistent(_read)


def load_part_with(node: str, more: Callable[[Estate], T]) -> tuple[Estate, T]:
    """A node's part of the estate, and what ``more`` reads beside it of the same generation and revision.

    The part is the node's fragments with their tasks, and their direct upstream and downstream fragments. It is read
    again if the estate changed meanwhile, as the whole is.
    """
    def read(generation: int, revision: int) -> tuple[Estate, T]:
        part = _read_part(node, generation, revision)
        return part, more(part)

    return _consistent(read)


def _consistent(read: Callable[[int, int], T]) -> T:
    stamp = current_stamp()
    while True:
        values = read(*stamp)
        if (now := current_stamp()) == stamp:
            return values
        stamp = now


def current_stamp() -> tuple[int, int]:
    """The estate's generation and revision as they stand."""
    return EstateState.objects.filter(pk=1).values_list("generation", "revision").first() or (0, 0)


def stored_estate() -> StoredEstate:
    """The estate as it stands, for planning: read in part, as it is looked up."""
    generation, chosen = EstateState.objects.filter(pk=1).values_list("generation", "tenancy").first() or (0, "")
    return StoredEstate(generation, teams_apart=is_apart(chosen))


def current_estate() -> Estate:
    """The estate for reading, kept by this process until it changes: live pages ask twice a second."""
    return once("estate", _current_estate)


def _current_estate() -> Estate:
    global _kept_estate
    key = EstateState.objects.filter(pk=1).values_list("generation", "changed", "revision").first()
    kept_key, estate = _kept_estate
    if key is None or kept_key is None or kept_key[:2] != key[:2]:
        estate = load_estate()
    elif kept_key != key:
        estate = estate.set_to(settings_of(), key[2])
    _kept_estate = (key, estate)
    return estate


def elements_in_waves() -> tuple[list[WaveElement], int, int]:
    """All tasks that switch in waves, as they are to be, and the generation and the revision of the estate."""
    if not RunningTaskRow.objects.filter(type__in=(DYNAMIC, DYNAMIC_FOLD), config__switching=WAVE).exists():
        return [], *current_stamp()
    estate = current_estate()
    return wave_elements(estate), estate.generation, estate.revision


def fragments_on(slots: Collection[str]) -> dict[str, Fragment]:
    """The fragments that have a query on any of these slots."""
    divided = BundleSlot.objects.filter(slot__in=slots).values_list("fragment", flat=True)
    return fragments_where(slot__in=slots) | fragments_where(pk__in=set(divided))


def fragments_where(**where: object) -> dict[str, Fragment]:
    """The fragments whose rows are so, by id."""
    return {row.pk: fragment_of(row) for row in FragmentRow.objects.filter(**where).order_by("pk")}


def _read(generation: int, revision: int) -> Estate:
    return Estate(
        generation=generation, revision=revision, settings=settings_of(),
        tasks={row.pk: task_of(row) for row in RunningTaskRow.objects.order_by("fingerprint")},
        submitted=submitted_of(),
        fragments={row.pk: fragment_of(row) for row in FragmentRow.objects.order_by("id")},
        slots=tuple(Slot(node=node.name, index=i) for node in NodeRow.objects.all() for i in range(node.slots)),
        teams_apart=are_teams_apart(),
    )


def _read_part(node: str, generation: int, revision: int) -> Estate:
    slots = tuple(Slot(row.node_id, row.index) for row in SlotRow.objects.filter(node=node))
    # And those of other nodes that go on with what was on this one.
    of_node = fragments_on([slot.name for slot in slots]) | fragments_where(origin=node)
    tasks = {
        row.pk: task_of(row)
        for row in RunningTaskRow.objects.filter(
            pk__in={task_id for fragment in of_node.values() for task_id in fragment.tasks}
        )
    }
    parents = {parent for task in tasks.values() for parent in task.parents}
    places = dict(RunningTaskRow.objects.filter(pk__in=parents).values_list("pk", "fragment"))
    readers = {
        reader for fragment in of_node.values() for readers in fragment.outlets.values() for reader in readers}
    others = {*places.values(), *readers}.difference(of_node)
    return Estate(
        generation=generation, revision=revision, tasks=tasks, fragments=of_node | fragments_where(pk__in=others),
        slots=slots, settings=settings_of(of_node))
