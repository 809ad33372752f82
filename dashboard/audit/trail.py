"""``audited``: the one way to change state. It opens the transaction and writes the audit row in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from django.db import models

from dashboard.audit.models import AuditEntry
from dashboard.core.database import hold_rights, writing
from dashboard.teams.permissions import NOBODY, Viewer, viewer_at_turn

if TYPE_CHECKING:
    from dashboard.teams.models import Team, User

_UNDER_WAY: ContextVar[Audit | None] = ContextVar("audited_command_under_way", default=None)


class Audit:
    """The audit entry of one command; filled in while the command runs.

    ``viewer`` is what the actor may do, as of the command's turn; nothing, where the system itself acts.
    """

    def __init__(
        self, *, actor: User | None, verb: str, subject: models.Model | None, team: Team | None, viewer: Viewer,
    ) -> None:
        self.actor, self.viewer = actor, viewer
        self.verb = verb
        self.subject = subject
        self.team = team
        self.details: dict[str, object] = {}
        self._nothing_changed = False
        self._entries: list[AuditEntry] = []

    def also(self, *, verb: str, subject: models.Model, team: Team | None, **details: object) -> None:
        """Add a row for something else that this command changed."""
        self._entries.append(_entry(self.actor, verb, subject, team, details))

    def nothing_changed(self) -> None:
        """The command found nothing to do: it leaves no row."""
        self._nothing_changed = True

    def choose(self, row: models.Model, field: str, chosen: object) -> bool:
        """Store a choice in a row, and note what it was before; False where it is the same."""
        before = getattr(row, field)
        self.details = {"before": before, "after": chosen}
        if before == chosen:
            self.nothing_changed()
            return False
        setattr(row, field, chosen)
        row.save(update_fields=[field])
        return True

    def close(self) -> None:
        """Write all rows in one statement, the command's own as the last one."""
        if not self._nothing_changed:
            if self.subject is None:
                raise ValueError(f"{self.verb}: an audited command names its subject")
            self._entries.append(_entry(self.actor, self.verb, self.subject, self.team, self.details))
        AuditEntry.objects.bulk_create(self._entries)


@contextmanager
def audited(
    *, actor: User | None, verb: str, subject: models.Model | None = None, team: Team | None = None,
    takes_rights: bool = False,
) -> Iterator[Audit]:
    """Open a transaction, run the command in it and write its audit row before it commits.

    ``actor`` is None where the system itself acts. Subject and team may be set on the yielded object as soon as they
    are known. An exception leaves neither the change nor the row.

    Parameters
    ----------
    takes_rights : bool, optional
        True if somebody may lose a right by it: then no other command that relies on rights runs meanwhile.

    Raises
    ------
    PermissionDenied
        The actor's rights ended while the command waited for its turn.
    """
    outer = _UNDER_WAY.get()
    with writing():
        if outer is None:
            hold_rights(taking=takes_rights)
        if actor is None:
            viewer = NOBODY
        else:
            viewer = outer.viewer if outer is not None and outer.actor == actor else viewer_at_turn(actor)
        audit = Audit(actor=actor, verb=verb, subject=subject, team=team, viewer=viewer)
        token = _UNDER_WAY.set(audit)
        try:
            yield audit
            audit.close()
        finally:
            _UNDER_WAY.reset(token)


def inside_command() -> bool:
    """True if the running code is inside an audited command."""
    return _UNDER_WAY.get() is not None


def _entry(
    actor: User | None, verb: str, subject: models.Model, team: Team | None, details: dict[str, object]
) -> AuditEntry:
    # The name at the time: a reader months later should not have to look an id up, nor see today's name.
    named = {"name": name} if (name := _name_of(subject)) else {}
    return AuditEntry(
        actor=actor, verb=verb, subject_type=subject._meta.model_name, subject_id=str(subject.pk), team=team,
        details={**named, **details})


def _name_of(subject: models.Model) -> str:
    """The subject's own name, or that of the dataflow that it is about."""
    return getattr(subject, "name", "") or getattr(getattr(subject, "dataflow", None), "name", "")
