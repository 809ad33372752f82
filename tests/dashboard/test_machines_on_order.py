"""Machines on order: a program of the operator's, agents that report or do not, workers that are killed, paid hours."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.services import machine_ordering
from dashboard.approvals.services.machine_ordering import (
    MachineBoundsReached,
    advance_machines,
    decline_machine,
    order_machine,
)
from dashboard.audit.models import AuditEntry
from dashboard.controllers.machine_providers import (
    COMMAND_S,
    CommandProvider,
    MachineNotOrdered,
    WebhookProvider,
    machine_provider,
)
from dashboard.controllers.machines_told import machines_told, wrong_machines
from dashboard.controllers.models import MachineOrder
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.schedulable_slots import node_sizes
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import NodeRow
from dashboard.operations.services import register_node
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.controllers.alternate_adaptation import Adaptations
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from tests.dashboard.alerting import receiver
from tests.dashboard.building import World

HOUR = timedelta(hours=1)


@dataclass
class Killed(BaseException):
    """The worker is killed."""


@dataclass
class NotedProvider:
    """Notes what it is asked for; ``fails`` and ``kills`` say how it ends."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    fails: str = ""
    kills: bool = False

    def start(self, order: MachineOrder) -> None:
        self._note("start", order)

    def stop(self, order: MachineOrder) -> None:
        self._note("stop", order)

    def _note(self, action: str, order: MachineOrder) -> None:
        self.asked.append((action, order.node))
        if self.kills:
            raise Killed
        if self.fails:
            raise MachineNotOrdered(self.fails)


@dataclass
class Estate:
    """The estate at a moment that a test moves on: how many slots are wanted, and which agents report."""

    provider: NotedProvider
    at: datetime
    wanted: int = 0
    advised: int = 0  # wanted for teams where adaptation recommends
    reporting: set[str] = field(default_factory=set)

    def run(self, *, later_s: float = 15.0, times: int = 1) -> int:
        count = 0
        for _ in range(times):
            self.at += timedelta(seconds=later_s)
            NodeRow.objects.filter(name__in={"n1", *self.reporting}).update(seen=self.at)
            count = advance_machines(at=self.at, provider=self.provider)
        return count

    def report(self, node: str, slots: int = 2) -> None:
        self.reporting.add(node)
        register_node(name=node, slots=slots)

    def states(self) -> list[str]:
        return list(MachineOrder.objects.order_by("pk").values_list("state", flat=True))


@pytest.fixture
def estate(db: None, monkeypatch: pytest.MonkeyPatch, settings) -> Estate:
    """Without a free slot, as the one of n1 is taken."""
    made = Estate(NotedProvider(), timezone.now())
    settings.MACHINE_COMMAND = ("/bin/true", "{action}", "{node}")
    settings.MACHINE_SLOTS, settings.MACHINE_PRICE, settings.MACHINE_REPORT_S = 4, 1.0, 600.0
    register_node(name="n1", slots=1)
    NodeRow.objects.get(name="n1").slot_rows.update(queries=1)
    monkeypatch.setattr(machine_ordering, "evidence_of", lambda _: Adaptations())
    monkeypatch.setattr(
        machine_ordering, "slots_wanted", lambda *_, mode="acts": made.wanted if mode == "acts" else made.advised)
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(
        reports=Reports({node: NodeReport(node) for node in {"n1", *made.reporting}})))
    return made


def test_a_machine_comes_serves_and_goes_when_its_hour_ends(estate: Estate) -> None:
    estate.wanted = 2
    assert estate.run() == 1
    order = MachineOrder.objects.get()
    assert (order.size, order.slots, order.state) == ("D2", 2, "starting")
    estate.run(times=4)
    assert estate.provider.asked == [("start", order.node)], "it is asked for once"
    estate.report(order.node)
    estate.run()
    assert estate.states() == ["serving"] and node_sizes()[order.node].name == "D2"
    estate.wanted = 0
    estate.run(later_s=600, times=5)
    assert estate.states() == ["serving"], "its hour is paid"
    estate.run(later_s=(order.ordered + HOUR - timedelta(seconds=170) - estate.at).total_seconds())
    estate.run()  # it is drained by now
    assert estate.provider.asked[1:] == [("stop", order.node)]
    assert NodeRow.objects.get(name=order.node).draining_since is not None
    estate.run(later_s=130)
    assert estate.states() == ["stopped"], "its agent reports still"
    estate.reporting.clear()
    assert estate.run() == 0
    order.refresh_from_db()
    assert order.state == "gone" and order.ended < order.ordered + HOUR
    assert NodeRow.objects.get(name=order.node).slots == 0
    [row] = machines_told(with_errors=True)["machines"]
    assert row["cost"] == pytest.approx(order.per_hour) and row["paid_until"] == order.ordered + HOUR
    verbs = list(AuditEntry.objects.filter(verb__startswith="machine.").order_by("pk").values_list("verb", flat=True))
    assert verbs == [f"machine.{name}" for name in ("order", "starting", "serving", "leaving", "stopped", "gone")]


def test_what_runs_on_a_machine_keeps_it(estate: Estate, monkeypatch: pytest.MonkeyPatch) -> None:
    estate.wanted = 2
    estate.run()
    order = MachineOrder.objects.get()
    estate.report(order.node)
    estate.run()
    empty = machine_ordering.drain_of(order.node)
    monkeypatch.setattr(machine_ordering, "drain_of", lambda _: type(empty)(
        order.node, False, (), 1, 0))
    estate.wanted = 0
    estate.run(later_s=(order.ordered + HOUR - timedelta(seconds=170) - estate.at).total_seconds())
    assert estate.states() == ["serving"]


def test_a_worker_that_is_killed_asks_again_for_the_same_machine(estate: Estate) -> None:
    estate.wanted, estate.provider.kills = 2, True
    for _ in range(2):
        with pytest.raises(Killed):
            estate.run()
    estate.provider.kills = False
    estate.run()
    [order] = MachineOrder.objects.all()
    assert estate.provider.asked == [("start", order.node)] * 3 and order.state == "starting"
    estate.run(times=3)
    assert len(estate.provider.asked) == 3


def test_a_machine_that_does_not_report_is_given_up_and_told(estate: Estate) -> None:
    estate.wanted = 2
    estate.run()
    order = MachineOrder.objects.get()
    estate.run(later_s=601)
    assert estate.provider.asked[-1] == ("stop", order.node) and estate.states() == ["stopped"]
    [finding] = wrong_machines(view_for(EVERYTHING), [])
    assert finding.cause == f"Machine {order.node} was given up. Its agent did not report within 600 s of the order."
    estate.run(later_s=130)
    assert estate.states() == ["gone"]
    estate.run(later_s=600, times=2)
    assert len(estate.states()) == 1, "nothing is started so soon after a failure"
    estate.run(later_s=3600)
    assert len(estate.states()) == 2 and len(set(MachineOrder.objects.values_list("node", flat=True))) == 2


def test_an_order_that_is_not_taken_is_tried_again_less_and_less_often(estate: Estate) -> None:
    estate.wanted, estate.provider.fails = 2, "no quota"
    estate.run(later_s=20, times=10)
    order = MachineOrder.objects.get()
    assert len(estate.provider.asked) == 4 and order.error == "no quota"
    [finding] = wrong_machines(view_for(EVERYTHING), [])
    assert "cannot be started" in finding.cause and "no quota" not in finding.cause
    assert [machine["error"] for machine in machines_told(with_errors=False)["machines"]] == [""]
    estate.provider.fails = ""
    estate.run(later_s=200)
    order.refresh_from_db()
    assert (order.state, order.error) == ("starting", "")


def test_a_recommended_machine_is_ordered_by_an_administrator_and_kept_for_what_it_is_for(
    estate: Estate, world: World
) -> None:
    estate.advised = 2
    estate.run(times=3)
    [order] = MachineOrder.objects.all()
    assert (order.state, estate.provider.asked) == ("recommended", [])
    [row] = machines_told(with_errors=True)["machines"]
    assert (row["state"], row["cost"]) == ("recommended", 0)
    with pytest.raises(PermissionDenied):
        order_machine(actor=world.ana, node=order.node, at=estate.at)
    order_machine(actor=world.root, node=order.node, at=estate.at)
    estate.run()
    assert estate.provider.asked == [("start", order.node)]
    estate.report(order.node)
    estate.run()
    order.refresh_from_db()
    estate.run(later_s=(order.ordered + HOUR - timedelta(seconds=170) - estate.at).total_seconds())
    assert estate.states() == ["serving"], "its slots are wanted still"
    estate.advised = 0
    estate.run(later_s=60)
    assert estate.states() == ["leaving"]
    with pytest.raises(InvalidTransition):
        decline_machine(actor=world.root, node=order.node, at=estate.at)
    verbs = AuditEntry.objects.filter(verb__startswith="machine.").order_by("pk")
    assert [(row.verb, row.actor) for row in verbs][:2] == [
        ("machine.recommend", None), ("machine.order", world.root)]


def test_a_declined_machine_is_not_recommended_for_a_day_and_what_nobody_wants_is_withdrawn(
    estate: Estate, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    estate.advised = 2
    estate.run()
    [order] = MachineOrder.objects.all()
    call_command("node", "decline", order.node, username="root")
    assert "is declined" in capsys.readouterr().out
    estate.run(later_s=3600, times=3)
    assert estate.states() == ["declined"] and not estate.provider.asked
    estate.run(later_s=24 * 3600)
    assert estate.states() == ["declined", "recommended"]
    estate.advised = 0
    estate.run()
    assert estate.states() == ["declined", "declined"]
    estate.advised = 2
    estate.run()
    assert estate.states()[-1] == "recommended", "nobody had declined that"
    call_command("node", "machines")
    assert f"{order.node}: declined, D1 with a slot, for 0.098" in capsys.readouterr().out


def test_what_is_ordered_leaves_a_recommendation_and_the_bounds_hold_for_it(estate: Estate, world: World) -> None:
    estate.advised = 2
    estate.run()
    [order] = MachineOrder.objects.all()
    with pytest.raises(NotFound):
        order_machine(actor=world.root, node="d9-9", at=estate.at)
    MachineOrder.objects.create(
        node="d4-8", size="D4", slots=4, per_hour=0.1, state="serving", why="", ordered=estate.at, next_try=estate.at)
    with pytest.raises(MachineBoundsReached, match="5 slots"):
        order_machine(actor=world.root, node=order.node, at=estate.at)


def test_over_the_api_administrators_alone_answer(estate: Estate, world: World, client: Client) -> None:
    estate.advised = 2
    estate.run()
    [order] = MachineOrder.objects.all()
    client.force_login(world.ana)
    assert client.post(f"/api/machines/{order.node}/order").status_code == 403
    client.force_login(world.root)
    answer = client.post(f"/api/machines/{order.node}/order")
    assert answer.status_code == 200 and answer.json()["machines"][0]["state"] == "ordered"
    assert client.post(f"/api/machines/{order.node}/decline").status_code == 409


def test_nothing_is_decided_where_nobody_knows_what_runs(estate: Estate, monkeypatch: pytest.MonkeyPatch) -> None:
    estate.wanted = 2
    monkeypatch.setattr(machine_ordering, "evidence_of", lambda _: None)
    assert estate.run() == 0


def test_without_a_command_no_machine_is_ordered(estate: Estate, settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.MACHINE_COMMAND, estate.wanted = (), 2
    assert advance_machines(at=estate.at) == 0 and not MachineOrder.objects.exists()
    assert not machine_ordering.is_wanted()
    call_command("node", "machines")
    assert "WEIR_MACHINE_COMMAND names no command" in capsys.readouterr().out


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], CommandProvider]:
    """A provider that runs a program with this text in Python; what it writes into ``out`` is beside it."""

    def made(text: str, *, within_s: float = COMMAND_S) -> CommandProvider:
        path = tmp_path / "machine"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\nout = {str(tmp_path / 'out')!r}\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return CommandProvider((str(path), "{action}", "--of={size}", "{node}", "{slots}"), within_s=within_s)

    return made


ORDER = MachineOrder(
    node="d2-1", size="D2; touch /tmp/no $(id) {node}", slots=2, per_hour=0.2, ordered=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_command_gets_its_arguments_without_a_shell_and_none_of_weirs_environment(
    program: Callable[..., CommandProvider], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_SECRET_KEY", "hidden")
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@localhost")
    provider = program("open(out, 'w').write(json.dumps([sys.argv[1:], sorted(os.environ), os.getcwd()]))")
    provider.start(ORDER)
    arguments, environment, folder = json.loads((tmp_path / "out").read_text())
    assert arguments == ["start", f"--of={ORDER.size}", "d2-1", "2"] and folder == "/"
    assert set(environment) <= {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LC_CTYPE"}
    provider.stop(ORDER)
    assert json.loads((tmp_path / "out").read_text())[0][0] == "stop"


def test_what_a_command_says_is_kept_where_it_fails_and_bounded(program: Callable[..., CommandProvider]) -> None:
    provider = program("print('no quota ' + 'x' * 3_000_000); sys.exit(3)")
    with pytest.raises(MachineNotOrdered, match=r"ended with 3\. no quota x+$") as caught:
        provider.start(ORDER)
    assert len(str(caught.value)) < 2500


def test_a_command_that_does_not_end_is_killed_with_what_it_started(
    program: Callable[..., CommandProvider], tmp_path: Path
) -> None:
    provider = program("""
child = os.fork()
if child:
    open(out + '.new', 'w').write(str(child))
    os.rename(out + '.new', out)
time.sleep(600)""", within_s=5.0)
    with pytest.raises(MachineNotOrdered, match="did not end within 5 s"):
        provider.start(ORDER)
    if (tmp_path / "out").exists():
        child = int((tmp_path / "out").read_text())
        for _ in range(600):
            if not os.path.exists(f"/proc/{child}") or " Z " in Path(f"/proc/{child}/stat").read_text():
                return
            time.sleep(0.1)
        pytest.fail("the child lives")


def test_a_command_that_is_not_there_says_so() -> None:
    with pytest.raises(MachineNotOrdered, match="cannot be run"):
        CommandProvider(("/nowhere/machine", "{action}", "{node}")).start(ORDER)


# The webhook ----------------------------------------------------------------------------------------------------------


def test_a_webhook_is_told_each_order(settings) -> None:
    settings.MACHINE_COMMAND = ()
    with receiver() as got:
        settings.MACHINE_WEBHOOK, settings.MACHINE_KEY = got.url, "key"
        provider = machine_provider()
        assert provider is not None
        provider.start(ORDER)
        provider.stop(ORDER)
    [(_, headers, body), (_, _, then)] = got.requests
    assert json.loads(body) == {"action": "start", "node": "d2-1", "size": ORDER.size, "slots": 2}
    assert json.loads(then)["action"] == "stop" and headers["Authorization"] == "Bearer key"


@pytest.mark.parametrize(("status", "words"), [(503, "answered 503"), (302, "redirects are not followed")])
def test_a_webhook_that_refuses_has_not_taken_the_order(status: int, words: str) -> None:
    with receiver() as got:
        got.answer = lambda _: (status, {})
        with pytest.raises(MachineNotOrdered, match=words):
            WebhookProvider(got.url).start(ORDER)


def test_an_address_that_nobody_answers_at_has_not_taken_the_order() -> None:
    with receiver() as got:
        url = got.url
    with pytest.raises(MachineNotOrdered, match="did not answer"):
        WebhookProvider(url).stop(ORDER)
