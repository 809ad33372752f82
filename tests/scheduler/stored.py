"""What is stored of plans and estates: read again as it was, and of the published shape."""

from __future__ import annotations

import json
from functools import cache

from jsonschema import Draft202012Validator

from scheduler.contracts.plan_documents import estate_schema, plan_schema
from scheduler.model.encoding import estate_from_json, estate_to_json, plan_from_json, plan_to_json
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan


@cache
def _validators() -> tuple[Draft202012Validator, Draft202012Validator]:
    return Draft202012Validator(plan_schema()), Draft202012Validator(estate_schema())


def check_stored(plan: Plan, estate: Estate | None = None) -> None:
    """Check a plan, and the estate that it changes, as they are stored."""
    of_plans, of_estates = _validators()
    text = plan_to_json(plan)
    assert plan_from_json(text) == plan
    of_plans.validate(json.loads(text))
    if estate is not None:
        text = estate_to_json(estate)
        assert estate_from_json(text) == estate
        of_estates.validate(json.loads(text))
