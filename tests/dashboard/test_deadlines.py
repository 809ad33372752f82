"""Receivers that answer a byte at a time: whatever asks them ends at its deadline, and holds nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from smtplib import SMTPServerDisconnected
from typing import Any
from urllib.parse import quote

import pytest
import redis
from django.core.mail import EmailMessage, get_connection
from django.test import override_settings
from requests import RequestException

from dashboard import jobs, queue
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import submit_dataflow
from dashboard.config.environment import ROOT
from dashboard.outbox import sending, services
from dashboard.outbox.delivery_threads import DeliveryThreads
from dashboard.outbox.models import Delivery
from dashboard.outbox.webhook_posts import NotDelivered, post_json
from dashboard.tasks.app import app
from dashboard.teams.provider_session import provider_session
from tests.dashboard.alerting import NOW_S, receiver
from tests.dashboard.building import World, document
from workers.launcher.up_services import worker
from workers.library import outbound
from workers.library.download import fetch
from workers.library.http import NotPosted, post_lines
from workers.library.outbound import Line, TooLate, WrongAddress
from workers.library.outside import NotAnswered

# What comes before the bytes that never end: of an answer's first line, its headers, its body, a body without a length.
BEGINNINGS = {
    "nothing": b"", "status": b"HTTP/1.1 20", "headers": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "endless": b"HTTP/1.1 200 OK\r\n\r\n"}


class Trickling:
    """A server that takes whatever comes, and answers with a beginning and then a byte at a time, without end."""

    def __init__(self, beginning: bytes) -> None:
        self.beginning, self.asked = beginning, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.asked += 1
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            client.sendall(self.beginning)
            while not self._over.wait(0.02):
                client.sendall(b"2")

    def close(self) -> None:
        self._over.set()
        self._listening.close()


@pytest.fixture(params=BEGINNINGS, ids=list(BEGINNINGS))
def slow(request: Any, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Trickling]:
    server = Trickling(BEGINNINGS[request.param])
    monkeypatch.setenv("WEIR_HTTP_HOSTS", f"127.0.0.1:{server.port}")
    settings.WEBHOOK_HOSTS, settings.DELIVERY_S = [f"127.0.0.1:{server.port}"], 0.3
    yield server
    server.close()


def _mail_to(port: int) -> None:
    connection = get_connection(
        "dashboard.outbox.smtp.TimedBackend", host="127.0.0.1", port=port, timeout=60, username="", password="")
    EmailMessage("S", "T", "a@example.org", ["b@example.org"], connection=connection).send()


def _provider(server: Trickling) -> None:
    with override_settings(OIDC_ISSUER=f"http://127.0.0.1:{server.port}"):
        provider_session().get(f"http://127.0.0.1:{server.port}/x")


WHO_ASKS: dict[str, tuple[Callable[[Trickling], Any], type[Exception] | tuple[type[Exception], ...]]] = {
    "a webhook": (lambda slow: post_json(f"http://127.0.0.1:{slow.port}/x", b"{}", {}), NotDelivered),
    "lineage": (lambda slow: post_json(f"http://127.0.0.1:{slow.port}/x", b"{}", {}, is_operators=True), NotDelivered),
    "http_post": (lambda slow: post_lines(
        [{"a": 1}], url=f"http://127.0.0.1:{slow.port}/x", token=None, patience_s=0.3), NotPosted),
    "http_get": (lambda slow: fetch(
        f"http://127.0.0.1:{slow.port}/x", headers={}, most_bytes=1_000, patience_s=0.3), NotAnswered),
    "the provider of single sign-on": (_provider, RequestException),
    "mail": (lambda slow: _mail_to(slow.port), OSError)}


@pytest.mark.parametrize("who", WHO_ASKS)
def test_a_receiver_that_trickles_is_ended_at_the_deadline_and_asked_once(slow: Trickling, who: str) -> None:
    ask, error = WHO_ASKS[who]
    with pytest.raises(error):
        ask(slow)
    assert slow.asked == 1


def test_a_mail_server_whose_reply_has_no_end_fills_no_memory(settings: Any) -> None:
    """All lines of a reply were kept until the deadline: gigabytes, in the process that plans."""
    settings.DELIVERY_S = 60
    taken = [0]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def flood() -> None:
            with suppress(OSError), listening.accept()[0] as client:
                while taken[0] < 1 << 28:
                    taken[0] += client.send(b"220-" + b"x" * 8_000 + b"\r\n")

        thread = threading.Thread(target=flood)
        thread.start()
        with pytest.raises(SMTPServerDisconnected, match="over 1,048,576 bytes"):
            _mail_to(listening.getsockname()[1])
        thread.join()
    assert taken[0] < 1 << 25  # what lies in the sockets' buffers, too


def test_what_is_read_of_an_answer_is_bounded() -> None:
    server = Trickling(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000)
    line = Line("http", "127.0.0.1", server.port)
    answer = line.ask("GET", "/", headers={}, deadline_s=60, most_bytes=1_000)
    assert (answer.status, len(answer.body)) == (200, 1_001)
    line.close()
    server.close()


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(60) and [])
    with pytest.raises(TooLate):
        Line("http", "slow.example.org", 80).ask("GET", "/", headers={}, deadline_s=0.2, most_bytes=1)
    over.set()


@pytest.mark.parametrize(("addresses", "private", "is_asked"), [
    (["10.1.2.3"], "", False), (["10.1.2.3"], "1", True), (["127.0.0.1"], "1", False),
    (["169.254.169.254"], "1", False), (["192.168.0.1"], "", False), (["fd00::1"], "", False),
    (["100.64.0.1"], "", False), (["93.184.216.34"], "", True),
    (["93.184.216.34", "10.0.0.1"], "", False), (["::ffff:10.0.0.1"], "", False)])
def test_a_name_is_resolved_once_and_leads_where_the_operator_lets_it(
    addresses: list[str], private: str, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved, connected = [], []

    def resolve(*_: object, **__: object) -> list[tuple]:
        resolved.append(1)
        return [(2, 1, 6, "", (address, 80)) for address in addresses]

    def connect(address: tuple[str, int], **_: object) -> None:
        connected.append(address[0])
        raise OSError

    monkeypatch.setenv("WEIR_PRIVATE_ADDRESSES", private)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(outbound.socket, "create_connection", connect)
    with pytest.raises(Exception) as raised:
        Line("http", "hooks.example.org", 80).ask("GET", "/", headers={}, deadline_s=60, most_bytes=1)
    assert (len(resolved), connected) == (1, addresses[:1] if is_asked else [])
    assert isinstance(raised.value, WrongAddress) is not is_asked


@pytest.mark.django_db(transaction=True)
def test_to_a_host_goes_one_delivery_at_a_time_and_others_go_on(
    committed_world: World, settings: Any, tmp_path: Any
) -> None:
    world, slow = committed_world, Trickling(b"")
    settings.DATA_DIR, settings.DELIVERY_S = tmp_path, 1.0
    with receiver() as well:
        settings.WEBHOOK_HOSTS = [f"127.0.0.1:{slow.port}", well.host]
        for number in range(6):
            _hook(world, f"http://127.0.0.1:{slow.port}/{number}")
        waits = threading.Thread(target=_send)
        waits.start()
        while not slow.asked:
            assert waits.is_alive()
        _hook(world, well.url)
        assert sending.send_due(now=lambda: NOW_S) == 1 and slow.asked == 1, "the slow one is somebody else's now"
        assert [path for path, _, _ in well.requests] == ["/hook"]
        slow.close()
        waits.join()
    assert {delivery.state for delivery in Delivery.objects.exclude(sent_at=None)} == {"sent"}


def _hook(world: World, url: str) -> None:
    endpoint, _ = services.add_endpoint(actor=world.carla, name="h", url=url, format="weir")
    services.try_endpoint(actor=world.carla, endpoint_id=endpoint.pk, payload={"title": "t"})


def _send() -> None:
    from django.db import connection

    try:
        sending.send_due(now=lambda: NOW_S)
    finally:
        connection.close()


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_six_slow_webhooks_hold_up_no_plan(
    committed_world: World, broker: redis.Redis, broker_url: str, settings: Any, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As `./weir up` runs it: the worker, which plans while six receivers hold threads of it."""
    world, slow = committed_world, [Trickling(b"HTTP/1.1 200 OK\r\nX: ") for _ in range(6)]
    hosts = [f"127.0.0.1:{server.port}" for server in slow]
    settings.DATA_DIR, settings.REDIS_URL, settings.WEBHOOK_HOSTS = tmp_path, broker_url, hosts
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    for host in hosts:
        _hook(world, f"http://{host}/x")
    monkeypatch.undo()  # send jobs in earnest
    monkeypatch.setattr(app.conf, "broker_url", broker_url)
    log, environment = tmp_path / "log", _environment(tmp_path, broker_url, hosts)
    with log.open("w") as output:
        started = [subprocess.Popen(
            worker(url=broker_url).argv, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)]
    try:
        _await(lambda: app.send_task(queue.DELIVER) and sum(server.asked for server in slow) >= 2, started, log)
        proposal = submit_dataflow(actor=world.carla, team=world.city, text=document("traffic"))
        jobs.prepare_proposal(str(proposal.pk))
        _await(lambda: Proposal.objects.get(pk=proposal.pk).status == "pending", started, log)
        assert not Delivery.objects.filter(state="sent").exists()
    finally:
        for server in slow:
            server.close()
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=120)


def _environment(data_dir: Path, broker_url: str, hosts: list[str]) -> dict[str, str]:
    from django.db import connection

    database = connection.settings_dict
    environment = os.environ | {"REDIS_URL": broker_url, "WEIR_DATA_DIR": str(data_dir), "WEIR_DELIVERY_S": "40",
                                "WEIR_WEBHOOK_HOSTS": ",".join(hosts)}
    if connection.vendor == "sqlite":
        (data_dir / "weir.sqlite3").symlink_to(database["NAME"])
        return environment
    user, host = f"{database['USER']}:{database['PASSWORD']}", quote(database["HOST"], safe="")
    return environment | {"DATABASE_URL": f"postgres://{user}@{host}:{database['PORT']}/{database['NAME']}"}


def _await(holds: Callable[[], object], started: list[subprocess.Popen], log: Path) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert all(process.poll() is None for process in started), log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)


def test_threads_that_deliver_are_so_many_and_one_that_fails_leaves_its_place() -> None:
    held, begun, fails = threading.Event(), threading.Semaphore(0), threading.Event()

    def send() -> None:
        begun.release()
        held.wait()
        if fails.is_set():
            raise OSError("gone")

    threads = DeliveryThreads(send, most=2)
    for outcome in (fails.set, fails.clear, fails.clear):  # after each of them all places are free again
        held.clear()
        outcome()
        assert threads.start() and threads.start()
        assert begun.acquire() and begun.acquire()
        assert not threads.start(), "all are held"
        threads.stop(within_s=0.0)
        held.set()
        threads.stop(within_s=60.0)
