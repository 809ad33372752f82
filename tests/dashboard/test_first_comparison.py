"""A newcomer's first comparison: every sample has schedules before anything was measured."""

from __future__ import annotations

import pytest

from dashboard import jobs
from dashboard.operations.services import register_node
from dashboard.plans.scheduling_problem import problem_of_new
from dashboard.profiles.estimates import estimated_tasks
from scheduler.model.documents import read_document
from scheduler.model.errors import InsufficientSlots
from tests.dashboard.building import World


@pytest.mark.parametrize("sample", jobs.samples(), ids=lambda sample: sample["slug"])
def test_every_sample_has_schedules_at_its_own_rate(world: World, sample: dict) -> None:
    register_node(name="n1", slots=2)
    dataflow = read_document(sample["text"], format="yaml", task_types=jobs.task_types())  # whatever servers it names
    comparison = problem_of_new(dataflow, team=world.city).compare()
    assert comparison.schedules, comparison.errors
    assert all(isinstance(error, InsufficientSlots) for error in comparison.errors.values())
    transforms = {
        task.id for task in dataflow.tasks if jobs.task_types()[task.type].kind == "transform"}
    assert set(estimated_tasks(comparison.schedules[0].job.profiles)) == transforms
