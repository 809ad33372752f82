"""Reading named savepoints.

- ``savepoint_of(team, name)``: one from which a dataflow of the team can begin
- ``whole_savepoint(savepoint_id, team)``: the same by its id, as a plan asks for it
- ``names_of_whole(teams)``: what one can choose from, in a form
- ``version_saved(dataflow, name)``: of which version of a dataflow a savepoint was taken
- ``asked_of_node(node)``: what a node is told of savepoints
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.catalog.models import DataflowRecord
from dashboard.savepoint_records.lifecycle import FAILED, TAKING, WHOLE
from dashboard.savepoint_records.models import SavepointRow
from dashboard.teams.models import Team
from scheduler.model.errors import WeirError
from scheduler.model.saved_states import SavedStates


class NoSuchSavepoint(WeirError):
    """The team has no savepoint of that name, or it is not whole."""

    code = "no_such_savepoint"


@dataclass(frozen=True, slots=True)
class AskedOfNode:
    """The orders to a node: which of its fragments' queries leave parts of which savepoints, and what it keeps."""

    saving: dict[str, list[str]]
    kept_ids: list[str]


def savepoint_of(team: Team, name: str) -> SavedStates:
    """The team's savepoint of that name."""
    return _whole(SavepointRow.objects.filter(team=team, name=name).first(), name)


def whole_savepoint(savepoint_id: str, team: Team) -> SavedStates:
    """The team's savepoint of that id; raises as `savepoint_of` does."""
    return _whole(SavepointRow.objects.filter(team=team, pk=savepoint_id).first(), savepoint_id)


def names_of_whole(teams: Iterable[Team]) -> list[tuple[str, str]]:
    """The savepoints from which dataflows of some teams can begin: the team's short name and theirs, newest first."""
    rows = SavepointRow.objects.filter(team__in=teams, state=WHOLE).order_by("-taken_at")
    return list(rows.values_list("team__slug", "name"))


def version_saved(dataflow: DataflowRecord, name: str) -> int | None:
    """The number of the version of a dataflow that its savepoint of that name was taken of; None without one."""
    return SavepointRow.objects.filter(dataflow=dataflow, name=name).values_list("version", flat=True).first()


def asked_of_node(node: str) -> AskedOfNode:
    """The orders to a node about savepoints."""
    savepoints = AskedOfNode({}, [])
    rows = SavepointRow.objects.filter(node=node).order_by("pk")
    for pk, fragment, state in rows.values_list("pk", "fragment", "state"):
        savepoints.kept_ids.append(pk)
        if state == TAKING:
            savepoints.saving.setdefault(fragment, []).append(pk)
    return savepoints


def _whole(row: SavepointRow | None, name: str) -> SavedStates:
    if row is None:
        raise NoSuchSavepoint(
            f"The team has no savepoint {name[:80]!r}.",
            remedy="See the savepoints under “State” on the page of a dataflow, or begin without one.")
    if row.state != WHOLE:
        raise NoSuchSavepoint(
            f"Savepoint {row.name} failed: {row.cause}" if row.state == FAILED else
            f"Savepoint {row.name} is being taken still.",
            remedy="Begin from another one." if row.state == FAILED else "Wait until it is whole.", state=row.state)
    return row.states
