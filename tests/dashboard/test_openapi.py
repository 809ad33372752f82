"""The API against its own OpenAPI document: schemathesis makes requests from it and holds the answers to it.

Each case is taken back, so that no case depends on another. ``--long`` tries sixty times as many. All operations are
one test, and what it needs is imported by it: every worker of a run reads this file, and one runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import Client, override_settings
from hypothesis import strategies as st

from dashboard import jobs, node_calls
from dashboard.api.routes import api
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.services import create_token
from tests.dashboard.building import document, make_world, planned, running
from tests.dashboard.conftest import SURROUNDINGS

SHORT, LONG = 2, 120
# What a schema cannot say, and a request that keeps to it may still be refused for: the text of a document or of a CSV
# file, a period that ends before it begins or is too long, a time that lies ahead, bounds that do not go together.
BEYOND_SCHEMAS = {
    "invalid_value": {
        "PUT /api/pacing", "PUT /api/tenancy", "POST /api/teams/{slug}/events/{stream}",
        "POST /api/teams/{slug}/freshness"},
    "invalid_dataflow": {
        "POST /api/dataflows", "POST /api/dataflows/{dataflow_id}/versions", "POST /api/near-misses",
        "POST /api/streams", "POST /api/streams/looks"},
    "invalid_simulation": {"POST /api/dataflows/{dataflow_id}/simulations"},
    "invalid_goals": {
        "POST /api/dataflows/{dataflow_id}/goals", "GET /api/dataflows/{dataflow_id}/goals/prices"},
    "invalid_latency": {"POST /api/dataflows/{dataflow_id}/latency"},
    "invalid_profile": {"POST /api/profiles"},
    "bad_input": {
        "GET /api/bills", "GET /api/bills/{dataflow_id}", "PUT /api/alert-rules/{kind}", "PUT /api/notice-choices",
        "POST /api/webhooks", "POST /api/proposals/{proposal_id}/comments",
        "PUT /api/proposals/{proposal_id}/comments/{comment_id}"},
    "invalid_rules": {"PUT /api/teams/{slug}/approval-rules"},
    "invalid_beginning": {
        "POST /api/dataflows", "POST /api/dataflows/{dataflow_id}/versions",
        "POST /api/proposals/{proposal_id}/joining"},
    "invalid_resources": {"POST /api/sweeps"},
    "invalid_range": {"GET /api/history"},
    "host_not_allowed": {"POST /api/webhooks"},
    "name_not_plain": {
        "POST /api/webhooks", "POST /api/dataflows/{dataflow_id}/pause-at-once",
        "POST /api/dataflows/{dataflow_id}/savepoints"},
}


@pytest.fixture(scope="module")
def names(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """What is there, by the names of path parameters, and a token of who may do everything.

    Made once, for cases are taken back: it takes four times as long as the cases of an operation.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(**SURROUNDINGS):
            world = make_world()
            record = running(world.carla, world.city, document("traffic"), world.ana)
            proposal = planned(world.mo, world.mobility, document("rides", window=7))
            _, token = create_token(actor=world.root, name="schemathesis", scope="admin")
        yield {
            "dataflow_id": str(record.pk), "proposal_id": str(proposal.pk), "slug": "city",
            "task_id": next(iter(load_estate().tasks)), "node": "n1", "token": token}
        transaction.set_rollback(True)


@pytest.fixture(autouse=True)
def _events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest events of streams, as if there were a broker."""
    newest = jobs.NewestEvents({"_seq": "bigint", "extra": None}, [{"_seq": 1, "extra": [1.5]}])
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: newest)
    monkeypatch.setattr(node_calls, "newest_types", lambda _: {})
    monkeypatch.setattr(node_calls, "begin_search", lambda *_, **__: None)


@pytest.fixture(autouse=True)
def _connections_stay() -> Iterator[None]:
    """A request closes no connection, as with Django's own test client: the test's transaction is on it."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.django_db  # pytest-django sets the database up where a test that runs has this mark, as no other here
def test_nobody_without_a_token_is_answered(client: Client) -> None:
    assert {client.get(f"/api/{name}").status_code for name in ("dataflows", "estate", "proposals")} == {401}


@pytest.mark.timeout(7_200)  # with --long
def test_answers_are_as_the_document_says(names: dict[str, str], request: pytest.FixtureRequest) -> None:
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi import checks

    schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/"))
    schema.app = get_wsgi_application()
    promises = [
        schemathesis.checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
        checks.response_headers_conformance, checks.response_schema_conformance]
    positive, negative = GenerationMode.POSITIVE, GenerationMode.NEGATIVE

    @hypothesis.settings(max_examples=LONG if request.config.getoption("--long") else SHORT, database=None,
                         derandomize=not request.config.getoption("--long"), report_multiple_bugs=False,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(st.data())
    def holds(operation: Any, data: st.DataObject) -> None:
        # Requests that break the schema can be made where something is asked for.
        way = data.draw(st.sampled_from([positive, negative] if [*operation.query, *operation.body] else [positive]))
        case = data.draw(operation.as_strategy(generation_mode=way))
        for name in names.keys() & (case.path_parameters or {}).keys():
            if data.draw(st.booleans()):
                case.path_parameters[name] = names[name]
        point = transaction.savepoint()
        try:
            response = case.call(headers={"Authorization": f"Bearer {names['token']}", "Accept-Encoding": "identity"})
        finally:
            transaction.savepoint_rollback(point)
        case.validate_response(response, checks=promises)
        holds_nul = "NUL character" in response.text  # in an address, where no schema forbids it
        if way is positive and response.status_code in (400, 422) and not holds_nul:
            assert operation.label in BEYOND_SCHEMAS.get(response.json()["code"], ()), response.text

    failures, labels = [], set()
    for result in schema.get_all_operations():
        operation = result.ok()
        labels.add(operation.label)
        try:
            holds(operation)
        except Exception as failure:
            failure.add_note(operation.label)
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(labels)} operations answer otherwise", failures)
    assert set().union(*BEYOND_SCHEMAS.values()) <= labels
