"""Live connections against a real server: snapshot, deltas, gaps, permissions, origin."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
import redis
import uvicorn
import websockets
from django.conf import settings as django_settings
from django.test import Client

from dashboard.teams.models import Membership
from dashboard.teams.services import deactivate, remove_member
from tests.cases import each
from tests.dashboard.building import World, document, planned, running
from tests.dashboard.test_live_protocol import applied
from workers.launcher.up_services import LARGEST_FRAME, UpOptions, web

pytestmark = [pytest.mark.broker, pytest.mark.django_db(transaction=True)]


class Server:
    """The site's ASGI application behind uvicorn, in a thread of this process."""

    def __init__(self, port: int) -> None:
        from dashboard.config.asgi import application

        self.port = port
        config = uvicorn.Config(
            application, port=port, log_level="error", lifespan="off", ws_max_size=LARGEST_FRAME,
            http="dashboard.config.http_server:SiteProtocol", ws="dashboard.live.websocket_server:LiveProtocol")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        deadline = time.monotonic() + 120
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def connections(self) -> int:
        """How many it has, of both protocols."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def server(broker: redis.Redis, broker_url: str, settings, free_port: int) -> Iterator[Server]:
    settings.REDIS_URL = broker_url
    settings.CHANNEL_LAYERS = {"default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [broker_url]}}}
    settings.ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
    server = Server(free_port)
    server.start()
    yield server
    server.stop()


def client_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


@asynccontextmanager
async def connected(server: Server, client: Client | None, *, origin: str | None = None):
    headers = {}
    if client is not None:
        name = django_settings.SESSION_COOKIE_NAME
        headers["Cookie"] = f"{name}={client.cookies[name].value}"
    url = f"ws://127.0.0.1:{server.port}/ws/live"
    async with websockets.connect(
        url, additional_headers=headers, origin=origin or f"http://127.0.0.1:{server.port}", open_timeout=120,
    ) as socket:
        yield socket


def snapshot(client: Client, topic: str) -> dict:
    response = client.get("/live/snapshot", {"topic": topic})
    assert response.status_code == 200, response.content
    return response.json()


async def subscribe(socket, topic: str, seq: int) -> None:
    await socket.send(json.dumps({"type": "subscribe", "topic": topic, "seq": seq}))


async def received(socket) -> dict:
    return json.loads(await asyncio.wait_for(socket.recv(), 60.0))


def follow(server: Server, client: Client, topic: str, change, wanted) -> dict:
    """Snapshot, subscribe, change, then apply deltas until the state is as wanted."""
    first = snapshot(client, topic)

    async def run() -> dict:
        seq, state = first["seq"], first["state"]
        async with connected(server, client) as socket:
            await subscribe(socket, topic, seq)
            await asyncio.to_thread(change)
            while not wanted(state):
                message = await received(socket)
                assert (message["type"], message["from"]) == ("delta", seq), message
                seq, state = message["seq"], applied(state, message["patch"])
        return state

    return asyncio.run(run())


def test_deltas_lead_from_the_snapshot_to_what_is_now(committed_world: World, server: Server):
    world, client = committed_world, client_of(committed_world.vera)
    state = follow(
        server, client, "estate",
        lambda: running(world.carla, world.city, document("traffic"), world.ana),
        lambda state: state["counts"]["running_tasks"] == 4)
    assert [dataflow["name"] for dataflow in state["dataflows"].values()] == ["traffic"]


def test_a_proposal_moves_on_before_the_reviewers_eyes(committed_world: World, server: Server):
    from tests.dashboard.building import approved, enacted

    world = committed_world
    proposal = planned(world.carla, world.city, document("traffic"))
    follow(
        server, client_of(world.ana), f"proposal:{proposal.pk}",
        lambda: enacted(approved(proposal, world.ana)), lambda state: state["status"] == "done")


def test_a_number_that_is_not_known_is_told_to_fetch_anew(committed_world: World, server: Server):
    client = client_of(committed_world.vera)

    async def run() -> dict:
        async with connected(server, client) as socket:
            await subscribe(socket, "estate", 5)
            return await received(socket)

    assert asyncio.run(run()) == {"type": "refetch", "topic": "estate"}


def test_what_the_viewer_may_not_know_of_is_gone(committed_world: World, server: Server):
    world = committed_world
    secret = planned(world.carla, world.city, document("hush", visibility="private"))
    client = client_of(world.ben)

    async def run() -> list[dict]:
        async with connected(server, client) as socket:
            answers = []
            for topic in (f"dataflow:{secret.dataflow_id}", f"proposal:{secret.pk}", "nonsense", "dataflow:\0"):
                await subscribe(socket, topic, 0)
                answers.append(await received(socket))
            return answers

    assert [answer["type"] for answer in asyncio.run(run())] == ["gone"] * 4


def test_whoever_leaves_a_team_no_longer_follows_its_private_dataflow(
    committed_world: World, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dashboard.live.hub.CHECK_EVERY_S", 600)  # the notice is what tells
    world = committed_world
    Membership.objects.create(user=world.outsider, team=world.city, role=1)
    secret = planned(world.carla, world.city, document("hush", visibility="private")).dataflow
    client, topic = client_of(world.outsider), f"dataflow:{secret.pk}"
    first = snapshot(client, topic)

    async def run() -> dict:
        async with connected(server, client) as socket:
            await subscribe(socket, topic, first["seq"])
            await asyncio.sleep(1.0)  # subscribed, and the notice's listener is up
            await asyncio.to_thread(remove_member, user=world.outsider, team=world.city, actor=world.dev)
            return await received(socket)

    assert asyncio.run(run()) == {"type": "gone", "topic": topic}
    assert client.get("/live/snapshot", {"topic": topic}).status_code == 404


def test_a_session_that_ends_closes_the_connection(committed_world: World, server: Server, monkeypatch):
    monkeypatch.setattr("dashboard.live.hub.CHECK_EVERY_S", 0.3)
    client = client_of(committed_world.vera)

    async def run() -> int:
        async with connected(server, client) as socket:
            await asyncio.to_thread(client.logout)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await received(socket)
            return closed.value.rcvd.code

    assert asyncio.run(run()) == 4401


def test_who_is_deactivated_loses_the_connection_at_once(committed_world: World, server: Server, monkeypatch):
    monkeypatch.setattr("dashboard.live.hub.CHECK_EVERY_S", 600.0)  # by the notice alone
    client = client_of(committed_world.vera)

    async def run() -> int:
        async with connected(server, client) as socket:
            await asyncio.sleep(1.0)  # the notice's listener is up
            await asyncio.to_thread(deactivate, actor=committed_world.root, username="vera")
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await received(socket)
            return closed.value.rcvd.code

    assert asyncio.run(run()) == 4401


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[x"])
def test_another_sites_page_cannot_connect(committed_world: World, server: Server, origin: str):
    async def run() -> None:
        async with connected(server, client_of_vera, origin=origin):
            pass

    client_of_vera = client_of(committed_world.vera)
    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(run())
    assert refused.value.response.status_code == 403


def test_nobody_is_refused(committed_world: World, server: Server):
    async def run() -> None:
        async with connected(server, None):
            pass

    with pytest.raises(websockets.InvalidStatus):
        asyncio.run(run())
    assert Client().get("/live/snapshot", {"topic": "estate"}).status_code == 401


@each("text", ["", "{", "[]", "null", '{"type": "subscribe"}', '{"type": 1, "topic": []}',
                                  '{"type": "subscribe", "topic": "estate", "seq": "x"}', "x" * 10_000,
                                  '{"type":"subscribe","topic":"estate","seq":1e999}', "[" * 4000], stays=True)
def test_a_message_that_is_none_gets_an_error_and_the_connection_stays(
    committed_world: World, server: Server, text: str
):
    client = client_of(committed_world.vera)
    first = snapshot(client, "estate")

    async def run() -> str:
        async with connected(server, client) as socket:
            await socket.send(text)
            error = await received(socket)
            await subscribe(socket, "proposal:x", first["seq"])
            assert (await received(socket))["type"] == "gone"
            return error["type"]

    assert asyncio.run(run()) == "error"


def test_topics_on_one_connection_are_limited(committed_world: World, server: Server):
    client = client_of(committed_world.vera)

    async def run() -> list[str]:
        async with connected(server, client) as socket:
            for n in range(9):
                await subscribe(socket, f"proposal:{UUID(int=n)}", 0)
            return [(await received(socket))["type"] for _ in range(9)]

    assert sorted(asyncio.run(run())) == ["error"] + ["gone"] * 8


def test_with_the_broker_away_the_page_has_what_the_database_knows(committed_world: World, settings):
    running(committed_world.carla, committed_world.city, document("traffic"), committed_world.ana)
    page = snapshot(client_of(committed_world.vera), "estate")
    assert (page["seq"], page["state"]["live"]["available"]) == (0, False)
    assert page["state"]["counts"]["running_tasks"] == 4


def test_with_the_broker_away_a_connection_says_so(committed_world: World, server: Server, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    client = client_of(committed_world.vera)

    async def run() -> dict:
        async with connected(server, client) as socket:
            await subscribe(socket, "estate", 0)
            return await received(socket)

    assert asyncio.run(run()) == {"type": "away", "topic": "estate"}


def test_snapshots_of_one_moment_are_built_once_and_permission_is_asked_each_time(
    committed_world: World, server: Server, monkeypatch: pytest.MonkeyPatch
):
    import dashboard.live.views as views

    world, built = committed_world, []
    record = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    build = views.build
    monkeypatch.setattr(views, "build", lambda viewer, topic: built.append(topic) or build(viewer, topic))
    monkeypatch.setattr("dashboard.live.state_versions.INTERVAL_S", 60.0)
    topic = f"dataflow:{record.pk}"
    first = snapshot(client_of(world.vera), topic)
    assert snapshot(client_of(world.ana), topic) == first and built == [topic]  # of one scope
    assert client_of(world.ben).get("/live/snapshot", {"topic": topic}).status_code == 404
    assert client_of(world.ben).get("/live/snapshot", {"topic": "nonsense"}).status_code == 404


@each("topic", ["nonsense", "dataflow:x", "estate:x", "dataflow:\ud800", "sweep:", "x" * 3000], stays=True)
def test_what_is_no_topic_is_never_built(committed_world: World, server: Server, monkeypatch, topic: str):
    built: list[str] = []
    monkeypatch.setattr("dashboard.live.hub.Builder._refresh", lambda self: built.append(self.topic))
    client = client_of(committed_world.vera)

    async def run() -> dict:
        async with connected(server, client) as socket:
            await subscribe(socket, topic, 0)
            return await received(socket)

    assert asyncio.run(run()) == {"type": "gone", "topic": topic} and built == []


def test_connections_of_one_user_are_limited_and_of_others_not(committed_world: World, server: Server, settings):
    settings.LIVE_CONNECTIONS = 2
    vera, ben = client_of(committed_world.vera), client_of(committed_world.ben)

    async def run() -> list[int | None]:
        async with connected(server, vera) as one, connected(server, vera) as two:
            for socket in (one, two):  # an answer: the connection is counted
                await subscribe(socket, "nonsense", 0)
                await received(socket)
            async with connected(server, vera) as three:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await received(three)
            async with connected(server, ben) as other:
                await subscribe(other, "nonsense", 0)
                await received(other)
        async with connected(server, vera) as again:
            await subscribe(again, "nonsense", 0)
            await received(again)
        return closed.value.rcvd.code

    assert asyncio.run(run()) == 4429


def test_a_page_of_another_port_cannot_connect(committed_world: World, server: Server):
    client = client_of(committed_world.vera)

    async def run(port: int) -> None:
        async with connected(server, client, origin=f"http://127.0.0.1:{port}"):
            pass

    asyncio.run(run(server.port))
    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(run(server.port + 1))
    assert refused.value.response.status_code == 403


def test_a_frame_that_no_message_needs_is_not_read(committed_world: World, server: Server):
    client = client_of(committed_world.vera)

    async def run() -> int:
        async with connected(server, client) as socket:
            await socket.send("x" * (LARGEST_FRAME + 1))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await received(socket)
            return closed.value.rcvd.code

    assert asyncio.run(run()) == 1009
    argv = web(UpOptions("127.0.0.1", 1, 1, "n1", Path())).argv
    assert str(LARGEST_FRAME) in argv and argv[argv.index("--ws-per-message-deflate") + 1] == "false"
