"""Alternates that warm up, in a slot that dies before, while and after they do: what comes out is what the recorded
sequence of alternates gives of the readings, event by event; a static dataflow beside it has its own. One alternate is
a path with two tasks that keep state, and a branch past them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.contracts.switches import AlternateSwitch
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.setting import plan_switch
from workers.engine.noted_switches import noted_switches
from workers.library.folds import BlockAverage

from .planned import PlannedEstate
from .rig import Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_500),
    pytest.mark.usefixtures("afterwards_nothing")]

WINDOWS = {"first": 8, "second": 5, "short": 7}
SHORT = ("dust", "light")  # what that alternate reads
DOCUMENT = """
name: air
tasks:
  - {id: sense, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - id: work
    begin: fresh
    warm: 30 s
    alternates:
      - name: long
        value: 2
        tasks:
          - {id: first, type: block_average, config: {window: 8, by: [obs]}}
          - {id: second, type: block_average, config: {window: 5, by: [obs]}}
          - id: light
            type: sql
            config: {query: "SELECT obs, value, CAST(1 AS BIGINT) AS count FROM input WHERE obs = 'light'"}
        streams:
          - {from: input, to: first}
          - {from: first, to: second}
          - {from: second, to: output}
          - {from: input, to: light}
          - {from: light, to: output}
      - {name: short, type: block_average, config: {window: 7, by: [obs], fields: [dust, light]}}
  - {id: out, type: output, config: {name: averages, keep_events: 1000000}}
  - {id: readings, type: output, config: {name: readings, keep_events: 1000000}}
streams:
  - {from: sense, to: parse}
  - {from: parse, to: work}
  - {from: work, to: out}
  - {from: parse, to: readings}
rates: {sense: 60}
"""
STATIC = """
name: still
tasks:
  - {id: sense, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: work, type: block_average, config: {window: 7, by: [obs], fields: [dust, light]}}
  - {id: out, type: output, config: {name: still, keep_events: 1000000}}
streams:
  - {from: sense, to: parse}
  - {from: parse, to: work}
  - {from: work, to: out}
rates: {sense: 60}
"""


def test_what_has_warmed_up_goes_on_with_what_it_saw(rig: Rig) -> None:
    planned = PlannedEstate(rig)
    planned.submit(planned.read(DOCUMENT), "air")
    planned.submit(planned.read(STATIC), "still")
    rig.wait_running(*planned.estate.fragments)
    task = planned.estate.submitted["air"].running["work"]
    query, _ = planned.estate.places[task]
    slot = str(Slot.of(planned.estate.fragments[query].slot).index)

    def switches() -> tuple[AlternateSwitch, ...]:
        return noted_switches(rig.broker, task)

    def switch(alternate: str, **more: bool) -> None:
        """Switch, wait until an event has met that, and until readings behind it have come."""
        before = len(switches())
        planned.carry_out(plan_switch(
            planned.estate, "air", task="work", alternate=alternate, task_types=rig.task_types, prices=Prices(),
            **more))
        rig.wait(lambda: len(switches()) > before, what=f"the switch to {alternate}")
        behind(switches()[-1].seq + 60)

    def behind(seq: int) -> None:
        rig.wait(lambda: newest("readings") > seq, what="readings")

    def newest(output: str) -> int:
        events = planned.output("air", output)
        return events[-1]["_seq"] if events else -1

    def kill() -> None:
        pid = rig.slot_pid(slot)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="the slot")
        behind(newest("readings") + 60)

    rig.wait(lambda: len(switches()) == 1, what="the first event")
    switch("short")
    kill()
    switch("short", at_once=True)
    switch("long")
    switch("short")  # which cancels
    kill()
    switch("long")
    kill()
    switch("long", warmed=True)
    sequence = switches()
    assert [(switch.alternate, switch.warming) for switch in sequence] == [
        ("long", ""), ("long", "short"), ("short", ""), ("short", "long"), ("short", ""), ("short", "long"),
        ("long", "")]
    end = sequence[-1].seq + 300
    rig.wait(lambda: min(newest("readings"), newest("out")) > end, what="events behind the last switch")
    rig.wait(lambda: (events := planned.output("still")) and events[-1]["_seq"] > end, what="events of the static one")
    readings = [event for event in planned.output("air", "readings") if event["_seq"] <= end]
    made, wanted = averages_of(planned.output("air"), end), replayed(readings, sequence)
    for is_past in (True, False):  # each branch has its order
        assert [event for event in made if (event[-1] == 1) == is_past] == [
            event for event in wanted if (event[-1] == 1) == is_past]
    assert averages_of(planned.output("still"), end) == replayed(readings, [AlternateSwitch("short", "", 0, -1, 0)])


def averages_of(events: list[Mapping[str, Any]], end: int) -> list[tuple]:
    columns = ("_seq", "obs", "value", "count")
    return [tuple(event[name] for name in columns) for event in events if event["_seq"] <= end]


def replayed(readings: list[Mapping[str, Any]], sequence: list[AlternateSwitch] | tuple[AlternateSwitch, ...]) -> list:
    """What a recorded sequence of alternates gives of readings, one by one."""
    made, states, owner, warm, warm_states = [], {}, "", "", {}
    for reading in readings:
        now = [switch for switch in sequence if switch.seq <= reading["_seq"]][-1]
        if owner != now.alternate:
            states, owner, warm = (warm_states if warm == now.alternate else {}), now.alternate, (
                "" if warm == now.alternate else warm)
        if warm != now.warming:
            warm, warm_states = now.warming, {}
        given = step(now.alternate, states, reading["obs"], reading["value"])
        made += [(reading["_seq"], reading["obs"], *out) for out in given]
        if now.warming:
            step(now.warming, warm_states, reading["obs"], reading["value"])
    return made


def step(alternate: str, states: dict, obs: str, value: float | None) -> list[tuple]:
    """What an alternate makes of a value."""
    def mean(task: str, value: float | None) -> list[tuple]:
        fold = BlockAverage(WINDOWS[task])
        return list(fold.step(states.setdefault((task, obs), fold.start()), value))

    if alternate == "short":
        return mean("short", value) if obs in SHORT else []
    return [
        *(out for first in mean("first", value) for out in mean("second", first[0])),
        *([(value, 1)] if obs == "light" else [])]
