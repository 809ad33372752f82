"""Types of which the OpenAPI document names the values that are allowed, and the site refuses others with a remedy.

Pydantic would refuse them as well, as ``invalid_request``; the site's own errors say what to choose instead.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import WithJsonSchema

from dashboard.bills.periods import NAMES as PERIODS
from dashboard.plans.choices import LEAST_RATE_PER_S, MOST_RATE_PER_S
from dashboard.plans.joining_options import BEGINNINGS
from dashboard.teams.models import Team, TokenScope
from dashboard.teams.services import LONGEST_SECRET
from scheduler.controllers.loop_values import MODES
from scheduler.history.series import GRAIN_BY_NAME, KINDS
from scheduler.model.behind import CHOICES
from scheduler.model.secrets import SECRET_NAME
from scheduler.pairs import PAIRS
from scheduler.performance.routing import Routing

_RATE = {"type": "number", "minimum": LEAST_RATE_PER_S, "maximum": MOST_RATE_PER_S}

Format = Annotated[str | None, WithJsonSchema({"enum": ["json", "yaml", None]})]
DAY = {"format": "date"}
MOMENT = {"format": "date-time"}
RoutingName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(Routing))})]
PairNames = Annotated[
    list[str], WithJsonSchema({"type": "array", "items": {"type": "string"}, "enum": [list(pair) for pair in PAIRS]})]
Rate = Annotated[float, WithJsonSchema(_RATE)]
RateOrNone = Annotated[float | None, WithJsonSchema({"anyOf": [_RATE, {"type": "null"}]})]
PeriodName = Annotated[str, WithJsonSchema({"type": "string", "enum": ["", *PERIODS]})]
Beginning = Annotated[
    str, WithJsonSchema({"type": "string", "anyOf": [{"enum": list(BEGINNINGS)}, {"format": "date-time"}]})]
ControllerName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(MODES)})]
SecretValue = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_SECRET})]
HistoryKind = Annotated[str, WithJsonSchema({"type": "string", "enum": list(KINDS)})]
GrainName = Annotated[str, WithJsonSchema({"type": "string", "enum": ["", *GRAIN_BY_NAME]})]
SecretName = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{SECRET_NAME.pattern}$"})]


def _or_none(**schema: object) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [schema, {"type": "null"}]})


Above = Annotated[float | None, _or_none(type="number", exclusiveMinimum=0)]
NotNegative = Annotated[float | None, _or_none(type="number", minimum=0)]
Count = Annotated[int | None, _or_none(type="integer", minimum=1)]
ScopeName = Annotated[str, WithJsonSchema({"type": "string", "enum": TokenScope.values})]
WhenBehindName = Annotated[str, WithJsonSchema({"type": "string", "enum": ["", *CHOICES]})]
TeamWhenBehindName = Annotated[
    str, WithJsonSchema({"type": "string", "enum": [name for name, _ in Team._meta.get_field("when_behind").choices]})]
