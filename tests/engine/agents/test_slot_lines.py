"""A slot runs what teams wrote: whatever it says, its agent goes on, and knows what the others say."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.contracts.reports import NODE_REPORTS
from tests.launcher.waiting import wait_until
from workers.engine.agents.blame import Death
from workers.engine.agents.supervising import slot_lines, supervision
from workers.engine.agents.supervising.slot_lines import MOST_BYTES, lines_of, paced, read_line, takes
from workers.engine.agents.supervising.slot_usage import Usage
from workers.engine.agents.supervising.supervision import SlotProcess
from workers.engine.agents.supervising.usage_attribution import UsageAttribution

HONEST = {"state": "running", "batches": 3, "busy_ms": 7}
TOLD = '"f1-0": ' + json.dumps(HONEST)
DIGITS = "9" * 5_000


def beside(name: str, value: str) -> str:
    """An honest query, and another of which this is said."""
    return '{"state": "running", "fragments": {' + TOLD + f', "f2-0": {{"{name}": {value}}}}}}}'


SAID = {  # what a slot says: whether the honest query in it is heard
    "no JSON": ("{", False), "a list": ("[]", False), "a number": ("1", False), "a text": ('"pulse"', False),
    "nothing": ("null", False), "no UTF-8": ("\ud800", False), "deep": ('{"fragments":' * 5_000, False),
    "a pulse that is none": ('{"pulse": "soon"}', False), "a pulse of many digits": (f'{{"pulse": {DIGITS}}}', False),
    "a state that is none": ('{"state": 5}', False), "queries that are none": ('{"fragments": 5}', False),
    "a state of a query": (beside("state", "5"), True), "a query that is none": (
        '{"fragments": {' + TOLD + ', "f2-0": 5}}', True),
    "a text for a count": (beside("busy_ms", '"x"'), True), "many digits": (beside("busy_ms", "9" * 400), True),
    "more than is stored": (beside("batches", "9" * 20), True), "no number": (beside("rows_per_s", "NaN"), True),
    "infinite": (beside("rows_per_s", "1e999"), True), "outlets": (beside("outlets", '{"x": 1}'), True),
    "routes": (beside("routes", "[]"), True), "an error that is none": (beside("error", "{}"), True),
    "a word that is no state": (beside("state", '"fine"'), True),
    "a state of pages": (beside("state", '"silent"'), True),
    "heap": ('{"fragments": {' + TOLD + '}, "heap_mb": 1e999}', True),
    "connectors": (
        '{"fragments": {' + TOLD + '}, "connectors": {"t": 1, "u": {"state": {}}}, "sinks": {"t": []}}', True),
    "events": ('{"fragments": {' + TOLD + '}, "events": [{}, {"kind": 1, "at_ms": 1}, {"kind": "x"}, '
               '{"kind": "slot_died", "at_ms": 1, "node": "n2"}, {"kind": "x", "at_ms": 1, "fragment": [1]}, '
               '{"kind": "x", "at_ms": 1, "fragment": "f9-0"}, {"kind": "x", "at_ms": 1, "self": 1}, '
               '{"kind": "handed_over", "at_ms": 1, "fragment": "f1-0", "gap_ms": 5}, '
               '{"kind": "handed_over", "at_ms": 1, "fragment": "f1-0", "gap_ms": "x", "from_": []}, '
               '{"kind": "handed_over", "at_ms": 1, "fragment": "f1-0", "gap_ms": 5, "from_": [5]}, '
               '{"kind": "joined_late", "at_ms": 1, "fragment": "f1-0", "kept_since_ms": 1e300}, '
               '{"kind": "fragment_failed", "at_ms": 9e18, "fragment": "f1-0", "error": "x"}, '
               '{"kind": "fragment_failed", "at_ms": 9000000000000000000, "fragment": "f1-0", "error": "x"}]}', True),
    "an answer nobody asked for": ('{"answer": {"x": []}}', False), "a secret": ('{"open": [], "team": {}}', False)}


@pytest.mark.parametrize("name", SAID)
def test_an_agent_goes_on_whatever_a_slot_says(name: str, tmp_path: Path) -> None:
    line, is_heard = SAID[name]
    events: list[dict[str, Any]] = []
    slot = SlotProcess(
        "0", [], env={}, on_news=lambda: None, on_event=lambda **facts: events.append(facts),
        works_for=lambda query: query != "f9-0")
    slot._process = process = SimpleNamespace(
        pid=os.getpid(), stdin=(tmp_path / "stdin").open("wb"), poll=lambda: None,
        stdout=io.BytesIO(line.encode(errors="surrogatepass") + b"\n"))
    supervision._Driver._read(SimpleNamespace(process=process, owner=slot))
    assert isinstance(slot.state, str) and slot.silent_ms(1) >= 0 and not slot.check(1)
    fragments = slot.report.get("fragments", {})
    Death.of(slot.report, at_ms=1, reason="")
    UsageAttribution(slot_memory_mb=100, base_path=tmp_path / "base_mb").take(
        Usage(cpu=1, memory_mb=1, memory_trend_mb_per_h=None, since_ms=1, cpu_ms=1, memory_mb_s=1, compiling_ms=0,
              python_mb=0), slot.report, now_ms=1)
    report = NODE_REPORTS.loads(json.dumps({"node": "n1", "slots": {"0": {"fragments": fragments}}}))
    assert ("f1-0" in report.slots["0"].fragments) is is_heard
    assert {query.state for query in report.slots["0"].fragments.values()} <= {"running", "starting"}
    assert not is_heard or report.slots["0"].fragments["f1-0"].busy_ms == HONEST["busy_ms"]
    assert not [event for event in events if event.get("node") or event.get("fragment")]


def test_a_slot_tells_of_what_its_node_works_for_alone() -> None:
    """Of another's query it would say that it has left, or that it fails."""
    events: list[dict[str, Any]] = []
    slot = SlotProcess(
        "0", [], env={}, on_news=lambda: None, on_event=lambda **facts: events.append(facts),
        works_for=lambda query: query == "f1-0")
    slot._process = process = SimpleNamespace(pid=1)
    slot.hear(process, json.dumps({
        "state": "running", "fragments": {"f1-0": HONEST, "f9-0": {"state": "left"}},
        "events": [{"kind": "fragment_failed", "at_ms": 1, "fragment": name, "error": "", "retry_at_ms": None}
                   for name in ("f1-0", "f9-0")] + [{"kind": "slot_died", "at_ms": 1, "slot": "n2/0"}]}).encode())
    assert set(slot.report["fragments"]) == {"f1-0"} == {event["fragment"] for event in events}


def test_events_that_are_told_can_be_stored_with_those_of_others() -> None:
    event = {"kind": "handed_over", "at_ms": 1, "fragment": "f1-0", "gap_ms": 5, "from_": []}
    events = [event, event | {"gap_ms": 2**31}, event | {"task": "t" * 201}, event | {"from_": ["f" * 201]},
              event | {"more": ["x"] * 20_000}, event | {"error": "x" * 20_000}]
    assert read_line(json.dumps({"events": events}).encode())["events"] == [event, event | {"error": "x" * 10_000}]


def test_an_answer_that_nobody_asked_for_is_not_kept() -> None:
    slot = SlotProcess("0", [], env={}, on_news=lambda: None, on_event=lambda **_: None)
    slot._process = process = SimpleNamespace(pid=1)
    for number in range(3):
        slot.hear(process, json.dumps({"answer": number}).encode())
    assert slot._answers.empty()


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_has_a_length(ends: bool) -> None:
    class Endless(io.BytesIO):
        """Tells how much was held at once."""

        most = 0

        def readline(self, size: int | None = -1) -> bytes:
            line = super().readline(size)
            Endless.most = max(Endless.most, len(line))
            return line

    stream = Endless(b"a\n" + b"x" * (2 * MOST_BYTES + 5) + (b"\nb\n" if ends else b""))
    assert list(lines_of(stream)) == ([b"a\n", b"", b"b\n"] if ends else [b"a\n", b""])
    assert Endless.most <= MOST_BYTES


@pytest.mark.parametrize(("each_bytes", "every_s", "waited_s"), [(8 << 20, 0.0, 12.0), (1 << 19, 1.0, 0.0)])
def test_who_says_much_is_read_slowly(each_bytes: int, every_s: float, waited_s: float) -> None:
    """Five of the longest lines without a pause: 16 MiB are read at once, and the rest at 2 MiB/s."""
    now_s, waits = [0.0], []

    def spoken_lines() -> Iterator[bytes]:
        for _ in range(5):
            now_s[0] += every_s
            yield b"x" * each_bytes

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        now_s[0] += wait_s

    assert len(list(paced(spoken_lines(), monotonic_s=lambda: now_s[0], sleep=sleep))) == 5
    assert sum(waits) == pytest.approx(waited_s)


@pytest.fixture
def pipe() -> Iterator[tuple[int, Any]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as stream:
        yield reading, stream


def test_what_is_not_read_is_not_waited_for(pipe: tuple[int, Any]) -> None:
    reading, stream = pipe
    assert takes(stream, b"poke\n") and os.read(reading, 10) == b"poke\n"
    assert not takes(stream, b"x" * (1 << 20), within_s=0.01)


def test_a_slot_that_takes_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its agent would wait for it with all the others."""
    monkeypatch.setattr(supervision, "takes", partial(slot_lines.takes, within_s=0.05))
    slot = SlotProcess(
        "0", [sys.executable, "-c", "import time; time.sleep(600)"], env={}, on_news=lambda: None,
        on_event=lambda **_: None)
    slot.check(1_000)
    try:
        slot._say(b"x" * (1 << 20))
        wait_until(lambda: slot._process.poll() is not None)
        assert slot.check(2_000) and slot.restarts == 1
    finally:
        slot.end(deadline=0)
