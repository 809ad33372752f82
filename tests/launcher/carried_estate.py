"""Dataflows for back-ups and for the state that later versions open, submitted and approved as people do.

    python -m tests.launcher.carried_estate   (with WEIR_DATA_DIR and REDIS_URL of a system that runs)

Two dataflows share a chain with state, so that one of them reads what the other writes; all of what they make goes to
files. One is paused, one was removed, one waits for its approval, and one runs by a schedule.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import pairwise
from typing import Any

DONE_S = 300.0
CHAIN = [
    {"id": "sense", "type": "urban_sensing", "config": {"seed": 21, "sensors": 8}},
    {"id": "parse", "type": "senml_parse", "config": {"schema": "urban"}},
    {"id": "smooth", "type": "kalman_filter"}]


def document(name: str, *tasks: dict[str, Any], chain: int = 3, rate_per_s: float = 20.0, seed: int = 21) -> str:
    """A dataflow with the first tasks of the chain, and these behind them, one after the other."""
    source = {**CHAIN[0], "config": {**CHAIN[0]["config"], "seed": seed}}
    every = [source, *CHAIN[1:chain], *tasks]
    streams = [{"from": before["id"], "to": after["id"]} for before, after in pairwise(every)]
    return json.dumps({
        "name": name, "visibility": "shared", "tasks": every, "streams": streams, "rates": {"sense": rate_per_s}})


def sink(name: str) -> dict[str, Any]:
    """A task that writes files to a folder of that name."""
    return {"id": name, "type": "json_lines", "config": {"folder": name}}


class Estate:
    """Submits, approves, and waits, in the process of a site."""

    def __init__(self) -> None:
        from dashboard.teams.models import Team, User

        self._people = {name: User.objects.get(username=name) for name in ("carla", "ana")}
        self._team = Team.objects.get(slug="city")

    def submit(self, text: str, *, approved: bool = True) -> Any:
        """A dataflow; with ``approved`` it runs afterwards."""
        from dashboard.approvals.services import prepare_proposal, submit_dataflow

        proposal = prepare_proposal(proposal_id=submit_dataflow(
            actor=self._people["carla"], team=self._team, text=text, format="json").pk)
        if approved:
            self.approve(proposal)
        return proposal.dataflow

    def propose(self, what: str, dataflow: Any, **more: Any) -> None:
        """A change of a dataflow that runs, approved and done."""
        from dashboard.approvals import services

        proposal = getattr(services, what)(actor=self._people["carla"], dataflow_id=dataflow.pk, **more)
        self.approve(services.prepare_proposal(proposal_id=proposal.pk))

    def approve(self, proposal: Any) -> None:
        """Approve, and wait until it is in force."""
        from dashboard.approvals.models import Proposal
        from dashboard.approvals.services import approve_proposal

        approve_proposal(actor=self._people["ana"], proposal_id=proposal.pk, digest=proposal.plan.digest)
        deadline_s = time.monotonic() + DONE_S
        while (status := Proposal.objects.get(pk=proposal.pk).status) != "done":
            if time.monotonic() > deadline_s or status in ("failed", "rejected"):
                raise TimeoutError(f"{proposal.dataflow.name} is {status}")
            time.sleep(0.5)


def django_estate() -> Estate:
    """One in this process, of the system that runs."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    return Estate()


def main(*, whole: bool) -> None:
    """The two that share; with ``whole`` all of them."""
    estate = django_estate()
    from dashboard.plans.choices import ScheduleChoice

    estate.submit(document("Smoothed", sink("smoothed")))
    estate.submit(document("Read", sink("read"), chain=2))
    if not whole:
        return
    resting = estate.submit(document("Resting", {"id": "moment", "type": "second_order_moment"}, sink("resting")))
    estate.propose("pause_dataflow", resting)
    gone = estate.submit(document("Gone", sink("gone"), chain=2))
    estate.propose("remove_dataflow", gone)
    out = {"id": "out", "type": "output", "config": {"name": "scheduled"}}
    scheduled = estate.submit(document("Scheduled", out, chain=2, rate_per_s=5.0, seed=3))
    estate.propose("propose_schedule", scheduled, choice=ScheduleChoice.of(pair=["LSA", "RSM"], rate_per_s=5.0))
    estate.submit(document("Waits for approval", sink("waits"), chain=2), approved=False)


if __name__ == "__main__":
    main(whole="--whole" in sys.argv)
