"""Slots that something has to itself for a while, as a measurement does: nothing runs or is placed there.

What rests there, of paused dataflows, may go on resting; it cannot be resumed meanwhile.

What is on offer for plans changes with a reservation: the estate moves on, so that no plan that was frozen before puts
something there. When the slot is given back it does not, and pages show it all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from django.db.models import Q

from dashboard.audit.trail import inside_command
from dashboard.operations.estate_store.generation import advance, lock_generation, state_for_update
from dashboard.operations.models import BundleSlot, FragmentRow, SlotRow
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment

_kept_reservations: tuple[Estate | None, frozenset[str]] = (None, frozenset())


class SlotTaken(WeirError):
    """The slot runs something, or something else has it."""

    code = "slot_taken"


def reserve(slot: str, *, holder: str) -> None:
    """Reserve an empty slot; a slot that the holder has already stays as it is. Inside a command.

    Raises
    ------
    NotFound
        No node offers such a slot.
    SlotTaken
        Fragments run there, which the error names, or another holder has reserved it.
    """
    _require_command()
    lock_generation()
    row = SlotRow.objects.select_for_update().filter(name=slot).first()
    if row is None:
        raise NotFound(f"No node offers a slot {slot}.", remedy="Choose one of the slots that are there.", slot=slot)
    if row.reserved_for == holder:
        return
    require_free(row)
    row.reserved_for = holder
    row.save(update_fields=["reserved_for"])
    advance(state_for_update())


def release(slot: str, *, holder: str) -> None:
    """Give a slot back; nothing happens where it is not the holder's. Inside a command."""
    _require_command()
    lock_generation()
    if SlotRow.objects.filter(name=slot, reserved_for=holder).update(reserved_for=""):
        state_for_update().save()  # it has changed, at the same generation: whoever keeps it reads it anew


def reserved_slots(estate: Estate) -> frozenset[str]:
    """The slots that something has to itself, kept by this process as long as ``current_estate`` keeps this estate."""
    global _kept_reservations
    kept_of, records = _kept_reservations
    if kept_of is not estate:
        records = frozenset(SlotRow.objects.exclude(reserved_for="").values_list("name", flat=True))
        _kept_reservations = (estate, records)
    return records


def require_free(row: SlotRow) -> None:
    """Raise ``SlotTaken`` where fragments run on a slot, or it is reserved."""
    if row.reserved_for:
        raise SlotTaken(
            f"Slot {row.name} is reserved for {row.reserved_for}.", remedy="Wait for it, or choose another slot.",
            slot=row.name, reserved_for=row.reserved_for)
    running = fragments_on(row.name)
    if running:
        # Neither which nor how many: some may be of private dataflows, and who asks for a slot may be of any team.
        raise SlotTaken(
            f"Slot {row.name} runs queries.",
            remedy="Choose a slot on which nothing runs, add one, or pause or remove what runs there.", slot=row.name)


def require_unreserved(before: Mapping[str, Fragment], after: Mapping[str, Fragment]) -> None:
    """Raise ``SlotTaken`` if changed fragments would work on a reserved slot.

    Plans that are taken back, and resumptions, may: they cannot choose their slots.
    """
    old, new = (
        {bundle.slot for fragment in fragments.values() if not fragment.paused for bundle in fragment.queries}
        for fragments in (before, after))
    reserved = SlotRow.objects.filter(name__in=new).exclude(reserved_for="")
    row = next((row for row in reserved if row.name not in old), None)
    if row is not None:
        raise SlotTaken(
            f"Slot {row.name} is reserved for {row.reserved_for}.", remedy="Pause that or wait for it, then try again.",
            slot=row.name, reserved_for=row.reserved_for)


def fragments_on(slot: str) -> list[str]:
    """The fragments that have a query on a slot."""
    rows = FragmentRow.objects.filter(Q(slot=slot) | Q(bundle_slots__slot=slot), active__gt=0).distinct()
    return list(rows.order_by("pk").values_list("pk", flat=True))


def fragments_by_slot() -> dict[str, int]:
    """The number of fragments with a query on each slot that has any."""
    names = {
        *FragmentRow.objects.filter(active__gt=0).values_list("slot", "pk"),
        *BundleSlot.objects.filter(fragment__active__gt=0).values_list("slot", "fragment_id")}
    return Counter(slot for slot, _ in names)


def _require_command() -> None:
    if not inside_command():
        raise RuntimeError("slots are reserved inside an audited command only")
