"""A dataflow is changed while it runs: sinks of both versions get what they would have got, event by event."""

from __future__ import annotations

import pytest

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.plan import Plan
from scheduler.model.prices import Prices
from scheduler.planning import plan_submission
from scheduler.step_kinds import EnactmentEvidence, steps_done
from workers.library.registry import task_types

from .rig import NODE, Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900),
    pytest.mark.usefixtures("afterwards_nothing")]

BLOCK = 3
DOCUMENT = """
name: meters
tasks:
  - {{id: meters, type: smart_meter, config: {{seed: 3, sensors: 4}}}}
  - {{id: parse, type: senml_parse, config: {{schema: meter}}}}
  - {{id: raw, type: output, config: {{name: raw, keep_events: 1000000}}}}
  - {{id: average, type: block_average, config: {{window: 3}}}}
  - {{id: out, type: output, config: {{name: out, keep_events: 1000000}}}}
  - {{id: wide, type: block_average, config: {{window: {window}}}}}
  - {{id: wide-out, type: output, config: {{name: wide, keep_events: 1000000}}}}
streams:
  - {{from: meters, to: parse}}
  - {{from: parse, to: raw}}
  - {{from: parse, to: average}}
  - {{from: average, to: out}}
  - {{from: parse, to: wide}}
  - {{from: wide, to: wide-out}}
rates: {{meters: 40}}
"""


def version(window: int):
    return read_document(DOCUMENT.format(window=window), task_types=task_types())


def change(estate: Estate, before: int, after: int) -> Plan:
    return plan_change(
        estate, version(after), former=version(before), dataflow_id="meters", team="city", task_types=task_types(),
        prices=Prices())


def output(rig: Rig, estate: Estate, sink: str) -> list[tuple]:
    """What a sink has got so far, in order: whose reading, which value, with which event it came."""
    events = rig.events(estate.channel_of(estate.submitted["meters"].running[sink]))
    return [(event["sensor_id"], event["obs"], event["value"], event["_seq"]) for event in events]


def averages(readings: list[tuple], window: int) -> list[tuple]:
    """Block averages by the definition, from nothing: each meter's readings block by block; gaps do not count."""
    blocks: dict[tuple, list[float]] = {}
    values = []
    for sensor, obs, value, seq in readings:
        block = blocks.setdefault((sensor, obs), [])
        if value is not None:
            block.append(value)
        if len(block) == window:
            values.append((sensor, obs, sum(block) / window, seq))
            del blocks[sensor, obs]
    return values


def test_sinks_that_stay_miss_nothing_and_new_ones_begin_with_the_plan(rig: Rig):
    estate = Estate(generation=30_000, slots=(Slot(NODE, 0), Slot(NODE, 1)))
    estate = apply_plan(estate, plan_submission(
        estate, version(4), dataflow_id="meters", team="city", task_types=task_types(), prices=Prices()))
    channels = {sink: estate.channel_of(estate.submitted["meters"].running[sink]) for sink in ("raw", "out")}
    with rig.collecting(*channels.values()) as collected:
        rig.publish(estate)
        rig.wait_running(*estate.fragments)
        rig.wait(lambda: len(collected[channels["out"]]) >= 20, what="it delivers")
        for before, after in ((4, 5), (5, 7)):
            plan = change(estate, before, after)
            places = {running: estate.places[running] for running in plan.reused}
            assert {task.type for task in plan.started} == {"block_average", "output"}
            estate = apply_plan(estate, plan)
            assert {running: estate.places[running] for running in plan.reused} == places
            rig.publish(estate)
            rig.wait(
                lambda plan=plan: steps_done(plan, EnactmentEvidence(rig.reports())) == {
                    step.key for step in plan.steps})
            count = len(collected[channels["out"]])
            rig.wait(lambda count=count: len(collected[channels["out"]]) >= count + 20, what="it goes on delivering")
        assert channels == {
            sink: estate.channel_of(estate.submitted["meters"].running[sink]) for sink in ("raw", "out")}
        rig.wait(lambda: len(output(rig, estate, "wide-out")) >= 10, what="the last version delivers")
        wide = output(rig, estate, "wide-out")
    raw, out = (
        [(event["sensor_id"], event["obs"], event["value"], event["_seq"]) for event in collected[channels[sink]]]
        for sink in ("raw", "out"))
    seqs = [seq for *_, seq in raw]
    assert seqs == sorted(seqs) and set(seqs) == set(range(max(seqs) + 1)), "an event is missing, or out of order"
    assert len(set(raw)) == len(raw), "an event came twice"
    expected = averages(raw, BLOCK)
    common = min(len(expected), len(out))
    assert common > 50 and out[:common] == expected[:common]
    begin = next(
        (start for start in range(len(raw)) if averages(raw[start:], 7)[: len(wide)][:10] == wide[:10]), None)
    assert begin, "the new sink delivers the blocks of the stream from some moment on"
