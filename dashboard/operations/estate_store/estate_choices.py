"""Choices of an administrator for the whole estate, each a column of its row and a variable of the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dashboard.audit.trail import audited
from dashboard.operations.estate_store.generation import advance, lock_generation
from dashboard.operations.models import EstateState
from dashboard.teams.models import User
from dashboard.teams.permissions import require_superuser, viewer_of
from scheduler.model.errors import WeirError


class UnknownWay(WeirError):
    """The named choice does not exist."""

    code = "invalid_value"


class NamedWay(Protocol):
    """One that can be chosen, by its name."""

    @property
    def name(self) -> str: ...


KindT = TypeVar("KindT", bound=NamedWay)


@dataclass(frozen=True, slots=True)
class WayInForce(Generic[KindT]):
    """The way that counts, and whether somebody chose it here; else it is the installation's."""

    kind: KindT
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class EstateChoice(Generic[KindT]):
    """A choice of an administrator: a column of the estate's row, the ways, what errors call one of them, and what the
    installation says where nobody has chosen.

    With ``is_of_plans`` waiting plans are held to the estate anew after another choice.
    """

    column: str
    ways: Mapping[str, KindT]
    noun: str
    usual: Callable[[], str]
    is_of_plans: bool = False

    def in_force(self) -> WayInForce[KindT]:
        """The way that counts now; one that was chosen in another version, and is none here, does not."""
        name = EstateState.objects.filter(pk=1).values_list(self.column, flat=True).first() or ""
        return WayInForce(self.ways[name if name in self.ways else self.usual()], name in self.ways)

    def choose(self, *, actor: User, name: str) -> WayInForce[KindT]:
        """Choose a way for the whole estate; empty for what the installation says."""
        require_superuser(viewer_of(actor))
        if name and name not in self.ways:
            raise UnknownWay(f"{name[:40]!r} is no {self.noun}.", remedy=f"Choose one of {', '.join(self.ways)}.")
        with audited(actor=actor, verb=f"estate.choose_{self.column}") as audit:
            lock_generation()
            state = EstateState.objects.get(pk=1)
            before = getattr(state, self.column)
            audit.subject, audit.details = state, {"before": before, "after": name}
            if before == name:
                audit.nothing_changed()
                return self.in_force()
            EstateState.objects.filter(pk=1).update(**{self.column: name})
            if self.is_of_plans:
                state.refresh_from_db()
                advance(state)
        return self.in_force()
