"""The choice of pacing: the ways that there are, the one in force, and choosing another.

An administrator chooses for the estate; where nobody has, ``WEIR_PACING`` says which. What carries a way out is an
entry of `dashboard.operations.latency_control.interval_choice.INTERVAL_CHOICES` under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from dashboard.operations.estate_store.estate_choices import EstateChoice


@dataclass(frozen=True, slots=True)
class PacingKind:
    """A way to choose intervals, as people see it.

    Attributes
    ----------
    name, title : str
        Stored and displayed name.
    does, costs : str
        Sentences on how it chooses, and on its cost and limits.
    leaves_batches_open : bool
        True if queries may leave their batches open with it.
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
        "Managers in the node agents measure latencies and make intervals longer or shorter in small steps. It "
        "needs nothing central: it goes on while the site is away.",
        "It takes about 1.8 to 2.6 times the CPU for batches that a plan takes, and each step waits for its effect. "
        "Batches do not stay open, and slow queries are not chained for a limit by nodes.", leaves_batches_open=False),
)}

# It counts from the pacer's next round on, within ten seconds. Intervals alone change, and no output.
PACING_CHOICE = EstateChoice("pacing", PACINGS, "way to choose intervals", lambda: settings.PACING)
