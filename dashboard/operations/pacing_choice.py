"""How the intervals of batches are chosen: the ways that there are, the one in force, and choosing another.

An administrator chooses for the estate; where nobody has, ``WEIR_PACING`` says which. What carries a way out is an
entry of `dashboard.operations.latency_control.interval_choice.INTERVAL_CHOICES` under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from dashboard.audit.trail import audited
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.models import EstateState
from dashboard.teams.models import User
from dashboard.teams.permissions import require_superuser, viewer_of
from scheduler.model.errors import WeirError


class InvalidPacing(WeirError):
    """There is no such way to choose intervals."""

    code = "invalid_value"


@dataclass(frozen=True, slots=True)
class PacingKind:
    """A way to choose intervals, as people choose it.

    Attributes
    ----------
    name, title : str
        As it is stored, and as it is shown.
    does, costs : str
        What it does, and what it takes and leaves out, in sentences.
    leaves_batches_open : bool
        Whether queries may leave their batches open with it.
    """

    name: str
    title: str
    does: str
    costs: str
    leaves_batches_open: bool


PACINGS: Mapping[str, PacingKind] = {kind.name: kind for kind in (
    PacingKind(
        "planned", "By plan",
        "The site works out all intervals at once, every ten seconds, from what batches were measured to take: the "
        "least CPU with which every limit holds. Queries may leave their batches open.",
        "It takes the least CPU. While the site is away, intervals stay as they are.", leaves_batches_open=True),
    PacingKind(
        "steps", "By managers on nodes",
        "Managers in the node agents measure latencies and make intervals longer or shorter in small steps, as paper "
        "[5] sizes buffers. Nothing central is in the way: it goes on while the site is away.",
        "It takes about 1.8 to 2.6 times the CPU for batches that a plan takes, and each step waits for its effect. "
        "Batches do not stay open, and slow queries are not chained for a limit by nodes.", leaves_batches_open=False),
)}


@dataclass(frozen=True, slots=True)
class PacingInForce:
    """The way that counts, and whether somebody chose it here; else it is the installation's."""

    kind: PacingKind
    is_chosen: bool


def pacing_in_force() -> PacingInForce:
    """What the estate has, else what the environment says."""
    name = EstateState.objects.filter(pk=1).values_list("pacing", flat=True).first() or ""
    return PacingInForce(PACINGS[name or settings.PACING], bool(name))


def choose_pacing(*, actor: User, name: str) -> PacingInForce:
    """Choose how intervals are chosen, for the whole estate; empty for what the installation says.

    It counts from the pacer's next round on, within ten seconds. Intervals alone change, and no output.

    Raises
    ------
    PermissionDenied
        The actor does not administer the installation.
    InvalidPacing
        There is no such way.
    """
    require_superuser(viewer_of(actor))
    if name and name not in PACINGS:
        raise InvalidPacing(
            f"{name[:40]!r} is no way to choose intervals.", remedy=f"Choose one of {', '.join(PACINGS)}.")
    with audited(actor=actor, verb="estate.choose_pacing") as audit:
        lock_generation()
        state = EstateState.objects.get(pk=1)
        audit.subject, audit.details = state, {"before": state.pacing, "after": name}
        if state.pacing == name:
            audit.nothing_changed()
        else:
            EstateState.objects.filter(pk=1).update(pacing=name)
    return pacing_in_force()
