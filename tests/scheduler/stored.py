"""What is stored of plans: read again as it was, and of the published shape."""

from __future__ import annotations

import json
from functools import cache

from jsonschema import Draft202012Validator

from scheduler.contracts.contract_schemas import CONTRACTS
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.plan import Plan


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(CONTRACTS["Plan"][0]())


def check_stored(plan: Plan) -> None:
    """Check a plan as it is stored."""
    text = plan_to_json(plan)
    assert plan_from_json(text) == plan
    _validator().validate(json.loads(text))
