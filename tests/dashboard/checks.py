"""What holds of the estate's rows after any commands, in whatever order and however many at once."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from dashboard.commands.earlier import ARCHIVE
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.estate_reader import StoredEstate
from dashboard.operations.models import SlotRow, TeamUse
from scheduler.model.estate import Estate
from scheduler.model.usage import SlotLoad
from tests.scheduler.invariants import check_fragments, check_outlets


def check_rows() -> Estate:
    """One copy of each task that a dataflow there needs and of no other, in one fragment each; and kept figures."""
    estate = load_estate()
    needed = {running for submitted in estate.submitted.values() for running in submitted.running.values()}
    assert set(estate.tasks) == needed, "a task runs for nobody, or is missing"
    check_fragments(estate)
    check_outlets(estate)
    check_kept_figures(estate)
    return estate


def check_kept_figures(estate: Estate) -> None:
    """Where tasks are, who uses them and what slots have to do is kept as it would be counted anew."""
    part = StoredEstate(estate.generation)
    for task_id in estate.tasks:
        assert part.places[task_id] == estate.places[task_id]
        assert part.users_of(task_id) == estate.users_of(task_id)
    stored = {row.name: SlotLoad(row.queries, row.task_nanocores, row.bundles) for row in SlotRow.objects.all()}
    assert stored == {
        slot.name: estate.loads.get(slot.name, SlotLoad()) for slot in estate.slots}
    for count in (1, 2, 3):
        for apart in (False, True):
            expected = estate.least_loaded(count, query_cores=0.1, apart=apart)
            assert part.least_loaded(count, query_cores=0.1, apart=apart) == expected
            for team in ("", *sorted({fragment.team for fragment in estate.fragments.values()})):
                held = {"query_cores": 0.1, "apart": apart, "held_by": team}
                assert part.least_loaded(count, **held) == estate.least_loaded(count, **held)
    assert part.teams_on({slot.name for slot in estate.slots}) == estate.teams
    for slot in estate.slots:
        divided = {fragment.id: fragment for fragment in part.divided_on({slot.name})}
        assert divided == {fragment.id: fragment for fragment in estate.divided_on({slot.name})}
    assert TeamUse.objects.filter(dataflows=0).count() == 0


def earlier_migration(app: str, name: str) -> ModuleType:
    """A migration of those that are kept in the archive."""
    if str(ARCHIVE) not in sys.path:
        sys.path.append(str(ARCHIVE))
    return import_module(f"{ARCHIVE.stem}.{app}.{name}")
