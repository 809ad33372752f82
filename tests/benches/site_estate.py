"""Dataflows that run, in the database of this process: what approved plans write, on nodes that are played."""

from __future__ import annotations

from dataclasses import replace

from scheduler.planning import plan_submission
from workers.library.registry import task_types

from .planning_workload import resident

SOURCES, FILTERS = 10, 4
RATE_PER_S = 20.0


def let_dataflows_run(count: int, *, nodes: tuple[str, ...], slots: int) -> list[str]:
    """Eight tasks each: some share a source, its parsing and a filter, and each has five tasks for itself.

    Parameters
    ----------
    count : int
        How many dataflows.
    nodes : tuple of str
        The names of the nodes.
    slots : int
        How many each has.

    Returns
    -------
    list of str
        The ids of the dataflows.
    """
    from dashboard.audit.trail import audited  # here, and below: Django is set up by the command
    from dashboard.catalog.lifecycle import RUNNING
    from dashboard.catalog.models import DataflowRecord, DataflowVersion
    from dashboard.operations.estate_store.estate_loader import stored_estate
    from dashboard.operations.estate_store.estate_writer import store_plan
    from dashboard.operations.estate_store.generation import lock_generation
    from dashboard.operations.models import NodeRow, SlotRow
    from dashboard.plans.price_settings import prices
    from dashboard.teams.models import Membership, Role, Team, User
    from scheduler.model.documents import to_document

    team = Team.objects.create(slug="bench", name="Bench")
    author = User.objects.create(username="engineer")
    Membership.objects.create(user=author, team=team, role=Role.ENGINEER)
    for name in nodes:
        node = NodeRow.objects.create(name=name, slots=slots)
        SlotRow.objects.bulk_create(
            SlotRow(node=node, index=index, name=f"{name}/{index}") for index in range(slots))
    records = []
    for number in range(count):
        dataflow = resident(number, number % SOURCES, number // SOURCES % FILTERS)
        dataflow = replace(dataflow, rates_per_s={"sense-0": RATE_PER_S})
        with audited(actor=author, verb="dataflow.run", team=team) as audit:
            lock_generation()
            record = DataflowRecord.objects.create(
                team=team, author=author, name=dataflow.name, visibility="shared", tasks=len(dataflow.tasks),
                status=RUNNING)
            DataflowVersion.objects.create(
                dataflow=record, number=1, text="", format="json", document=to_document(dataflow), author=author)
            store_plan(plan_submission(
                stored_estate(), dataflow, dataflow_id=str(record.pk), team=team.slug, task_types=task_types(),
                prices=prices()))
            audit.subject, audit.details = record, {"name": record.name}
        records.append(str(record.pk))
    return records
