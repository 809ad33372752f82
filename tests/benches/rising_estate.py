"""A keyed word count in a system that runs, whose rate rises: when adaptation asks, and when that helps.

    python -m tests.benches.rising_estate STEP_S RATE RATE...

with WEIR_DATA_DIR and REDIS_URL of that system. Writes a line of JSON for each rise once all is over.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import redis

from tests.benches.rising_rate import RECORDING, require_counts
from tests.benches.sides import ALL_EVENTS
from tests.benches.slow_count import SLOW_COUNT, WORD_S
from tests.written_blocks import read_blocks

if TYPE_CHECKING:
    from scheduler.controllers.loop_values import Policy
    from scheduler.model.fragment import Fragment

PAIR = ("MBA", "SAM")
COOL_DOWN_S = 30.0
WARM_S = 60.0  # before that drivers compile, and sources make up for it
LIMIT = "1 s"  # so its batches are short
LOOK_S = 0.25
DONE_S = 600.0
LEFT_S = 1.0  # what has not waited for so long is no backlog
PROFILE = f"""task,threads,peak_rate_tuples_s,cpu_pct,mem_pct,origin
{SLOW_COUNT.name},1,{0.8 / WORD_S:g},90,5,bench
"""
DOCUMENT = {
    "name": "Words",
    "tasks": [
        {"id": "words", "type": "replay", "config": {"path": RECORDING, "time_column": "at", "speed": 1.0}},
        {"id": "counts", "type": SLOW_COUNT.name},
        {"id": "out", "type": "output", "config": {"name": "words", "keep_events": ALL_EVENTS}}],
    "streams": [{"from": "words", "to": "counts"}, {"from": "counts", "to": "out"}]}


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a moment (s since the epoch): events that wait, and bundles of the ring in force."""

    at_s: float
    waiting: int
    bundles: int


def main() -> None:
    """Submit, look until all words are counted, compare, and write."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    import django

    django.setup()
    step_s, *rates = map(float, sys.argv[1:])
    words = pq.read_table(Path(os.environ["WEIR_DATA_DIR"]) / "replay" / RECORDING).column("word").to_pylist()
    dataflow = _submitted(rates[0])
    looks, rows = _looks_and_rows(dataflow, len(words), within_s=step_s * len(rates) + DONE_S)
    equal = require_counts(words, rows)
    began_s = min(row["_born"] for row in rows) / 1000
    for line in lines_of(looks, _rounds(dataflow), rates, began_s=began_s, step_s=step_s):
        sys.stdout.write(json.dumps(line | {"rows as counted in Python": equal}) + "\n")


def lines_of(
    looks: Sequence[Look], rounds: Sequence[tuple[float, str]], rates: Sequence[float], *, began_s: float, step_s: float
) -> list[dict[str, Any]]:
    """A line for each rise, with seconds from then on: until adaptation asked, until a ring with more bundles was in
    force, and until no more waited than comes in a second."""
    lines = []
    for step, rate in enumerate(rates[1:], start=1):
        rose_s, is_last = began_s + step * step_s, step == len(rates) - 1
        ends_s = float("inf") if is_last else rose_s + step_s
        seen = [look for look in looks if rose_s <= look.at_s < ends_s]
        before = max((look.bundles for look in looks if rose_s - 5 <= look.at_s < rose_s), default=0)
        turn_s, wanted = next((at for at in rounds if rose_s <= at[0] < ends_s), (None, ""))
        ring = next((look for look in seen if look.bundles > before), None)
        gone = next((look for look in seen if ring and look.at_s > ring.at_s and look.waiting < LEFT_S * rate), None)
        lines.append({
            "events/s": f"{rates[step - 1]:g} → {rate:g}",
            "bundles": f"{before} → {ring.bundles if ring else before}",
            "asked after s": None if turn_s is None else round(turn_s - rose_s, 1), "for": wanted,
            "ring in force after s": None if ring is None else round(ring.at_s - rose_s, 1),
            "most waiting": max((look.waiting for look in seen), default=0),
            "backlog gone after s": None if gone is None else round(gone.at_s - rose_s, 1)})
    return lines


def _submitted(rate_per_s: float) -> str:
    """Let it run by a schedule for this rate, with goals; its id."""
    from dashboard.approvals.services import approve_proposal, prepare_proposal, submit_dataflow
    from dashboard.catalog.services import choose_goals, choose_latency
    from dashboard.plans.choices import ScheduleChoice
    from dashboard.profiles.services.importing import import_profiles
    from dashboard.teams.models import Team, User
    from scheduler.controllers.controller_registry import CONTROLLERS
    from scheduler.controllers.loop_values import OFF, Policy
    from scheduler.model.dataflow_goals import DataflowGoals
    from scheduler.model.documents import read_limits

    team = Team.objects.get(slug="city")
    author, approver = (User.objects.get(username=name) for name in ("carla", "ana"))
    import_profiles(actor=author, text=PROFILE)
    for controller in CONTROLLERS:  # what one has just changed the others leave alone for minutes
        _let(controller, Policy(OFF))
    text = json.dumps(DOCUMENT | {"rates": {"words": rate_per_s}})
    proposal = submit_dataflow(
        actor=author, team=team, text=text, format="json",
        schedule=ScheduleChoice.of(pair=PAIR, rate_per_s=rate_per_s))
    proposal = prepare_proposal(proposal_id=proposal.pk)
    choose_goals(actor=author, dataflow_id=proposal.dataflow_id, goals=DataflowGoals(
        most_per_hour=100.0, least_per_hour=0.01, throughput=0.95, tolerance=0.03))
    choose_latency(actor=author, dataflow_id=proposal.dataflow_id, limits=read_limits(LIMIT, tasks=(), streams=()))
    approve_proposal(actor=approver, proposal_id=proposal.pk, digest=proposal.plan.digest)
    return str(proposal.dataflow_id)


def _let(controller: str, policy: Policy) -> None:
    """What a controller may do for the team."""
    from dashboard.controllers.services import set_policy
    from dashboard.teams.models import Membership, Role, Team

    team = Team.objects.get(slug="city")
    admin = Membership.objects.filter(team=team, role=Role.ADMIN).first().user
    set_policy(actor=admin, controller=controller, team=team, policy=policy)


def _looks_and_rows(dataflow: str, words: int, *, within_s: float) -> tuple[list[Look], list[dict[str, Any]]]:
    """Look again and again until all words have come out; what was seen, and all rows. Adaptation acts once it is warm.
    """
    from dashboard import jobs
    from dashboard.operations.estate_store.estate_loader import current_estate
    from scheduler.controllers.loop_values import ACTS, Policy
    from workers.engine.channels.channel_registry import Channels

    broker, ends_s, looks = redis.Redis.from_url(os.environ["REDIS_URL"]), time.time() + within_s, list[Look]()
    counted, warm_s = 0, float("inf")
    while counted < words:
        if time.time() > ends_s:
            raise TimeoutError(f"{counted} of {words} words have been counted: {looks[-1:]}")
        time.sleep(LOOK_S)
        estate = current_estate()
        if dataflow not in estate.submitted:
            continue
        homes = {name: estate.fragments[estate.places[task][0]]
                 for name, task in estate.submitted[dataflow].running.items() if task in estate.places}
        if len(homes) < len(DOCUMENT["tasks"]):
            continue
        reports = jobs.read_live((), {}).reports
        counts = homes["counts"]
        waiting = sum(jobs.waiting_events(estate, [counts]).values())
        looks.append(Look(time.time(), waiting, _bundles(reports, homes["words"])))
        meters = jobs.meters([homes["out"].id])[1].get(homes["out"].id, {})
        position = homes["out"].active_tasks.index(estate.submitted[dataflow].running["out"])
        counted = meters.get(f"{position}:n", 0)
        if counted and warm_s == float("inf"):
            warm_s = time.time() + WARM_S
        if time.time() > warm_s:
            _let("adaptation", Policy(ACTS, 20, 100, COOL_DOWN_S))
            warm_s = ends_s
    blocks = read_blocks(
        Channels(broker), estate.channel_of(estate.submitted[dataflow].running["out"]), count=ALL_EVENTS)
    return looks, [row for _, of_block in blocks for row in of_block]


def _bundles(reports: Any, writer: Fragment) -> int:
    """To how many bundles the writer divides its words now; 1 where it does not divide them."""
    from scheduler.model.ring import Ring

    report = reports.query(writer.slot, writer.id)
    rings = [] if report is None else [
        how for routes in report.routes.values() for how in routes.values() if isinstance(how, Ring)]
    return max((len({*ring.tokens.values()}) for ring in rings), default=1)


def _rounds(dataflow: str) -> list[tuple[float, str]]:
    """When rounds of adaptation about it began, and for which rate, the oldest first."""
    from dashboard.controllers.models import RoundRow

    def rate_of(row: RoundRow) -> str:
        return next((str(change["after"]) for change in row.decision["changes"]), "")

    rows = RoundRow.objects.filter(controller="adaptation", dataflow=dataflow).order_by("begun")
    return [(row.begun.timestamp(), rate_of(row)) for row in rows]


if __name__ == "__main__":
    main()
