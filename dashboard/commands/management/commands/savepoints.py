"""`./weir savepoints DATAFLOW`: list the named savepoints of a dataflow, take one, or delete one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from dashboard.approvals.savepoints_told import NamedSavepoint, savepoints_told
from dashboard.approvals.services import delete_savepoint, take_savepoint
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.proposing import DataflowCommand
from dashboard.teams.models import User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import NotFound


class Command(DataflowCommand):
    help = ("List the named savepoints of a dataflow; take one of its state while it runs, or delete one. "
            "`./weir submit --from-savepoint NAME` begins from one.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_mutually_exclusive_group()
        actions.add_argument("--take", metavar="NAME", help="take a savepoint under this name")
        actions.add_argument("--delete", metavar="NAME", help="delete the savepoint of this name")
        parser.add_argument("--note", default="", help="what the one that is taken is for")

    def act(self, record: DataflowRecord, actor: User, options: Any) -> str:
        if options["take"] is not None:
            take_savepoint(actor=actor, dataflow_id=record.pk, name=options["take"], note=options["note"])
            return f"Savepoint {options['take']} of {record.name} is being taken."
        listed = savepoints_told(viewer_of(actor), record.pk)
        if options["delete"] is not None:
            named = [savepoint for savepoint in listed.savepoints if savepoint.name == options["delete"]]
            if not named:
                raise NotFound(
                    f"{record.name} has no savepoint {options['delete']!r}.",
                    remedy="List them: ./weir savepoints and the dataflow's name.")
            delete_savepoint(actor=actor, dataflow_id=record.pk, savepoint_id=named[0].id)
            return f"Savepoint {options['delete']} of {record.name} is deleted."
        lines = [_line(savepoint) for savepoint in listed.savepoints] or [f"{record.name} has no savepoints."]
        return "\n".join([*lines, f"Its team has {listed.taken} of {listed.most}.", *filter(None, [listed.hindrance])])


def _line(savepoint: NamedSavepoint) -> str:
    size = "" if savepoint.size_bytes is None else f"  {savepoint.size_bytes} bytes"
    moment = "" if savepoint.saved_at is None else f"  states of {savepoint.saved_at:%Y-%m-%d %H:%M:%S} UTC"
    return (f"{savepoint.name}  {savepoint.state}  version {savepoint.version}  on {savepoint.node}{moment}{size}"
            f"  by {savepoint.by}" + "".join(f"  {text}" for text in (savepoint.note, savepoint.cause) if text))
