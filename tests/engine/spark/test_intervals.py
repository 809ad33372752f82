"""Intervals change while queries run: the same runs go on, every event comes once, and batches become rare."""

from __future__ import annotations

import pytest

from scheduler.model.fragment import Fragment, RunningTask

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

RATE_PER_S = 50.0
BY = 1_000_000
QUERIES = ("pace1-0", "pace1-1", "pace1-2")
OUT = "pace1-2.0"


@pytest.mark.long  # in test_outputs_sacred.py they do
def test_intervals_change_while_queries_run(rig: Rig) -> None:
    tasks = [
        RunningTask("pace-count", "numbers", {"rate_per_s": RATE_PER_S}, ()),
        RunningTask("pace-shift", "shift", {"by": BY}, ("pace-count",)),
        RunningTask("pace-out", "kept", {"keep_events": 100_000}, ("pace-shift",))]
    fragments = [
        Fragment(QUERIES[0], ("pace-count",), f"{NODE}/0", 1, {"pace-count": (QUERIES[1],)}),
        Fragment(QUERIES[1], ("pace-shift",), f"{NODE}/1", 1, {"pace-shift": (QUERIES[2],)}),
        Fragment(QUERIES[2], ("pace-out",), f"{NODE}/0", 1)]
    estate = estate_of(fragments, tasks, slots=rig.slots)

    def want(**paces_ms: int) -> None:
        rig.paces_ms = {QUERIES[int(name[1:])]: pace_ms for name, pace_ms in paces_ms.items()}
        rig.publish(estate)

    def runs() -> dict[str, str]:
        return {query: (rig.fragment(query) or {}).get("run_id") for query in QUERIES}

    def numbers() -> list[int]:
        return [event["_seq"] for event in rig.events(OUT)]

    def in_force(*paces_ms: int) -> bool:
        return [(rig.fragment(query) or {}).get("trigger_ms") for query in QUERIES] == list(paces_ms)

    want()
    rig.wait_running(*QUERIES)
    rig.wait(lambda: len(numbers()) > 100, what="events arrive")
    begun = runs()

    want(q0=1_500, q1=3_000, q2=400)
    rig.wait(lambda: in_force(1_500, 3_000, 400), within_s=20, what="other intervals are in force")
    batches = {query: rig.fragment(query)["batches"] for query in QUERIES}
    reached = len(numbers())
    rig.wait(lambda: len(numbers()) > reached + 300, what="events of six seconds")
    done = {query: rig.fragment(query)["batches"] - before for query, before in batches.items()}
    assert done["pace1-1"] <= done["pace1-0"], "batches three seconds apart are fewer than those one and a half apart"
    assert done["pace1-0"] < 300 / RATE_PER_S / 0.1 / 2, "far fewer than ten a second"

    want(q1=200)
    rig.wait(lambda: in_force(rig.trigger_ms, 200, rig.trigger_ms), within_s=20, what="short intervals again")
    reached = len(numbers())
    rig.wait(lambda: len(numbers()) > reached + 50, what="more events")

    assert runs() == begun, "nothing was restarted"
    received = numbers()
    assert received == list(range(received[0], received[0] + len(received))), "each event once, in order"
