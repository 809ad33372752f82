"""What `./weir bench what-if` asks about: dataflows with profiles, submitted or running by a schedule, in a database.

Rows, not commands on proposals: those would tell nodes, and there are none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.documents import to_document
from scheduler.pairs import MODEL_BASED
from scheduler.planning import plan_submission
from workers.engine.channels import keys
from workers.launcher import broker as embedded
from workers.library.registry import task_types
from workers.processes import spawn, stop

if TYPE_CHECKING:
    from dashboard.catalog.models import DataflowRecord

# In figures of our own: CPU alone, CPU and memory, and a service that answers many at once.
PROFILES = """task,threads,peak_rate_tuples_s,cpu_pct,mem_pct
pi_viete,1,100,90,2
pi_viete,2,110,95,3
xml_document,1,300,85,35
http_get,1,2,7,20
http_get,8,12,40,25
http_get,16,20,70,30
"""
KINDS: tuple[Callable[[int], tuple[str, dict[str, Any]]], ...] = (  # each task another: equal ones would be one
    lambda number: ("pi_viete", {"iterations": 100 + number}),
    lambda number: ("xml_document", {"values": [f"value{number}=speed"]}),
    lambda number: ("http_get", {"url": f"http://localhost/{number}"}),
)
EVENTS = 10_000  # that each query has read and made: enough to tell selectivities, which are as declared
BROKER_STARTS_S = 20.0


def random_dataflow(tasks: int, *, seed: int) -> Dataflow:
    """A source, tasks that each read one of the five before, and an output of all that nobody reads.

    Its source is no other's, so that dataflows of different sizes share nothing.
    """
    rng = random.Random(seed)
    names = [f"t{number}" for number in range(tasks - 2)]
    middle = [Task(name, *rng.choice(KINDS)(number)) for number, name in enumerate(names)]
    streams = [Stream("sense" if at == 0 else names[rng.randrange(max(0, at - 5), at)], name)
               for at, name in enumerate(names)]
    leaves = [name for name in names if all(stream.source != name for stream in streams)]
    return Dataflow(
        f"random {tasks}",
        (Task("sense", "urban_sensing", {"seed": tasks}), *middle, Task("out", "output", {"name": "out"})),
        (*streams, *(Stream(leaf, "out") for leaf in leaves)), rates_per_s={"sense": 10.0})


def stored(dataflow: Dataflow, *, slots: int) -> DataflowRecord:
    """The dataflow of an engineer, with profiles of all its tasks and a node with free slots."""
    from dashboard.audit.trail import audited  # here, and below: Django is set up by the command
    from dashboard.catalog.models import DataflowRecord, DataflowVersion
    from dashboard.operations.models import NodeRow, SlotRow
    from dashboard.profiles.services.importing import import_profiles
    from dashboard.teams.models import Membership, Role, Team, User

    team, _ = Team.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    author, new = User.objects.get_or_create(username="engineer")
    if new:
        node = NodeRow.objects.create(name="n1", slots=slots)
        SlotRow.objects.bulk_create(
            SlotRow(node=node, index=index, name=f"n1/{index}") for index in range(slots))
        Membership.objects.create(user=author, team=team, role=Role.ENGINEER)
        import_profiles(actor=author, text=PROFILES)
    with audited(actor=author, verb="dataflow.store", team=team) as audit:
        record = DataflowRecord.objects.create(
            team=team, author=author, name=dataflow.name, visibility="shared", tasks=len(dataflow.tasks))
        DataflowVersion.objects.create(
            dataflow=record, number=1, text="", format="json", document=to_document(dataflow), author=author)
        audit.subject, audit.details = record, {"name": record.name}
    return record


def let_run(record: DataflowRecord, *, rate_per_s: float) -> None:
    """Let it run by MBA with SAM at a rate: what an approved plan writes, and meters of all its queries."""
    from django.conf import settings

    from dashboard import jobs
    from dashboard.audit.trail import audited
    from dashboard.catalog.lifecycle import RUNNING
    from dashboard.operations.estate_store.estate_loader import stored_estate
    from dashboard.operations.estate_store.estate_writer import store_plan
    from dashboard.operations.estate_store.generation import lock_generation
    from dashboard.plans.price_settings import prices
    from dashboard.plans.scheduling_problem import problem_of

    with audited(actor=record.author, verb="dataflow.run", team=record.team) as audit:
        lock_generation()
        problem = problem_of(record)
        plan = plan_submission(
            stored_estate(), problem.dataflow, dataflow_id=str(record.pk), team=record.team.slug,
            task_types=task_types(), prices=prices(), schedule=problem.schedule(MODEL_BASED, rate_per_s))
        store_plan(plan)
        record.status = RUNNING
        record.save()
        audit.subject = record
    meters = jobs.broker(settings.REDIS_URL).pipeline()
    for fragment in plan.fragments_after.values():
        for bundle in fragment.queries:
            meters.hset(keys.meter(bundle.id), mapping={"in:n": EVENTS, "0:n": EVENTS})
    meters.execute()


@contextmanager
def own_broker(folder: Path) -> Iterator[None]:
    """A broker of its own in place of the site's, with nothing in it."""
    from django.conf import settings

    prepared, before = embedded.prepare(folder), settings.REDIS_URL
    with (folder / "broker.log").open("ab") as log:
        broker = spawn(prepared.argv, stdout=log)
    settings.REDIS_URL = prepared.url
    try:
        began = time.monotonic()
        while not embedded.answers(prepared.url):
            if time.monotonic() - began > BROKER_STARTS_S:
                raise TimeoutError(f"The broker did not answer within {BROKER_STARTS_S:.0f} s.")
            time.sleep(0.05)
        yield
    finally:
        settings.REDIS_URL = before
        stop(broker, timeout_s=5)
