"""A named savepoint is taken under events; its dataflow is removed, and another begins from it where that was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.saved_states import SavedTask
from scheduler.model.settings_of_fragments import FragmentSettings

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]
MONDAY = f"{NODE}-00000001"


def summing(name: str, slot: int, mark: str = "") -> Estate:
    """A chain of one query: numbers, their sum so far, and an output; a mark sets its tasks apart."""
    count, total, out = (f"{task}{mark}" for task in ("count", "sum", "summed"))
    return estate_of(
        [Fragment(name, (count, total, out), f"{NODE}/{slot}", 3, {})],
        [RunningTask(count, "numbers", {"rate_per_s": 100.0}, ()),
         RunningTask(total, "total", {"name": "sum"}, (count,)),
         RunningTask(out, "kept", {"keep_events": 100_000}, (total,))], slots=2)


def grown(rig: Rig, channel: str) -> None:
    count = len(rig.events(channel))
    rig.wait(lambda: len(rig.events(channel)) > count + 40, what=f"more of {channel}")


def parts(rig: Rig):
    report = rig.reports().node(NODE)
    return None if report is None else report.savepoints


def test_rows_of_one_that_begins_from_a_savepoint_are_those_of_an_undisturbed_run(rig: Rig):
    rig.kept_savepoints = ()
    rig.publish(summing("n1-0", 0))
    rig.wait_running("n1-0")
    grown(rig, "n1-0.2")
    run = rig.fragment("n1-0")["run_id"]
    rig.saving, rig.kept_savepoints = {"n1-0": (MONDAY,)}, (MONDAY,)
    rig.publish(summing("n1-0", 0))
    rig.wait(lambda: parts(rig), what="a part of the savepoint")
    part = parts(rig)[MONDAY]
    grown(rig, "n1-0.2")
    assert rig.fragment("n1-0")["run_id"] == run, "it was not restarted for that"
    rig.saving = {}
    rig.publish(Estate(slots=rig.slots))
    rig.wait(lambda: rig.fragment("n1-0") is None, what="its removal")
    assert part.fragment == "n1-0" and part.next_event > 40 and parts(rig) == {MONDAY: part}

    estate = summing("n2-0", 1, "*")
    restores = {f"{task}*": SavedTask(MONDAY, "n1-0", task) for task in ("count", "sum")}
    rig.publish(replace(estate, settings={"n2-0": FragmentSettings(restores=restores)}))
    rig.wait_running("n2-0")
    grown(rig, "n2-0.2")
    events = rig.events("n2-0.2")
    numbers = [event["_seq"] for event in events]
    assert numbers == list(range(part.next_event, part.next_event + len(numbers)))
    assert [event["sum"] for event in events] == [number * (number + 1) / 2 for number in numbers]
    rig.kept_savepoints = ()
    rig.publish(Estate(slots=rig.slots))
    rig.wait(lambda: parts(rig) == {}, what="the part deleted")
