"""One of everything that an address can name, private and of one team, and a client of each person who may ask."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.alerts.models import MuteRow
from dashboard.approvals.services import comment_on, set_rules, take_savepoint
from dashboard.audit.models import AuditEntry
from dashboard.catalog.selectors import samples
from dashboard.controllers.models import MachineOrder, RoundRow
from dashboard.controllers.stored_rounds import DECISIONS
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import AlternateHold
from dashboard.outbox.models import Delivery, Endpoint
from dashboard.profiles.models import ProfileRecord, SweepRecord
from dashboard.simulations.services import start_replay
from dashboard.teams.models import Role, TokenScope, User
from dashboard.teams.services import create_token, set_calendar, set_role, set_secret
from dashboard.teams.services.people import deactivate
from scheduler.approving import Automatic, Rules
from scheduler.controllers.loop_values import ControllerPromise, Decision
from scheduler.performance.modelling import Sweep
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, planned, running

WHO = ("anonymous", "outsider", "mo", "ben", "max", "vera", "carla", "ana", "dev", "root")
LEFT = "left"  # an approver of the team that owns what is named, until deactivated
SERVER, BROKER_AWAY = "mqtt.example.org", 503
QUERIES = {
    "live/snapshot": {"topic": "estate"}, "api/history": {"kind": "estate"}, "charts.json": {"kind": "estate"},
    "api/dataflows/<uuidstr:dataflow_id>/goals/prices": {"most_per_hour": "2"}}


def connected() -> str:
    """A private dataflow of City with a source that is posted to, and a sink that another system keeps."""
    return json.dumps({
        "name": "links", "visibility": "private",
        "tasks": [
            {"id": "posted", "type": "http_ingest", "config": {
                "name": "meters", "token": {"secret": "hook"}, "columns": ["a:bigint"]}},
            {"id": "away", "type": "to_mqtt", "config": {"server": SERVER, "topic": "a"}}],
        "streams": [{"from": "posted", "to": "away"}]})


def with_alternates() -> str:
    """A private dataflow of which one task may be done in two ways."""
    return json.dumps({
        "name": "ways", "visibility": "private",
        "tasks": [
            {"id": "sense", "type": "urban_sensing"},
            {"id": "work", "alternates": [
                {"name": "all", "type": "sql", "config": {"query": "SELECT * FROM input"}, "value": 2},
                {"name": "few", "type": "sql", "config": {"query": "SELECT * FROM input WHERE _seq > 9"}}]},
            {"id": "out", "type": "output", "config": {"name": "ways"}}],
        "streams": [{"from": "sense", "to": "work"}, {"from": "work", "to": "out"}]})


def measured(world: World) -> dict[str, Any]:
    """A profile of City's own, a sweep of its private dataflow with a trial, and a round that asks whether to measure
    it again, by the names of parameters."""
    profile = ProfileRecord.objects.create(key="k", task_type="pi_viete", team=world.city, author=world.carla)
    profile.points.create(threads=1, rate_per_s=10.0, cpu=0.5, memory=0.1)
    sweep = SweepRecord.objects.create(
        task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds=asdict(Sweep()), warm_up_s=1,
        seconds=1, author=world.carla, team=world.city, status="queued", profile=profile)
    trial = sweep.trials.create(number=1, threads=1, rate_per_s=10.0, why="", ended=timezone.now(), stable=True)
    decision = Decision(
        str(profile.pk), "city", (), ControllerPromise("it fits", 60.0), "it drifted", arguments={"slot": "n1/0"})
    row = RoundRow.objects.create(
        key="remeasuring-1", controller="remeasuring", team=world.city, target=str(profile.pk), profile=profile,
        mode="recommends", phase="asked", decision=DECISIONS.document(decision), begun=timezone.now(),
        sweep=sweep)
    return {"profile_id": profile.pk, "sweep_id": sweep.pk, "trial_id": trial.pk, "key": row.key}


def alerted(world: World) -> dict[str, Any]:
    """An alert, a mute, a webhook and a dead message of City; their ids by the names of path parameters."""
    alert = alert_of(world.city)
    mute = MuteRow.objects.create(
        team=world.city, rule_id="x", until=timezone.now() + timedelta(days=1), by=world.dev, text="all")
    endpoint = Endpoint.objects.create(
        team=world.city, name="hook", url="http://127.0.0.1:9/x", least="info", sealed=jobs.seal("s"))
    dead = Delivery.objects.create(key="k", channel="webhook", endpoint=endpoint, payload={}, state="dead")
    return {"alert_id": alert.pk, "mute_id": mute.pk, "endpoint_id": endpoint.pk, "delivery_id": dead.pk}


class Everything:
    """Private dataflows of City that run, one that is in review, what City measured, and a client of each person."""

    def __init__(self, world: World) -> None:
        for name, team, role in (("max", world.mobility, Role.ADMIN), (LEFT, world.city, Role.APPROVER)):
            world.users[name] = User.objects.create(username=name)
            set_role(user=world.users[name], team=team, role=role)
        set_secret(actor=world.dev, team=world.city, name="hook", value="a-value-of-some-length")
        links = running(world.carla, world.city, connected(), world.ana)
        set_rules(actor=world.abe, team=world.city, rules=Rules(automatic=Automatic()))  # which wait
        token, _ = create_token(actor=world.carla, name="of-carla")
        record = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
        several = running(world.carla, world.city, with_alternates(), world.ana)
        AlternateHold.objects.create(
            task=load_estate().submitted[str(several.pk)].running["work"], alternate="all", by=world.carla,
            until=timezone.now() + timedelta(days=1))
        set_calendar(actor=world.ana, team=world.city, name="hook", days=[])
        MachineOrder.objects.create(
            node="n1", size="D1", slots=1, per_hour=0.1, state="recommended", ordered=timezone.now(),
            next_try=timezone.now())
        proposal = planned(world.carla, world.city, document("hush-later", visibility="private", window=7))
        self._names = {
            "dataflow_id": record.pk, "one": record.pk, "other": links.pk, "proposal_id": proposal.pk,
            "task_id": load_estate().submitted[str(record.pk)].running["sense"], "slug": "city", "name": "hook",
            "token_id": token.pk, "number": 1,
            "look_id": "none", "search_id": "none", "username": "vera", "provider_id": "oidc",
            "way": "pause", "task": "out", "team": "city", "controller": "defragmentation", "kind": "latency",
            "process": "0", "step": "source", "page": "jobs/",
            "comment_id": comment_on(actor=world.carla, proposal_id=proposal.pk, text="Why 7?").pk,
            "savepoint_id": take_savepoint(actor=world.carla, dataflow_id=record.pk, name="sunday").pk,
            "run_id": start_replay(actor=world.carla, proposal_id=proposal.pk).pk,
        } | measured(world) | alerted(world) | _parts(str(record.pk))
        source, sink = {"dataflow_id": links.pk, "task": "posted"}, {"dataflow_id": links.pk, "task": "away"}
        dynamic = {"dataflow_id": several.pk, "task": "work"}
        self._of_pattern: dict[str, dict[str, Any]] = {
            "api/dataflows/<uuidstr:dataflow_id>/alternates": dynamic,
            "api/dataflows/<uuidstr:dataflow_id>/switches.jsonl": dynamic,
            **dict.fromkeys([
                f"api/dataflows/<uuidstr:dataflow_id>/alternates/<task>/{what}" for what in ("try", "policy", "release")
            ], dynamic),
            "dataflows/<uuid:dataflow_id>/dynamic": {"dataflow_id": several.pk},
            **dict.fromkeys([
                f"dataflows/<uuid:dataflow_id>/dynamic/<str:task>/{what}"
                for what in ("charts.json", "policy", "hold")], dynamic),
            "api/teams/<slug:slug>/events/<str:stream>": {"stream": "alerts"},
            "api/dataflows/<uuidstr:dataflow_id>/outputs/<str:task_id>": {"task_id": "out"},
            "api/dataflows/<uuidstr:dataflow_id>/sources/<str:task_id>/dead-letters": source | {"task_id": "posted"},
            "api/dataflows/<uuidstr:dataflow_id>/sinks/<str:task_id>/refused": sink | {"task_id": "away"},
            "api/dataflows/<uuidstr:dataflow_id>/sinks/<str:task_id>/write-again": sink | {"task_id": "away"},
            "dataflows/<uuid:dataflow_id>/dead-letters/<path:task>": source,
            "dataflows/<uuid:dataflow_id>/sinks/<path:task>": sink,
            "dataflows/<uuid:dataflow_id>/write-again/<path:task>": sink,
            "dataflows/samples/<slug:slug>": {"slug": next(iter(samples())).slug},
            "help/<slug:slug>": {"slug": "review"}, "dataflows/graph/<slug:edit>": {"edit": "configure"},
            "teams/<slug:slug>/rules/<int:number>/<slug:way>": {"way": "agree"},
            "proposals/<uuid:proposal_id>/<slug:way>": {"way": "approve"},
            "dataflows/<uuid:dataflow_id>/machines/<slug:node>/<slug:way>": {"way": "order"},
            "profiles/<uuid:profile_id>/<slug:way>": {"way": "set_aside"},
            "profiles/sweeps/<uuid:sweep_id>/<slug:way>": {"way": "cancel"},
            "api/sweeps/<uuidstr:sweep_id>/<slug:way>": {"way": "cancel"},
        }
        text, digest = document("new", window=9), proposal.plan.digest
        self._bodies: dict[str, dict[str, Any]] = {
            "api/validate": {"text": text, "format": "json"},
            "api/near-misses": {"team": "city", "text": text, "format": "json"},
            "api/streams": {"team": "city", "text": text, "format": "json"},
            "api/streams/looks": {"team": "city", "text": text, "format": "json", "task": "sense"},
            "api/estate/tasks/<str:task_id>/searches": {"where": "_seq > 1"},
            "estate/tasks/<slug:task_id>/search": {"where": "_seq > 1"},
            "api/dataflows": {"team": "city", "text": text, "format": "json"},
            "api/teams/<slug:slug>/secrets/<str:name>": {"value": "x"},
            "api/teams/<slug:slug>/containment": {"on": False},
            "api/teams/<slug:slug>/defragmentation": {"choice": "recommend"},
            "api/controllers/<slug:controller>": {
                "team": "city", "mode": "acts", "changes_per_hour": 1, "changes_per_day": 2, "cool_down_s": 60},
            "api/teams/<slug:slug>/when-behind": {"choice": "pause"},
            "api/teams/<slug:slug>/freshness": {"freshness_s": 2.5},
            "api/dataflows/<uuidstr:dataflow_id>/latency": {"latency": "400 ms"},
            "api/dataflows/<uuidstr:dataflow_id>/when-behind": {"choice": "lose_oldest"},
            "api/dataflows/<uuidstr:dataflow_id>/move": {"query": "f1-0", "slot": "n1/1"},
            "api/dataflows/<uuidstr:dataflow_id>/schedule": {"pair": ["LSA", "DSM"]},
            "api/dataflows/<uuidstr:dataflow_id>/what-if": {"most_per_s": "50"},
            "api/proposals/<uuidstr:proposal_id>/adopt": {"key": "none"},
            "api/dataflows/<uuidstr:dataflow_id>/sinks/<str:task_id>/write-again": {"what": "refused"},
            "api/dataflows/<uuidstr:dataflow_id>/alternates": {"task": "work", "alternate": "few"},
            "api/dataflows/<uuidstr:dataflow_id>/pause-at-once": {"reason": "It harms."},
            "dataflows/<uuid:dataflow_id>/pause-at-once": {"reason": "It harms."},
            "api/dataflows/<uuidstr:dataflow_id>/savepoints": {"name": "monday"},
            "dataflows/<uuid:dataflow_id>/savepoints/take": {"name": "monday"},
            "api/tokens": {"name": "ci"},
            "api/dataflows/<uuidstr:dataflow_id>/versions": {
                "text": document("hush", visibility="private", window=20), "format": "json"},
            "api/teams/<slug:slug>/approval-rules": {"rules": {"otherwise": {"approvals": 2}}},
            "api/proposals/<uuidstr:proposal_id>/comments": {"text": "Why?"},
            "api/proposals/<uuidstr:proposal_id>/comments/<int:comment_id>": {"text": "Why not?"},
            "api/proposals/<uuidstr:proposal_id>/comments/<int:comment_id>/resolve": {"resolved": True},
            "teams/<slug:slug>/rules": {"otherwise-approvals": "2"},
            "proposals/<uuid:proposal_id>/comments": {"text": "Why?"},
            "api/proposals/<uuidstr:proposal_id>/approve": {"digest": digest},
            "api/proposals/<uuidstr:proposal_id>/reject": {"digest": digest, "comment": "no"},
            "proposals/<uuid:proposal_id>/<slug:way>": {"digest": digest},
            "teams/<slug:slug>/secrets/delete": {"name": "hook"},
            "dataflows/new": {"team": "city", "text": text, "format": "json"},
            "dataflows/preview": {"team": "city", "text": text, "format": "json"},
            "dataflows/streams": {"team": "city", "text": text, "format": "json"},
            "dataflows/graph": {"team": "city", "text": text, "format": "json"},
            "dataflows/graph/<slug:edit>": {"team": "city", "text": text, "format": "json", "task": "sense"},
            "dataflows/looks": {"team": "city", "text": text, "format": "json", "task": "sense"},
            "teams/new": {"name": "Water", "slug": "water"},
            "teams/<slug:slug>/members": {"username": "outsider", "role": "1"},
            "teams/<slug:slug>/members/remove": {"username": "vera"},
            "teams/<slug:slug>/secrets": {"name": "hook", "value": "x"},
            "teams/<slug:slug>/calendars": {"name": "holidays", "days": "2026-12-25"},
            "teams/<slug:slug>/containment": {"on": "0"},
            "controllers/<slug:controller>/set": {"team": "city", "mode": "acts"},
            "api/dataflows/<uuidstr:dataflow_id>/simulations": {"algorithms": ["CE"]},
            "dataflows/<uuid:dataflow_id>/simulate/start": {"algorithms": ["CE"], "hours": "1"},
            "api/tenancy": {"tenancy": "team"}, "estate/tenancy/choose": {"tenancy": "team"},
            "api/pacing": {"pacing": "steps"}, "estate/pacing/choose": {"pacing": "steps"},
            "teams/<slug:slug>/when-behind": {"choice": "pause"},
            "teams/<slug:slug>/freshness": {"freshness": "2.5 s"},
            "dataflows/<uuid:dataflow_id>/latency": {"latency": "400 ms"},
            "dataflows/<uuid:dataflow_id>/when-behind": {"choice": "lose_oldest"},
            "dataflows/<uuid:dataflow_id>/goals": {"most_per_hour": "2"},
            "api/dataflows/<uuidstr:dataflow_id>/goals": {"goals": {"most_per_hour": 2.0}},
            "tokens/new": {"name": "ci"},
            "api/dataflows/<uuidstr:dataflow_id>/alternates/<task>/policy": {"guards": {"few": "rate > 5"}},
            "dataflows/<uuid:dataflow_id>/dynamic/<str:task>/policy": {"guard_few": "rate > 5"},
            "dataflows/<uuid:dataflow_id>/dynamic/<str:task>/hold": {"alternate": "few", "hold_s": "900"},
            "api/teams/<slug:slug>/calendars/<str:name>": {"days": ["2026-12-25"]},
            "api/teams/<slug:slug>/events/<str:stream>": {"values": {"level": "red"}},
            "api/alerts/<int:alert_id>/mute": {"what": "both", "minutes": 60},
            "api/alert-rules/<str:kind>": {"team": "city", "for_s": 5},
            "api/notice-choices": {"choices": [{"subject": "info", "email": True, "webhook": False}]},
            "api/webhooks": {"name": "hook", "url": "http://127.0.0.1:9/x", "team": "city"},
            "alerts/<int:alert_id>/mute": {"what": "both", "minutes": "60"},
            "alerts/rules/set": {"team": "city", "kind": "latency", "for_s": "5"},
            "alerts/webhooks/add": {
                "name": "hook", "url": "http://127.0.0.1:9/x", "team": "city", "format": "weir", "least": "info"},
        }
        self.topics = {
            "estate": "estate", "dataflow": f"dataflow:{record.pk}", "proposal": f"proposal:{proposal.pk}",
            "sweep": f"sweep:{self._names['sweep_id']}"}
        self._clients = {name: Client(raise_request_exception=False) for name in (*WHO, LEFT)}
        self._tokens = {
            scope: Client(raise_request_exception=False, headers={
                "Authorization": f"Bearer {create_token(actor=world.dev, name='t', scope=scope)[1]}"})
            for scope in TokenScope.values}
        for name in (*WHO[1:], LEFT):
            self._clients[name].force_login(world.users[name], backend="dashboard.teams.logins.ThrottledBackend")
        deactivate(actor=world.root, username=LEFT)

    def body_of(self, pattern: str) -> dict[str, Any]:
        """The fields that are sent to an address."""
        return QUERIES.get(pattern) or self._bodies.get(pattern, {})

    def mark(self, who: str, method: str, pattern: str, body: dict[str, Any] | None = None) -> str:
        """What comes of one request, with the fields that fit the address where no others are given; what it changed is
        taken back. Empty where the address has no such method."""
        names = self._names | self._of_pattern.get(pattern, {})
        path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda name: str(names[name[1]]), pattern)
        before, point = AuditEntry.objects.count(), transaction.savepoint()
        try:
            fields = self.body_of(pattern) if body is None else body
            response = self._ask((self._clients | self._tokens)[who], method, path, fields)
            has_changed = AuditEntry.objects.count() > before
        finally:
            transaction.savepoint_rollback(point)
        assert response.status_code < 500 or response.status_code == BROKER_AWAY, (who, method, path, response.content)
        is_login = response.status_code == 302 and response.url.startswith("/login/")
        if is_login or response.status_code in (401, 403, 404):
            assert not has_changed, (who, method, path)
            return "-"
        return "" if response.status_code == 405 else "+" if has_changed else "="

    def _ask(self, client: Client, method: str, path: str, body: dict[str, Any]) -> Any:
        if method == "get":
            return client.get(path, body)
        if path.startswith("/api/"):
            return getattr(client, method)(path, data=json.dumps(body), content_type="application/json")
        return getattr(client, method)(path, data=body) if method == "post" else getattr(client, method)(path)


def _parts(dataflow_id: str) -> dict[str, object]:
    """A query and a stream of a dataflow, a slot and a node, by the names that addresses have for them."""
    estate = load_estate()
    running_tasks = estate.submitted[dataflow_id].running
    parent, child = running_tasks["sense"], running_tasks["parse"]
    return {"query_id": estate.places[child][0], "parent": parent, "child": child, "node": "n1", "index": 0}
