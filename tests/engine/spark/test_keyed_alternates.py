"""Forecasts by a learned guard, in a slot that dies: what comes out is what the recorded sequence of alternates by key
gives of the readings."""

from __future__ import annotations

import os
import signal

import pytest

from scheduler.model.alternates import alternates_in
from scheduler.model.fragment import Slot
from workers.engine.keyed_choices import chosen_by_key, read_choices, switch_keys, write_choices
from workers.engine.noted_switches import noted_key_switches
from workers.library.forecasting import HourlyForecast
from workers.library.forecasts import METHODS

from .planned import PlannedEstate
from .rig import Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1_500),
    pytest.mark.usefixtures("afterwards_nothing")]

CONFIG = "by: [meter], value: kwh, at: at, holiday: holiday, interval: 300 s"
WAYS = "\n".join(f"      - {{name: {name}, type: forecast, config: {{method: {name}, {CONFIG}}}}}" for name in METHODS)
DOCUMENT = f"""
name: demand
tasks:
  - {{id: meters, type: smart_meters, config: {{meters: 6}}}}
  - id: next
    begin: shared
    by: [meter]
    learned: {{bound: 0.1}}
    alternates:
{WAYS}
  - {{id: out, type: output, config: {{name: forecasts, keep_events: 1000000}}}}
  - {{id: readings, type: output, config: {{name: readings, keep_events: 1000000}}}}
streams:
  - {{from: meters, to: next}}
  - {{from: next, to: out}}
  - {{from: meters, to: readings}}
rates: {{meters: 300}}
"""


def test_forecasts_are_those_of_the_recorded_sequence(rig: Rig) -> None:
    planned = PlannedEstate(rig)
    planned.submit(planned.read(DOCUMENT), "demand")
    rig.wait_running(*planned.estate.fragments)
    task = planned.estate.submitted["demand"].running["next"]
    query, position = planned.estate.places[task]
    config = planned.estate.tasks[task].config
    slot = Slot.of(planned.estate.fragments[query].slot)

    def choose() -> int:
        """Let the guard look once; how many changes of keys queries have noted by then."""
        choices = read_choices(rig.broker, task)
        chosen = chosen_by_key(
            choices, planned.output("demand"), by=config["by"], among=METHODS, bound=config["learned"]["bound"])
        write_choices(rig.broker, task, chosen)
        switch_keys(rig.broker, task, [(query, position)], chosen.alternates)
        return len(noted_key_switches(rig.broker, task))

    rig.wait(lambda: choose() >= 3, what="switches")
    pid = rig.slot_pid(str(slot.index))
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: rig.slot_pid(str(slot.index)) not in (None, pid), what="the slot")
    before = choose()
    rig.wait(lambda: choose() >= before + 3, what="switches behind the death of the slot")
    end = noted_key_switches(rig.broker, task)[-1].seq + 600
    rig.wait(lambda: planned.output("demand")[-1]["_seq"] > end, what="forecasts behind the last switch")
    rig.wait(lambda: planned.output("demand", "readings")[-1]["_seq"] > end, what="readings")

    switches = noted_key_switches(rig.broker, task)
    folds = {method: HourlyForecast(method, 300_000) for method in METHODS}
    first = min(METHODS)  # all are worth the same
    assert alternates_in("dynamic_fold", config)[0].name == first
    states, expected, by_key, coming = {}, [], {}, list(switches)
    for reading in planned.output("demand", "readings"):
        if reading["_seq"] > end:
            break
        while coming and coming[0].seq <= reading["_seq"]:
            by_key |= coming.pop(0).keys
        meter = reading["meter"]
        fold = folds[by_key.get(meter) or first]
        state = states.setdefault(meter, fold.start())
        expected += [(reading["_seq"], meter, *made) for made in fold.step(
            state, reading["at"], reading["kwh"], reading["holiday"], meter)]
    made = [tuple(event[name] for name in ("_seq", "meter", "start", "method", "forecast", "error", "variances"))
            for event in planned.output("demand") if event["_seq"] <= end]
    assert len({method for _, _, _, method, *_ in expected}) > 1
    assert made == expected
