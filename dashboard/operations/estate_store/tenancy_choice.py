"""The choice of shared or separate slots, and slots that are shared although they are not to be.

An administrator chooses for the estate; where nobody has, ``WEIR_TENANCY`` says which. What it means for where things
run is in `scheduler.model.tenancy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from dashboard.operations.estate_store.estate_choices import EstateChoice
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.estate_reader import SHARED, TEAM


@dataclass(frozen=True, slots=True)
class TenancyKind:
    """A way to place the queries of teams, with sentences on its effect and its cost."""

    name: str
    title: str
    does: str
    costs: str


TENANCIES: Mapping[str, TenancyKind] = {kind.name: kind for kind in (
    TenancyKind(
        SHARED, "Teams share slots",
        "A query goes where there is least to do, whoever's queries are there.",
        "It takes the fewest slots. A query that ends its slot's driver interrupts those of other teams beside it, "
        "for some seconds each time."),
    TenancyKind(
        TEAM, "Each team has slots of its own",
        "The queries on a slot are of one team: a query goes to a slot of its team that has room, else to an empty "
        "one, which is the team's from then on. Teams still share tasks: one that runs stays on the slot of the team "
        "that brought it, and the others read its channel.",
        "It takes a slot at least for each team, and a team without a slot of its own cannot run anything while none "
        "is empty. Queries of two teams are not made one."),
)}

TENANCY_CHOICE = EstateChoice(
    "tenancy", TENANCIES, "way to place the queries of teams", lambda: settings.TENANCY, is_of_plans=True)


def shared_slots() -> list[str]:
    """Slots that hold queries of several teams, by name: what ran before teams were to be apart stays where it is."""
    return sorted(slot for slot, teams in current_estate().teams.items() if len(teams) > 1)
