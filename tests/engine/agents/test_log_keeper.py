"""Lines of logs as an agent keeps them: whose each is, what is found, what is left out, and no secret."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.logs import ERROR, INFO, LEVELS, LOG_ANSWERS, LOG_ORDERS, WARNING, LogOrder
from workers.engine import sealed_secrets
from workers.engine.agents.supervising import log_keeper
from workers.engine.agents.supervising.log_keeper import BYTES_PER_S, KEPT_LINES, MOST_KEPT, LogAnswers, LogKeeper
from workers.engine.agents.supervising.log_lines import LONGEST, line_of
from workers.engine.log_store import LOGS
from workers.engine.node_orders import LIVES_S

FOLDER = "/srv/of-weir"


class Kept(LogKeeper):
    """A keeper whose echo can be read."""

    def __init__(self) -> None:
        self.echoed: list[str] = []
        super().__init__(data_folder=FOLDER, echo=self.echoed.append)

    def say(self, process: str, event: str, **facts: Any) -> None:
        self.take(process, (json.dumps({"event": event, **facts}) + "\n").encode())

    def texts(self, **wanted: Any) -> list[str]:
        return [line.text for line in self.read(LogOrder(id="o", node="n1", **wanted)).lines]


def test_a_line_of_weirs_own_says_whose_it_is():
    entry = {"event": "fragment failed", "fragment": "f1-0", "error": "no", "level": "warning", "node": "n1",
            "slot": "0", "timestamp": "2026-05-01T12:00:00Z"}
    line = line_of("0", json.dumps(entry), now_ms=2 * 10**12)
    assert (line.query, line.task, line.level, line.text) == ("f1-0", "", WARNING, "fragment failed error=no")
    assert line.at_ms == 1777636800000


def test_a_line_of_sparks_says_whose_it_is_by_its_thread_or_its_tasks():
    entry = {"event": "it ended", "logger": "MicroBatchExecution", "level": "ERROR", "fragment": "",
             "thread": "stream execution thread for f1-0 [id = a, runId = b]",
             "exception": "java.lang.Error: no\n\tat x"}
    line = line_of("0", json.dumps(entry), now_ms=5)
    assert (line.query, line.level, line.text) == (
        "f1-0", ERROR, "MicroBatchExecution: it ended\njava.lang.Error: no\n\tat x")
    assert line_of("0", json.dumps({**entry, "fragment": "f2-0", "thread": "task 1"}), now_ms=5).query == "f2-0"


@given(st.text(max_size=300) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5), lambda part: st.dictionaries(
        st.sampled_from(["event", "level", "timestamp", "fragment", "task", "thread", "x"]), part, max_size=5)
    ).map(json.dumps))
def test_whatever_a_process_writes_is_a_line_of_its_own(text):
    line = line_of("1", text, now_ms=1_000)
    assert line.process == "1" and line.level in LEVELS and 0 <= line.at_ms <= 1_000 and len(line.text) <= LONGEST
    assert LOG_ORDERS.loads(LOG_ORDERS.dumps(LogOrder(id="o", node="n", search=text[:9]))).search == text[:9]


def test_who_asks_for_a_task_sees_what_is_its_or_its_querys_and_nothing_of_another():
    keeper = Kept()
    keeper.say("0", "of the query", fragment="f1")
    keeper.say("0", "of the task", fragment="f1", task="t1")
    keeper.say("0", "of the other task there", fragment="f1", task="t2")
    keeper.say("0", "of another query", fragment="f2")
    keeper.take("0", b"of the process\n")
    keeper.say("1", "of another process")
    assert keeper.texts(queries=("f1",), tasks=("t1",)) == ["of the query", "of the task"]
    assert keeper.texts(tasks=("t2",)) == ["of the other task there"]
    assert keeper.texts(process="0") == [
        "of the query", "of the task", "of the other task there", "of another query", "of the process"]
    assert keeper.texts() == [], "who names nothing is told nothing"


def test_lines_are_found_by_text_and_level_and_the_newest_come_with_how_many_do_not():
    keeper = Kept()
    for number, level in enumerate(("info", "warning", "error", "critical")):
        keeper.say("0", f"Line {number}", level=level)
    assert keeper.texts(process="0", level=ERROR) == ["Line 2", "Line 3"]
    assert keeper.texts(process="0", search="LINE 1") == ["Line 1"]
    answer = keeper.read(LogOrder(id="o", node="n1", process="0", level=INFO, count=3))
    assert [line.text for line in answer.lines] == ["Line 1", "Line 2", "Line 3"] and answer.left_out == 1
    assert LOG_ANSWERS.loads(LOG_ANSWERS.dumps(answer)) == answer


def test_who_goes_on_asking_is_told_each_line_once_also_where_the_agent_began_anew():
    keeper = Kept()
    keeper.say("0", "a")
    first = keeper.read(LogOrder(id="o", node="n1", process="0"))
    keeper.say("0", "b")
    assert keeper.texts(process="0", after=first.after) == ["b"]
    for other in ("", "x", "x:9", first.after.split(":")[0], f"{first.after.split(':')[0]}:²"):
        assert keeper.texts(process="0", after=other) == ["a", "b"]


def test_a_query_that_writes_much_takes_no_others_place(monkeypatch: pytest.MonkeyPatch):
    keeper = Kept()
    keeper.say("0", "rare", fragment="f1")
    for number in range(KEPT_LINES + 5):
        keeper.say("0", f"{number}", fragment="f2")
    assert keeper.texts(queries=("f1",)) == ["rare"]
    seen = keeper.texts(queries=("f2",), count=10 * KEPT_LINES)
    assert len(seen) == KEPT_LINES and seen[-1] == str(KEPT_LINES + 4)
    for number in range(MOST_KEPT):
        keeper.say("0", "x", fragment=f"g{number}")
    assert keeper.texts(queries=("f1",)) == [], "of what wrote last so many are kept"


def test_a_process_that_makes_names_up_takes_no_place_of_anothers():
    keeper = Kept()
    keeper.say("1", "a neighbour", fragment="f1")
    for number in range(2 * MOST_KEPT):
        keeper.say("0", "x", fragment=f"g{number}", task=f"t{number}")
    assert keeper.texts(queries=("f1",)) == ["a neighbour"]


@pytest.mark.parametrize("character", [
    "\ud800", "\udfff", "\x1b", "\x00", "\x08", "\r", "\x9b", "\u202e", "\u2066", "\u200f"], ids=ascii)
@pytest.mark.parametrize("place", ["event", "fragment", "task", "exception", "fact"])
def test_a_line_holds_nothing_that_an_answer_cannot_or_that_a_terminal_obeys(character, place):
    keeper = Kept()
    keeper.say("0", **{"event": "x", "fragment": "f", place: f"a{character}[2J"})
    answer = LOG_ANSWERS.loads(LOG_ANSWERS.dumps(keeper.read(LogOrder(id="o", node="n1", process="0"))))
    [line] = answer.lines
    assert character not in line.text + line.query + line.task
    assert "a\ufffd[2J" in line.text + line.query + line.task


def test_what_is_kept_and_what_is_answered_have_a_size():
    keeper = Kept()
    for _ in range(500):
        keeper.say("0", "x" * 2 * LONGEST, fragment="f1")
    for query in range(5):
        for _ in range(40):
            keeper.say("0", "y" * LONGEST, fragment=f"q{query}")
    assert sum(map(len, keeper.texts(queries=("f1",)))) <= log_keeper.KEPT_CHARACTERS
    answer = keeper.read(LogOrder(id="o", node="n1", process="0", count=10**6))
    assert sum(len(line.text) for line in answer.lines) <= log_keeper.ANSWERED and answer.left_out > 0


def test_no_secret_and_no_folder_is_in_a_line_nor_in_the_agents_log(monkeypatch: pytest.MonkeyPatch):
    secret = 'pass"wörd\\of\nCity'
    monkeypatch.setattr(sealed_secrets, "_opened", {secret})
    keeper = Kept()
    keeper.say("0", f"Bearer {secret} is wrong", fragment="f1")
    keeper.take("0", json.dumps({"event": f"as it is: {secret}"}, ensure_ascii=False).encode())
    keeper.say("0", f"{FOLDER}/checkpoints/x", fragment="f1")
    for text in (*keeper.texts(process="0"), *keeper.echoed):
        assert "rd" not in text.replace("word", "") and "City" not in text and FOLDER not in text
    assert keeper.texts(queries=("f1",)) == ["Bearer ••• is wrong", "<data folder>/checkpoints/x"]


def test_a_process_that_floods_its_log_is_cut_short_and_the_next_line_says_so(monkeypatch: pytest.MonkeyPatch):
    now_s = iter([0.5] * 3 + [2.0, 2.0])
    monkeypatch.setattr(log_keeper.time, "monotonic", lambda: next(now_s))
    monkeypatch.setattr(log_keeper, "BYTES_PER_S", 8)
    keeper = Kept()
    keeper.listen(io.BytesIO(b"first\nsecond\nthird\nlater\nmore too\n"), lambda: "0")
    assert BYTES_PER_S > 8
    assert keeper.texts(process="0") == ["first", "2 lines were left out: more than 8 bytes a second.", "later"]


def test_a_spares_lines_are_the_slots_from_when_it_is_the_slots():
    keeper, names = Kept(), iter(["spare", "0"])
    keeper.listen(io.BytesIO(b"warm\ntaken\n"), lambda: next(names))
    assert (keeper.texts(process="spare"), keeper.texts(process="0")) == (["warm"], ["taken"])


@pytest.mark.broker
def test_a_node_is_asked_through_the_broker_and_one_that_is_away_is_missing(broker: redis.Redis):
    keeper = Kept()
    keeper.say("0", "here")
    answers = LogAnswers(broker, "n1", keeper)
    broker.rpush("weir:logs:n1", "of another version")
    answers.start()
    orders = [LogOrder(id=f"o-{node}", node=node, process="0") for node in ("n1", "n2")]
    answered = LOGS.ask(broker, orders[:1], within_s=60)
    assert [line.text for line in answered["n1"].lines] == ["here"]
    assert LOGS.ask(broker, orders[1:], within_s=0.1) == {}
    assert 0 < broker.ttl("weir:logs:n2") <= LIVES_S
    for number in range(3 * LOGS.most):
        LOGS.ask(broker, [LogOrder(id=f"p{number}", node="n2", process="0")], within_s=0)
    assert broker.llen("weir:logs:n2") == LOGS.most
    answers.stop()
    answers.join()
