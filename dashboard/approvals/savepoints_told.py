"""A dataflow's named savepoints as pages, the API and a terminal tell of them: one value for all three."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dashboard import jobs
from dashboard.approvals.services.savepoint_commands import exact_savepoint
from dashboard.catalog.document_checks import parse_document
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.selectors import fragments_where
from dashboard.savepoint_records.models import SavepointRow
from dashboard.savepoint_records.selectors import savepoint_of
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from dashboard.teams.team_limits import SAVEPOINTS
from scheduler.exact_savepoints import TaskBeginning, beginnings
from scheduler.model.errors import WeirError
from scheduler.model.saved_states import SavedStates
from scheduler.model.secrets import with_scoped_secrets


@dataclass(frozen=True, slots=True)
class NamedSavepoint:
    """One savepoint. ``state``: taking, whole or failed; ``cause``: why it failed; ``tasks``: those whose states or
    positions it has. Size, moment and the next event of its source are known once it is whole."""

    id: str
    name: str
    note: str
    version: int
    by: str
    taken_at: datetime
    state: str
    cause: str
    tasks: list[str]
    node: str
    query: str
    size_bytes: int | None
    saved_at: datetime | None
    next_event: int | None


@dataclass(frozen=True, slots=True)
class SavepointsOfDataflow:
    """All savepoints of a dataflow, newest first; how many its team has, and may have at most.

    ``expected_bytes`` is about what the next one would take, by the state that its query reported last; ``hindrance``
    why none can be taken now, with the remedy; empty where one can.
    """

    savepoints: list[NamedSavepoint]
    taken: int
    most: int
    expected_bytes: int | None
    hindrance: str


@dataclass(frozen=True, slots=True)
class BeginningsFromSavepoint:
    """The beginnings of a document's tasks from a savepoint, and what the savepoint has of others."""

    saved: SavedStates
    tasks: list[TaskBeginning]

    @property
    def refused(self) -> bool:
        """True if it cannot begin from it, for one task at least."""
        return any(task.begins == "refused" for task in self.tasks)

    @property
    def at(self) -> datetime:
        """The moment of the states."""
        return datetime.fromtimestamp(self.saved.at_ms / 1000, tz=UTC)


def beginnings_told(team: Team, name: str, text: str, *, format: str | None = None) -> BeginningsFromSavepoint:
    """The beginnings of a team's document from its savepoint of that name.

    Raises
    ------
    InvalidDataflow
        The document has problems.
    NoSuchSavepoint
        The team has no whole savepoint of that name.
    """
    saved, types = savepoint_of(team, name), jobs.task_types()
    dataflow = with_scoped_secrets(parse_document(text, format=format), team=team.slug, task_types=types)
    return BeginningsFromSavepoint(saved, beginnings(saved, dataflow, types))


def savepoints_told(viewer: Viewer, dataflow_id: UUID | str) -> SavepointsOfDataflow:
    """The savepoints of a dataflow; ``NotFound`` where the viewer may not know of it."""
    record = dataflow_for(viewer, dataflow_id)
    expected, hindrance = None, ""
    try:
        fragment, _, _ = exact_savepoint(record)
        expected = _state_bytes(fragment)
    except WeirError as refusal:
        hindrance = refusal.full_message
    rows = SavepointRow.objects.filter(dataflow=record).select_related("taken_by")
    return SavepointsOfDataflow(
        [_savepoint(row) for row in rows], SavepointRow.objects.filter(team=record.team_id).count(), SAVEPOINTS.most,
        expected, hindrance)


def _savepoint(row: SavepointRow) -> NamedSavepoint:
    return NamedSavepoint(
        row.pk, row.name, row.note, row.version, row.taken_by.username, row.taken_at, row.state, row.cause,
        sorted(row.tasks), row.node, row.fragment, row.size_bytes,
        None if row.saved_at_ms is None else datetime.fromtimestamp(row.saved_at_ms / 1000, tz=UTC), row.next_event)


def _state_bytes(fragment_id: str) -> int | None:
    [fragment] = fragments_where(pk=fragment_id).values()
    report = jobs.read_live((), {}).reports.query(fragment.slot, fragment_id)
    return None if report is None or report.state_kb is None else report.state_kb << 10
