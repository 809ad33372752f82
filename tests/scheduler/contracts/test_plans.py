"""Stored plans that are no plans: refused with the remedy, and nothing raw."""

from __future__ import annotations

import json

import pytest

from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import AlteredPlan
from scheduler.planning import plan_submission

from ..catalogue import EMPTY, PRICES, TYPES
from ..stored import check_stored
from ..test_planning import ETL


@pytest.mark.parametrize("change", [
    {"digest": "0"}, {"of_a_later_version": 1}, {"steps": [{"kind": 1, "of": 2}]}, {"started": None},
    {"price": {"cores": []}}, {"dataflow": []},
])
def test_a_plan_that_was_altered_is_refused_with_the_remedy(change):
    plan = plan_submission(EMPTY, ETL, dataflow_id="etl", team="water", task_types=TYPES, prices=PRICES)
    check_stored(plan)
    with pytest.raises(AlteredPlan) as error:
        plan_from_json({**json.loads(plan_to_json(plan)), **change})
    assert "Compute it again" in error.value.remedy


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON"])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(AlteredPlan):
        plan_from_json(text)
