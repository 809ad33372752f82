"""docs/api.md against the API: every route and every error code that a caller can get stands there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, TypedDict

import pytest
from ninja.responses import NinjaJSONEncoder
from pydantic import ValidationError

import dashboard.config.urls  # noqa: F401 - all of the site, with its errors
from dashboard.api.answers.common import answer_of
from dashboard.api.routes import api
from dashboard.config.environment import ROOT
from dashboard.operations.live_view.document_fields import Figure, Moving
from dashboard.operations.live_view.live_documents import MOVING
from scheduler.model.errors import Problem, WeirError

DOCS = (ROOT / "docs" / "api.md").read_text()
# Of the system itself, of commands and of pages that have no route: no answer of the API holds them.
NEVER_ANSWERED = {
    "graph_not_editable",  # by the editor alone
    # problems of documents
    "alternates_differ", "ambiguous_columns", "columns_in_conflict", "types_too_long", "unknown_column",
    "wrong_column_type",
    "wrong_columns",
    "error", "invalid_config", "invalid_contract", "invalid_setting", "invalid_trial", "mixed_sweep",
    "node_in_use", "node_reports", "secret_away", "sink_away", "sink_refused", "source_away",
    "source_refused", "too_many_readers", "trial_failed",
}


def codes(kind: type[WeirError] = WeirError) -> set[str]:
    """The codes of an error and of all its kinds that the site has loaded."""
    ours = kind.__module__.split(".")[0] in ("dashboard", "scheduler", "workers")
    return ({kind.code} if ours else set()).union(*(codes(subclass) for subclass in kind.__subclasses__()))


def documented_routes() -> set[tuple[str, str]]:
    """Method and path of each route named, shortened ones (``…/pause``) in full."""
    routes = set()
    for row in re.findall(r"^\| (`(?:GET|POST|PUT|DELETE)\b.*?) \|", DOCS, re.MULTILINE):
        methods, before, paired = [], "", False
        for word in re.findall(r"`([^`]*)`", row):
            named = re.match(r"(?:(GET|POST|PUT|DELETE)\b ?)?(/api\S*|…/\S+)?", word)
            if named[1]:
                methods, paired = ([] if paired else methods) + [named[1]], False
            path = (named[2] or "").partition("?")[0]
            if not path:
                continue
            before = path if path.startswith("/") else f"{before.rpartition('/')[0]}/{path[2:]}"
            routes |= {(method, before) for method in methods}
            paired = True
    return routes


def test_every_route_is_documented_and_every_documented_route_is_there() -> None:
    operations_there = set()
    for path, operations in api.get_openapi_schema(path_prefix="/api/")["paths"].items():
        short = re.sub(r"\{(\w+?)(?:_id)?\}", lambda name: "{task}" if name[1] == "task" else f"{{{name[1]}}}", path)
        short = re.sub(r"\{(dataflow|proposal|profile|sweep|token)\}", "{id}", short)
        operations_there |= {(method.upper(), short) for method in operations}
    # One row stands for pause, resume and cancel of a sweep.
    steering = {("POST", f"/api/sweeps/{{id}}/{way}") for way in ("pause", "resume", "cancel")}
    assert documented_routes() == operations_there - {("POST", "/api/sweeps/{id}/{way}")} | steering


def test_every_code_is_documented() -> None:
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| \d{3} \|.*$", DOCS, re.MULTILINE))))
    assert named - {"Retry"} == codes() - NEVER_ANSWERED


# Answers that others define: the JSON Schema of documents, events of a task's own columns, and files.
OPEN_ANSWERS = {
    ("get", "/api/document-schema"), ("get", "/api/dataflows/{dataflow_id}/outputs/{task_id}"),
    ("get", "/api/profiles.csv"), ("get", "/api/dataflows/{dataflow_id}/switches.jsonl"),
}


def test_every_answer_has_a_schema_and_every_error_its_status() -> None:
    document = api.get_openapi_schema(path_prefix="/api/")
    undeclared, without_errors = [], []
    for address, operations in document["paths"].items():
        for method, operation in operations.items():
            statuses = {int(status): answer for status, answer in operation["responses"].items()}
            declared = [answer.get("content", {}).get("application/json", {}).get("schema")
                        for status, answer in statuses.items() if status < 400 and status != 204]
            if (method, address) not in OPEN_ANSWERS and not all(map(is_closed, declared)):
                undeclared.append((method, address))
            if not {400, 401, 500, 503} <= set(statuses) or ("{" in address and 404 not in statuses):
                without_errors.append((method, address))
    assert (undeclared, without_errors) == ([], [])
    assert document["components"]["schemas"]["Error"]["required"] == ["code", "message", "remedy"]


def is_closed(schema: dict | None) -> bool:
    """Whether a schema names what it holds: a component, a list of them, or of strings."""
    return bool(schema) and ("$ref" in schema or is_closed(schema.get("items")) or schema.get("type") == "string")


class Part(TypedDict):
    moves: Figure
    stays: str


class Whole(TypedDict):
    parts: Mapping[str, Part]
    first: Part | None
    pair: tuple[int, ...]
    others: Annotated[tuple[Problem, ...], Moving()]


def test_an_answer_follows_from_a_declaration_however_deep():
    whole = answer_of(Whole)
    given = {"parts": {"a": {"moves": None, "stays": "x"}}, "first": None, "pair": [1, 2], "others": []}
    assert whole(**given).model_dump() == given
    schema = whole.model_json_schema()
    assert set(schema["$defs"]) == {"Part", "Problem"} and schema["required"] == list(given)
    assert answer_of(Problem) is answer_of(Problem), "one component for one type"
    with pytest.raises(ValidationError):
        whole(**given | {"parts": {"a": {"moves": 1.0, "stays": "x", "more": 1}}})


def test_pages_write_in_place_what_is_marked_wherever_it_is_nested():
    assert {"retry_at_ms", "cpu", "events_in_per_s", "lost_events", "measured"} <= MOVING
    assert {"state", "error", "gave_up", "restarts", "dataflows", "id"}.isdisjoint(MOVING)


def test_the_document_that_is_sent_is_the_one_that_is_tested(client):
    answer = client.get("/api/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/"), cls=NinjaJSONEncoder))
    assert client.post("/api/openapi.json").status_code == 405
