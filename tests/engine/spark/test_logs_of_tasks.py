"""A query fails, says why and recovers, and disturbs no other; what all of them wrote is read by whose it is."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from scheduler.contracts.logs import ERROR, INFO, WARNING, LogLine, LogOrder
from scheduler.model.fragment import Fragment, RunningTask
from workers.engine.channels import keys
from workers.engine.log_store import LOGS

from .rig import NODE, Rig, estate_of
from .test_slot import identity, numbers

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]


def lines(rig: Rig, **wanted) -> list[LogLine]:
    """What the node answers."""
    order = LogOrder(id=uuid.uuid4().hex, node=NODE, **wanted)
    answers = LOGS.ask(rig.broker, [order], within_s=60)
    return list(answers[NODE].lines)


def test_a_query_fails_and_recovers_and_what_it_and_its_neighbour_wrote_is_told_apart(rig: Rig, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    tasks = [
        RunningTask("lg-count", "numbers", {"rate_per_s": 20.0}, ()),
        RunningTask("lg-talks", "python", {
            "function": "sensors.checks:talks", "version": "1.2", "columns": ["n:bigint"]}, ("lg-count",)),
        RunningTask("lg-out", "kept", {}, ("lg-talks",)),
        RunningTask("lh-count", "numbers", {"rate_per_s": 20.0}, ()),
        RunningTask("lh-breaks", "fragile", {"broken_while": str(broken)}, ("lh-count",)),
        RunningTask("lh-out", "kept", {}, ("lh-breaks",)),
    ]
    rig.publish(estate_of([
        Fragment("lg1-0", ("lg-count", "lg-talks", "lg-out"), f"{NODE}/0", 3, {}),
        Fragment("lh1-0", ("lh-count", "lh-breaks", "lh-out"), f"{NODE}/0", 3, {})], tasks, slots=2))
    rig.wait_running("lg1-0", "lh1-0")
    printed = rig.wait(lambda: lines(rig, tasks=("lg-talks",)), what="what the task prints")
    assert {(line.query, line.task, line.process) for line in printed} == {("lg1-0", "lg-talks", "0")}
    assert any(line.level == INFO and line.text.startswith("heard ") for line in printed)
    assert any(line.level == WARNING and line.text.startswith("doubts ") for line in printed)

    rig.wait(lambda: numbers(rig, "lh1-0.2"), what="events before it fails")
    before = identity(rig, "lg1-0")
    broken.touch()
    failed = rig.wait(lambda: rig.fragment("lh1-0")["failures"] >= 2 and rig.fragment("lh1-0"), what="two failures")
    assert "lh-breaks" in failed["error"] and "ValueError: broken is broken" in failed["error"]
    rig.wait(lambda: rig.fragment("lh1-0")["state"] == "backoff" and rig.fragment("lh1-0")["retry_at_ms"])
    for logger in ("Executor: ", "MicroBatchExecution: "):  # a thread of a task, and the query's own
        written = rig.wait(lambda logger=logger: [
            line for line in lines(rig, queries=("lh1-0",), level=ERROR, search=logger) if "is broken" in line.text],
            what="Spark's own lines of the failure")
        assert any("PythonException" in line.text and "\n" in line.text for line in written), "with its traceback"
    of_weir = rig.wait(lambda: lines(rig, queries=("lh1-0",), search="fragment failed"), what="Weir's own line")
    broken.unlink()
    assert {line.level for line in of_weir} == {WARNING}
    assert not [line for line in lines(rig, queries=("lg1-0",), tasks=("lg-talks",)) if "broken" in line.text]
    assert {"lg1-0", "lh1-0"} <= {line.query for line in lines(rig, process="0", count=1_000)}

    reached = len(numbers(rig, "lh1-0.2"))
    rig.wait(lambda: len(numbers(rig, "lh1-0.2")) > reached + 20, what="it goes on")
    seqs = numbers(rig, "lh1-0.2")
    assert seqs == list(range(seqs[0], seqs[-1] + 1)), "the failure cost or repeated an event"
    assert rig.fragment("lh1-0")["restarts"] >= 1 and identity(rig, "lg1-0") == before
    assert "fragment_failed" in [json.loads(entry[b"kind"]) for _, entry in rig.broker.xrange(keys.EVENTS)]
