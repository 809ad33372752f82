"""Joining a stateful task that is under way, or starting fresh: what each choice delivers, event by event.

Joined, a dataflow delivers what the running task emits from then on: the other's output, from a moment on. Fresh, it
delivers what it would deliver alone if the stream began with the first event that it gets: state from nothing.
"""

from __future__ import annotations

import pytest

from scheduler.applying import apply_plan
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.planning import plan_submission
from workers.library.registry import task_types

from .rig import NODE, Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

BLOCK = 3
DOCUMENT = """
name: {name}
tasks:
  - {{id: meters, type: smart_meter, config: {{seed: 3, sensors: 4}}}}
  - {{id: parse, type: senml_parse, config: {{schema: meter}}}}
  - {{id: average, type: block_average, config: {{window: 3}}}}
  - {{id: out, type: output, config: {{name: {name}, keep_events: 1000000}}}}
  {more}
streams:
  - {{from: meters, to: parse}}
  - {{from: parse, to: average}}
  - {{from: average, to: out}}
  {and_more}
rates: {{meters: 40}}
"""


def submitted(estate: Estate, name: str, *, fresh: bool = False, raw: bool = False) -> Estate:
    text = DOCUMENT.format(
        name=name, more="- {id: raw, type: output, config: {name: raw, keep_events: 1000000}}" if raw else "",
        and_more="- {from: parse, to: raw}" if raw else "")
    plan = plan_submission(
        estate, read_document(text, task_types=task_types()), dataflow_id=name, team="city", task_types=task_types(),
        prices=Prices(), fresh=fresh)
    assert len(plan.fresh) == (1 if fresh else 0)  # the block average; the sink is another one by its name
    return apply_plan(estate, plan)


def output(rig: Rig, estate: Estate, dataflow_id: str, sink: str = "out") -> list[tuple]:
    """What a sink has got so far, in order: whose reading, which value, with which event it came."""
    events = rig.events(estate.channel_of(estate.submitted[dataflow_id].running[sink]))
    return [(event["sensor_id"], event["obs"], event["value"], event["_seq"]) for event in events]


def averages(readings: list[tuple]) -> list[tuple]:
    """Block averages by the definition, from nothing: each meter's readings three by three; gaps do not count."""
    blocks: dict[tuple, list[float]] = {}
    means = []
    for sensor, obs, value, seq in readings:
        block = blocks.setdefault((sensor, obs), [])
        if value is not None:
            block.append(value)
        if len(block) == BLOCK:
            means.append((sensor, obs, sum(block) / BLOCK, seq))
            del blocks[sensor, obs]
    return means


def test_each_choice_delivers_what_is_promised(rig: Rig):
    estate = submitted(Estate(generation=20_000, slots=(Slot(NODE, 0), Slot(NODE, 1))), "first", raw=True)
    rig.publish(estate)
    rig.wait_running(*estate.fragments)
    # Well into a block of some meter: four meters report in turn, three readings make a block.
    rig.wait(lambda: len(output(rig, estate, "first")) >= 20, what="the first one has state")
    estate = submitted(submitted(estate, "joined"), "fresh", fresh=True)
    rig.publish(estate)
    rig.wait_running(*estate.fragments)
    seen = len(output(rig, estate, "first"))
    for name in ("joined", "fresh"):
        rig.wait(lambda: len(output(rig, estate, name)) >= 40, what=f"{name} delivers")  # noqa: B023
    joined, fresh = output(rig, estate, "joined"), output(rig, estate, "fresh")
    last = max(joined[-1][3], fresh[-1][3])
    rig.wait(lambda: output(rig, estate, "first")[-1][3] >= last, what="the others are caught up with")
    rig.wait(lambda: output(rig, estate, "first", "raw")[-1][3] > last, what="readings are all there")
    first, raw = output(rig, estate, "first"), output(rig, estate, "first", "raw")

    begin = first.index(joined[0])
    assert begin > 0, "it joined what was under way"
    assert begin <= seen, "it gets what was emitted since it runs, from the first event on"
    assert joined == first[begin : begin + len(joined)], "joined: what the running task emits from then on"
    same = [place for place in range(len(raw)) if alike(averages(raw[place:])[: len(fresh)], fresh)]
    assert same, "fresh: what it would deliver alone if the stream began with its first event"
    assert same[0] > 0, "it began while the stream was under way"


def alike(one: list[tuple], other: list[tuple]) -> bool:
    """Equal but for the last bits of their values: sums of floats in another order."""
    return len(one) == len(other) and all(
        left[:2] == right[:2] and left[3] == right[3] and left[2] == pytest.approx(right[2])
        for left, right in zip(one, other, strict=True))
