"""The runner writes a position that moved on without an event, once, and nothing where nothing came."""

from __future__ import annotations

from typing import Any

import pytest

from workers.engine import retried
from workers.engine.connectors.contract import Message, Polled, SourceRefused
from workers.engine.connectors.formats import MessageLayout
from workers.engine.connectors.source_runner import HostedSource, Runner


class Store:
    """Keeps the positions that are written, and with how many events."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, Any]] = []

    def write(self, task: str, decoded: Any, layout: MessageLayout, *, position: Any, **_: Any) -> None:
        self.writes.append((len(decoded.rows), position))


class Reader:
    """Gives what it was told to."""

    def __init__(self, polls: list[Polled]) -> None:
        self._polls = iter(polls)
        self.written_times = 0

    def poll(self, timeout_s: float) -> Polled:
        return next(self._polls)

    def written(self) -> None:
        self.written_times += 1


def test_a_position_that_moved_on_without_an_event_is_written_once() -> None:
    event = Message(b'{"a": 1}')
    polls = [Polled(position={"at": 1}), Polled(position={"at": 1}), Polled(), Polled([event], {"at": 2}),
             Polled(position={"at": 2}), Polled([event]), Polled(position={"at": 2}), Polled(position={"at": 3})]
    store, reader = Store(), Reader(polls)
    runner = Runner(HostedSource("t", MessageLayout("json", {"a": "bigint"}), 10, None, dict), store, token=1)
    assert [runner._take(reader, 0) for _ in polls] == [0, 0, 0, 1, 0, 1, 0, 0]
    assert store.writes == [(0, {"at": 1}), (1, {"at": 2}), (1, None), (0, {"at": 3})]
    assert reader.written_times == 4


class Panic(BaseException):
    """What a library in Rust raises where it panics."""


@pytest.mark.parametrize(("error", "words"), [
    (Panic("it broke"), "Panic: it broke"), (ValueError("it broke"), "ValueError: it broke"),
    (SourceRefused("columns " * 1_000_000), ("columns " * 1_000_000)[:retried.MOST_WORDS])])
def test_whatever_ends_a_source_it_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    """In a line that an agent takes: a longer one is none, of no source of the node."""
    monkeypatch.setattr(retried.backoff, "delay_ms", lambda _: 0)
    runner = Runner(HostedSource("t", MessageLayout(), 0, None, dict), Store(), token=1)
    failures = iter([error, error])

    def serve() -> None:
        for failure in failures:
            raise failure
        runner.stop()

    monkeypatch.setattr(runner, "_serve", serve)
    runner._run()
    report = runner.report()
    assert (report.state, report.restarts, report.error) == (retried.RETRYING, 2, words)
