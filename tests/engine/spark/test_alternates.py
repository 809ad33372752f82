"""A dynamic dataflow, merged with a static one that shares its source, through switches and the death of a slot: each
delivers just what the recorded sequence of alternates says, two of them paths, and what the static one delivers alone.
"""

from __future__ import annotations

import os
import signal

import pytest

from scheduler.contracts.switches import AlternateSwitch
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.setting import plan_switch
from scheduler.step_kinds import EnactmentEvidence, steps_done
from workers.engine.noted_switches import noted_switches

from .planned import PlannedEstate
from .rig import Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(1_500), pytest.mark.usefixtures("afterwards_nothing")]

DYNAMIC = """
name: dynamic
tasks:
  - {id: source, type: numbers}
  - id: work
    alternates:
      - {name: plain, type: sql, config: {query: "SELECT *, 'plain' AS made FROM input"}, value: 3}
      - name: few
        value: 2
        tasks:
          - {id: some, type: sql, config: {query: "SELECT * FROM input WHERE n % 3 <> 0"}}
          - {id: mark, type: sql, config: {query: "SELECT *, 'few' AS made FROM input"}}
        streams: [{from: input, to: some}, {from: some, to: mark}, {from: mark, to: output}]
      - name: next
        value: 1
        tasks:
          - {id: add, type: sql, config: {query: "SELECT *, n + 1 AS more FROM input"}}
          - {id: even, type: sql, config: {query: "SELECT * EXCEPT (more), concat('next ', more) AS made FROM input
              WHERE n % 2 = 0"}}
          - {id: odd, type: sql, config: {query: "SELECT * EXCEPT (more), concat('next ', more) AS made FROM input
              WHERE n % 2 = 1"}}
        streams: [{from: input, to: add}, {from: add, to: even}, {from: add, to: odd}, {from: even, to: output},
                  {from: odd, to: output}]
  - {id: last, type: total, config: {name: sum}}
  - {id: out, type: output, config: {name: dynamic, keep_events: 1000000}}
streams:
  - {from: source, to: work}
  - {from: work, to: last}
  - {from: last, to: out}
rates: {source: 100}
"""
STATIC = """
name: static
tasks:
  - {id: source, type: numbers}
  - {id: shift, type: shift, config: {by: 7}}
  - {id: out, type: output, config: {name: static, keep_events: 1000000}}
streams:
  - {from: source, to: shift}
  - {from: shift, to: out}
rates: {source: 100}
"""
TURNS = ["few", "next", "plain", "next", "few", "plain", "few", "plain", "next", "few"]


def made_of(number: int, switches: tuple[AlternateSwitch, ...]) -> str | None:
    """What the alternate makes of a number that was on when it came; None where it lets it go."""
    on = max((switch for switch in switches if switch.seq <= number), key=lambda switch: switch.seq).alternate
    if on == "few" and number % 3 == 0:
        return None
    return f"next {number + 1}" if on == "next" else on


def test_outputs_are_those_of_the_recorded_sequence(rig: Rig) -> None:
    planned = PlannedEstate(rig)
    planned.submit(planned.read(STATIC), "static", team="roads")
    planned.submit(planned.read(DYNAMIC), "dynamic")
    submitted = planned.estate.submitted
    assert submitted["static"].running["source"] == submitted["dynamic"].running["source"]
    rig.wait_running(*planned.estate.fragments)
    task = submitted["dynamic"].running["work"]
    query, _ = planned.estate.places[task]
    started = dict(planned.estate.fragments)

    def last() -> AlternateSwitch | None:
        known = noted_switches(rig.broker, task)
        return known[-1] if known else None

    rig.wait(lambda: last() and len(planned.output("dynamic")) > 20, what="events")
    for turn, alternate in enumerate(TURNS):
        plan = planned.carry_out(plan_switch(
            planned.estate, "dynamic", task="work", alternate=alternate, task_types=rig.task_types, prices=Prices()))
        if turn == 4:  # wherever the switch is
            slot = Slot.of(planned.estate.fragments[query].slot)
            pid = rig.slot_pid(str(slot.index))
            os.kill(pid, signal.SIGKILL)
            rig.wait(lambda slot=slot, pid=pid: rig.slot_pid(str(slot.index)) not in (None, pid), what="its slot")
        rig.wait(lambda plan=plan: steps_done(plan, EnactmentEvidence(
            rig.reports(), settings=planned.estate.settings)) == {step.key for step in plan.steps}, what="the switch")
        rig.wait(lambda alternate=alternate: last().alternate == alternate, what=f"the first event of {alternate}")
    assert planned.estate.fragments == started, "no query was replaced"
    end = last().seq + 20
    rig.wait(lambda: planned.output("dynamic")[-1]["_seq"] > end, what="events behind the last switch")
    rig.wait(lambda: planned.output("static")[-1]["_seq"] > end, what="events of the static one")

    switches = noted_switches(rig.broker, task)
    assert [switch.alternate for switch in switches] == ["plain", *TURNS]
    assert {switch.query for switch in switches} == {query}
    output = planned.output("dynamic")
    made = [(number, made_of(number, switches)) for number in range(output[-1]["_seq"] + 1)]
    assert sorted((event["_seq"], event["made"]) for event in output) == [each for each in made if each[1] is not None]
    for part in (0, 1):  # of a path with two branches each keeps its order
        numbers = [event["_seq"] for event in output if event["_seq"] % 2 == part]
        assert numbers == sorted(numbers)
    total = 0
    for event in output:  # what has state behind it sees them once and in order
        total += event["n"]
        assert event["sum"] == total
    static = planned.output("static")
    assert [event["_seq"] for event in static] == list(range(len(static)))
    assert all(event["n"] == event["_seq"] + 7 for event in static)
