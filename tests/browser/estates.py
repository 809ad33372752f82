"""Large estates for looking at: dataflows drawn by seed, taken through planning, and stored in bulk.

``python -m tests.browser.estates 500`` fills the database that the environment names (``WEIR_DATA_DIR``).
"""

from __future__ import annotations

import random
import sys
from itertools import pairwise

from scheduler.model.dataflow import Dataflow, Stream, Task

TEAMS = {"city": "City Sensing", "mobility": "Mobility", "energy": "Energy", "water": "Water", "health": "Health"}
PLACES = ("harbour", "airport", "campus", "old town", "ring road", "west side", "river", "station", "market", "park")
KINDS = ("averages", "alerts", "statistics", "forecast", "quality", "archive", "counts", "outliers")
FAMILIES = 24


def drawn_dataflow(number: int, *, seed: int = 7) -> tuple[str, Dataflow]:
    """One of a family that begins alike: a team's slug and a chain of some tasks, of which some are shared.

    A family has its own source; the further a dataflow goes along its family's trunk, the more it shares.
    """
    chance = random.Random(f"{seed}-{number}")
    family = min(int(chance.expovariate(0.14)), FAMILIES - 1)
    depth = chance.randint(1, 5)
    tasks = [Task("sense", "urban_sensing"), Task("parse", "senml_parse")]
    # The trunk's windows are the family's, so that all of it agree on them as far as they go.
    tasks += [Task(f"trunk{step}", "block_average", {"window": 10 + 7 * step + family}) for step in range(depth)]
    streams = [Stream(one.id, other.id) for one, other in pairwise(tasks)]
    for branch in range(chance.randint(1, 3)):
        window = chance.choice((2, 3, 4, 5, 6, 8, 9)) * 100 + family
        after, out = Task(f"mean{branch}", "block_average", {"window": window + branch}), f"out{branch}"
        tasks += [after, Task(out, "output", {"name": f"flow-{number}-{branch}"})]
        streams += [Stream(f"trunk{chance.randrange(depth)}", after.id), Stream(after.id, out)]
    used = {stream.source for stream in streams}
    ends = [task for task in tasks if task.id not in used and task.type != "output"]
    for end in ends:
        tasks.append(Task(f"{end.id}_out", "output", {"name": f"flow-{number}-{end.id}"}))
        streams.append(Stream(end.id, f"{end.id}_out"))
    name = f"{PLACES[family % len(PLACES)].capitalize()} {chance.choice(KINDS)} {number}"
    team = chance.choice(sorted(TEAMS)) if chance.random() < 0.5 else sorted(TEAMS)[family % len(TEAMS)]
    return team, Dataflow(name=name, tasks=tuple(tasks), streams=tuple(streams), rates_per_s={"sense": 20.0 + family})


def fill(count: int) -> None:
    """Submit so many dataflows by the services' own parts: each is stored, planned and enacted at once."""
    import django

    django.setup()

    from django.utils import timezone

    from dashboard import jobs
    from dashboard.approvals.models import Proposal
    from dashboard.audit.trail import audited
    from dashboard.catalog.models import DataflowRecord, DataflowVersion
    from dashboard.operations.estate_store.estate_loader import stored_estate
    from dashboard.operations.estate_store.estate_writer import store_plan
    from dashboard.plans.models import PlanRecord
    from dashboard.plans.price_settings import prices
    from dashboard.teams.models import Team, User
    from scheduler import planning
    from scheduler.model.documents import to_document
    from scheduler.model.encoding import plan_to_json

    author = User.objects.filter(is_superuser=True).first()
    teams = {slug: Team.objects.get_or_create(slug=slug, defaults={"name": name})[0] for slug, name in TEAMS.items()}
    for number in range(count):
        slug, dataflow = drawn_dataflow(number)
        with audited(actor=author, verb="dataflow.store", team=teams[slug]) as audit:
            record = DataflowRecord.objects.create(
                team=teams[slug], author=author, name=dataflow.name, visibility="shared", status="running",
                tasks=len(dataflow.tasks))
            DataflowVersion.objects.create(
                dataflow=record, number=1, text="", format="json", document=to_document(dataflow), author=author)
            plan = planning.plan_submission(
                stored_estate(), dataflow, dataflow_id=str(record.pk), team=slug, task_types=jobs.task_types(),
                prices=prices())
            store_plan(plan)
            plan_row = PlanRecord.objects.create(
                kind="submit", dataflow=record, version=1, status="stale", generation=plan.generation,
                digest=plan.digest, document=plan_to_json(plan))
            Proposal.objects.create(
                plan=plan_row, dataflow=record, author=author, status="done", approved_at=timezone.now(),
                finished_at=timezone.now())
            audit.subject, audit.details = record, {"name": record.name}


if __name__ == "__main__":
    fill(int(sys.argv[1]))
