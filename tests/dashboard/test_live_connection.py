"""One live connection and its builder, without a server: what is sent to whom, and to whom nothing any more."""

from __future__ import annotations

import asyncio
import json

import pytest


def test_a_client_that_does_not_read_gets_the_newest_and_nothing_queues():
    """Deltas that a client was not ready for are merged into the next one."""
    from dashboard.live.consumer import Connection, WatchedTopic
    from dashboard.live.hub import Builder
    from dashboard.live.state_versions import Version

    sent, gate = [], asyncio.Event()

    async def run() -> None:
        async def send(message):
            sent.append(json.loads(message["text"]))
            await gate.wait()

        class HubOfNothing:
            def watch(self, *_):
                return builder

        builder = Builder(topic="estate", viewer=None, version=Version(1, {"n": 1}), status="live")
        connection = Connection("", None, HubOfNothing(), send)
        connection._watched["estate"] = watched = WatchedTopic(builder, seq=1, state={"n": 1})
        builder.version = Version(2, {"n": 2})
        writing = asyncio.create_task(connection._bring_up_to_date("estate", watched))
        await asyncio.sleep(0)
        for n in range(3, 1000):
            builder.version = Version(n, {"n": n})
        gate.set()
        await writing
        await connection._bring_up_to_date("estate", watched)

    asyncio.run(run())
    assert [(message["from"], message["seq"]) for message in sent] == [(1, 2), (2, 999)]


def builder_at(seq: int, state: dict):
    from dashboard.live.hub import Builder
    from dashboard.live.state_versions import Version

    return Builder(topic="estate", viewer=None, version=Version(seq, state), status="live")


@pytest.mark.parametrize("takes_the_end", [True, False])
def test_who_does_not_read_is_cut_off(monkeypatch, takes_the_end: bool):
    from dashboard.live.consumer import CLOSE_TOO_SLOW, Connection, WatchedTopic

    monkeypatch.setattr("dashboard.live.consumer.SEND_WITHIN_S", 0.05)
    monkeypatch.setattr("dashboard.live.consumer.CLOSE_WITHIN_S", 0.05)
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)
        if message["type"] == "websocket.send" or not takes_the_end:
            await asyncio.Event().wait()

    async def run() -> None:
        connection = Connection("", None, None, send)
        connection._watched["estate"] = WatchedTopic(builder_at(2, {"n": 2}), seq=1, state={"n": 1})
        connection._wake.set()
        await asyncio.wait_for(connection._write(), 60)

    asyncio.run(run())
    assert [message["type"] for message in sent] == ["websocket.send", "websocket.close"]
    assert sent[-1]["code"] == CLOSE_TOO_SLOW


def test_who_takes_its_time_gets_nothing_that_came_after_its_access_ended():
    """Each message may take half a minute, of each topic: whoever is put out meanwhile gets none of those that wait."""
    from dashboard.live.consumer import CLOSE_NOT_LOGGED_IN, Connection, WatchedTopic
    from dashboard.teams.permissions import NOBODY, Viewer

    sent: list[dict] = []

    class HubOfOneWhoIsOut:
        class sessions:
            @staticmethod
            async def viewer(_):
                return NOBODY

    async def run() -> None:
        async def send(message: dict) -> None:
            sent.append(message)
            if len(sent) == 1:
                connection._ask_for_check()
                for watched in connection._watched.values():
                    watched.builder.version = builder_at(3, {"n": "of later"}).version

        connection = Connection("", Viewer(1, {}), HubOfOneWhoIsOut(), send)
        for topic in ("estate", "proposal:1", "proposal:2"):
            connection._watched[topic] = WatchedTopic(builder_at(2, {"n": 2}), seq=1, state={"n": 1})
        connection._wake.set()
        await asyncio.wait_for(connection._write(), 60)

    asyncio.run(run())
    assert [message.get("code") for message in sent] == [None, CLOSE_NOT_LOGGED_IN]
    assert "of later" not in sent[0]["text"]


def test_a_delta_is_made_once_for_all_who_are_as_far(monkeypatch):
    made: list[tuple] = []
    monkeypatch.setattr(
        "dashboard.live.hub.difference", lambda before, after: made.append((before, after)) or {"n": after["n"]})
    builder = builder_at(3, {"n": 3})
    texts = [builder.delta_from(2, {"n": 2}) for _ in range(1000)] + [builder.delta_from(1, {"n": 1})]
    assert len(made) == 2 and len(set(texts)) == 2
    builder.version = builder_at(4, {"n": 4}).version
    assert json.loads(builder.delta_from(2, {"n": 2}))["patch"] == {"n": 4}, "what leads to an older version is over"


def test_a_patch_that_is_at_hand_is_not_made_again(monkeypatch):
    from dashboard.live import hub
    from dashboard.live.state_versions import Patch, Version

    made = []
    monkeypatch.setattr(hub, "difference", lambda before, after: made.append(1) or {"n": after["n"]})
    builder = builder_at(7, {"n": 7})
    builder.version = Version(7, {"n": 7}, Patch(before=6, seq=7, patch={"n": 7}))
    assert builder.delta_from(6, {"n": 6}) is builder.delta_from(6, {"n": 6})
    assert json.loads(builder.delta_from(6, {"n": 6}))["patch"] == {"n": 7}
    assert not made
    assert json.loads(builder.delta_from(4, {"n": 4}))["from"] == 4 and made == [1]
