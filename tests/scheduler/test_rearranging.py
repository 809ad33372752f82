"""Pausing, resuming, starting fresh and defragmenting, case by case."""

from __future__ import annotations

import pytest

from scheduler.applying import apply_plan
from scheduler.defragmenting import plan_defragmentation
from scheduler.model.errors import NothingToGain, NotPaused, NotSubmitted
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan, Step
from scheduler.performance.pricing import query_cores
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.reuse.defragment import DefragmentEvidence, DefragmentRule, fusions
from scheduler.reuse.fragmentation import fragmentation
from tests.scheduler.reversing import reverse_plan

from .catalogue import EMPTY, PRICES, SLOTS, TYPES, flow, pause, remove, resume, submit, unchained
from .invariants import check_plan

ANYTHING = DefragmentRule(ratio=0.0)  # whatever can be fused is
BY = {number: ("scale", {"by": number}) for number in range(1, 9)}
ONE_NODE = Estate(slots=SLOTS[:2])


# Pausing, case by case ------------------------------------------------------------------------------------------------


LINE = flow("line", {"s": "sensors", "a": BY[1], "b": BY[2], "c": "count", "o": "archive"}, "s > a > b > c > o")
SHORTER = flow("short", {"s": "sensors", "a": BY[1], "p": "alarm"}, "s > a > p")


def kinds(plan: Plan) -> list[tuple[str, str]]:
    return [(step.kind, step.fragment) for step in plan.steps]


def test_alone_a_dataflow_stops_as_a_whole_and_keeps_everything():
    estate = submit(EMPTY, LINE)
    plan = plan_pause(estate, "line", task_types=TYPES, prices=PRICES)
    assert plan.steps == (Step(kind="pause_fragment", fragment="f1-0", active=0, active_before=5),)
    assert (len(plan.rested), plan.stopped, plan.touched) == (5, (), ())
    assert plan.price.cores_delta == pytest.approx(-plan.price.cores_alone) and plan.price.queries_stopped == 1
    paused = apply_plan(estate, plan)
    assert paused.fragments["f1-0"].paused and paused.tasks == estate.tasks
    assert paused.loads[paused.fragments["f1-0"].slot].nanocores(query_cores=1.0) == 0, "it costs nothing"
    back = plan_resumption(paused, "line", task_types=TYPES, prices=PRICES)
    assert back.steps == (Step(kind="resume_fragment", fragment="f1-0", active=5, active_before=0),)
    assert apply_plan(paused, back).fragments == estate.fragments


def test_what_others_need_works_on_and_only_the_tail_rests():
    estate = submit(submit(EMPTY, LINE), SHORTER)
    plan = plan_pause(estate, "line", task_types=TYPES, prices=PRICES)
    assert kinds(plan) == [("close_tail", "f1-0")] and plan.touched == ("short",)
    estate = apply_plan(estate, plan)
    assert (estate.fragments["f1-0"].active, estate.fragments["f1-0"].resting) == (2, 3)
    both = plan_pause(estate, "short", task_types=TYPES, prices=PRICES)
    assert kinds(both) == [("pause_fragment", "f2-0"), ("pause_fragment", "f1-0")], "downstream first"
    estate = apply_plan(estate, both)
    again = plan_resumption(estate, "line", task_types=TYPES, prices=PRICES)
    assert kinds(again) == [("resume_fragment", "f1-0")]
    estate = apply_plan(estate, again)
    assert not estate.fragments["f1-0"].outlets, "nobody who works reads it"
    last = plan_resumption(estate, "short", task_types=TYPES, prices=PRICES)
    assert kinds(last) == [("resume_fragment", "f2-0"), ("open_outlet", "f1-0")]


def test_a_submission_wakes_what_it_needs_and_no_more():
    estate = pause(submit(EMPTY, LINE), "line")
    plan = plan_submission(estate, SHORTER, dataflow_id="short", team="roads", task_types=TYPES, prices=PRICES)
    assert kinds(plan) == [("start_fragment", "f3-0"), ("resume_fragment", "f1-0")]
    assert len(plan.resumed) == 2 and plan.touched == ("line",)
    alone = plan_submission(EMPTY, SHORTER, dataflow_id="short", team="roads", task_types=TYPES, prices=PRICES)
    resumed_query = query_cores(PRICES) + PRICES.costs.fixed_cores
    assert plan.price.cores_delta == pytest.approx(alone.price.cores_delta + resumed_query), "it pays for what it wakes"
    estate = apply_plan(estate, plan)
    assert (estate.fragments["f1-0"].active, estate.fragments["f1-0"].resting) == (2, 3)
    assert estate.fragments["f1-0"].outlets == {estate.submitted["short"].running["a"]: ("f3-0",)}


def test_a_paused_dataflow_can_be_removed_and_takes_along_only_what_is_its_own():
    estate = pause(submit(submit(EMPTY, LINE), SHORTER), "line")
    gone = plan_removal(estate, "line", task_types=TYPES, prices=PRICES)
    assert (len(gone.stopped), gone.steps, gone.price.cores_delta) == (3, (), 0), "what goes has rested already"
    left = apply_plan(estate, gone)
    assert (left.fragments["f1-0"].active, left.fragments["f1-0"].resting) == (2, 0)
    other = apply_plan(estate, plan_removal(estate, "short", task_types=TYPES, prices=PRICES))
    assert (other.fragments["f1-0"].active, other.fragments["f1-0"].resting) == (0, 5)
    assert remove(other, "line").fragments == {}


def test_what_is_asked_of_a_dataflow_that_is_not_so_is_refused():
    estate = submit(EMPTY, LINE)
    with pytest.raises(NotPaused):
        plan_resumption(estate, "line", task_types=TYPES, prices=PRICES)
    with pytest.raises(NotPaused):
        plan_pause(pause(estate, "line"), "line", task_types=TYPES, prices=PRICES)
    for plan in (plan_pause, plan_resumption, plan_defragmentation):
        with pytest.raises(NotSubmitted):
            plan(estate, "not there", task_types=TYPES, prices=PRICES)


# Joining or starting fresh --------------------------------------------------------------------------------------------


def fresh(estate: Estate, dataflow, dataflow_id: str, **more) -> Plan:
    return plan_submission(
        estate, dataflow, dataflow_id=dataflow_id, team="roads", task_types=TYPES, prices=PRICES, fresh=True, **more)


def test_fresh_shares_what_has_no_state_and_starts_the_rest_apart():
    estate = submit(EMPTY, LINE)
    plan = fresh(estate, LINE, "mine")
    running = plan.dataflow.running
    assert [running[name] for name in "sab"] == list(plan.reused)
    assert set(plan.fresh) == {running["c"], running["o"]} == {task.id for task in plan.started}
    assert not set(plan.fresh) & set(estate.tasks)
    assert plan.price.tasks_started == 2 and plan.otherwise.tasks_started == 0
    joined = plan_submission(estate, LINE, dataflow_id="mine", team="roads", task_types=TYPES, prices=PRICES)
    assert (joined.otherwise, joined.price) == (plan.price, plan.otherwise), "each shows the price of the other"


def test_who_comes_later_joins_what_is_nobodys_own():
    estate = apply_plan(submit(EMPTY, LINE), fresh(submit(EMPTY, LINE), LINE, "mine"))
    late = plan_submission(estate, LINE, dataflow_id="late", team="parks", task_types=TYPES, prices=PRICES)
    assert late.started == () and set(late.dataflow.running.values()) == set(estate.submitted["line"].running.values())
    other = fresh(estate, LINE, "other")
    assert len(other.started) == 2 and not set(other.fresh) & set(estate.tasks), "two that start fresh share no state"


def test_what_does_not_run_yet_starts_fresh_by_itself_and_can_be_joined():
    plan = fresh(EMPTY, LINE, "mine")
    assert (plan.fresh, plan.otherwise) == ((), None)
    assert plan.started == plan_submission(
        EMPTY, LINE, dataflow_id="mine", team="roads", task_types=TYPES, prices=PRICES).started


def test_submitted_again_a_fresh_dataflow_has_the_same_identity_of_its_own():
    estate = submit(EMPTY, LINE)
    first = fresh(estate, LINE, "mine")
    estate = remove(apply_plan(estate, first), "mine")
    assert fresh(estate, LINE, "mine").fresh == first.fresh


def test_paused_state_is_not_joined_either():
    plan = fresh(pause(submit(EMPTY, LINE), "line"), LINE, "mine")
    assert len(plan.resumed) == 3 and len(plan.fresh) == 2


@pytest.mark.parametrize("begin", ["oldest", "1700000000000"])
def test_new_readers_begin_where_they_are_told_in_streams_that_were_there(begin):
    tasks = {"s": "sensors", "a": BY[1], "d": BY[4], "x": "archive", "y": "alarm"}
    wide = flow("wide", tasks, "s > a > d > x", "d > y")
    estate = submit(EMPTY, LINE)
    plan = plan_submission(
        estate, wide, dataflow_id="w", team="roads", task_types=TYPES, prices=PRICES, begin=begin)
    a = estate.submitted["line"].running["a"]
    assert {fragment_id: dict(part.joins) for fragment_id, part in plan.fragments_after.items() if fragment_id[:2]
        == "f2"} == {
        "f2-0": {a: begin}, "f2-1": {}}, "what is new begins at its beginning"
    back = resume(pause(apply_plan(estate, plan), "w"), "w")
    assert not back.fragments["f2-0"].joins, "after a pause it reads from then on"


# Defragmentation, case by case ----------------------------------------------------------------------------------------


def fuse(estate: Estate, dataflow_id: str, **more) -> Plan:
    return plan_defragmentation(estate, dataflow_id, task_types=TYPES, prices=PRICES, **more)


def gap() -> Estate:
    """What is left on one node when the dataflow whose chain was continued is gone."""
    side = flow("side", {"s": "sensors", "a": BY[1], "d": BY[4], "x": "archive"}, "s > a > d > x")
    return remove(submit(submit(Estate(slots=SLOTS[:2]), LINE), side), "line")


def test_a_fork_that_is_gone_is_fused_and_what_nobody_needs_is_left_out():
    estate = gap()
    measured = fragmentation(estate, "side", task_types=TYPES, query_cores=0.1, latency_ms={
        (estate.submitted["side"].running["a"], estate.submitted["side"].running["d"]): 300.0})
    assert (measured.queries, measured.fewest, measured.longest_hops, measured.total_hops) == (2, 1, 1, 1)
    assert (measured.latency_ms, measured.idle_cores, measured.dead_tasks) == (300.0, 0.2, 3)
    plan = fuse(estate, "side")
    assert kinds(plan) == [("hand_over", "f4-0")]
    done = apply_plan(estate, plan)
    (only,) = done.fragments.values()
    assert only.inherits == ("f1-0", "f2-0") and len(only.tasks) == 4
    out = estate.submitted["side"].running["x"]
    assert only.channels == {out: "f2-0.1"}, "the named output keeps its channel"
    assert plan.price.cores_delta < -query_cores(PRICES), "a query less, and no dead tasks"
    assert "saves" in plan.why and "late" in plan.why
    with pytest.raises(NothingToGain):
        fuse(done, "side")


def test_readers_outside_keep_their_channel_and_whoever_writes_to_it_is_told_the_new_name():
    two = flow("two", {"s": "sensors", "t": ("sensors", {"seed": 7}), "m": BY[1], "p": "alarm"}, "s > m > p", "t > m")
    estate = submit(ONE_NODE, two)
    side = {"s": "sensors", "t": ("sensors", {"seed": 7}), "m": BY[1], "d": BY[2], "x": "archive", "y": "alarm"}
    estate = submit(estate, flow("side", side, "s > m > d > x", "t > m", "d > y"))
    third = flow("third", {key: side[key] for key in ("s", "t", "m", "d")} | {"z": ("archive", {"name": "z"})},
                 "s > m > d > z", "t > m")
    estate = remove(submit(estate, third), "two")
    plan = fuse(estate, "side", rule=ANYTHING)
    check_plan(estate, plan)
    done = apply_plan(estate, plan)
    d = done.submitted["third"].running["d"]
    assert estate.channel_of(d) == done.channel_of(d), "the readers outside notice nothing"
    assert {reader for part in done.fragments.values() for readers in part.outlets.values()
        for reader in readers} <= set(
        done.fragments)


def test_it_respects_never_several_parents_rest_nodes_and_state_that_cannot_move():
    never = flow("never", {"s": "sensors", "x": "alone", "o": "archive"}, "s > x > o")
    tasks = {"s": "sensors", "t": ("sensors", {"seed": 9}), "m": BY[3], "o": "archive"}
    join = flow("join", tasks, "s > m > o", "t > m")
    for dataflow in (never, join):
        with pytest.raises(NothingToGain):
            fuse(submit(ONE_NODE, dataflow), dataflow.name, rule=ANYTHING)
    stuck = flow("stuck", {"s": "sensors", "a": BY[1], "w": "window", "x": "archive"}, "s > a > w > x")
    estate = remove(submit(submit(ONE_NODE, LINE), stuck), "line")
    rebuilt = fuse(estate, "stuck", rule=ANYTHING)
    assert next(part.inherits for part in rebuilt.fragments_after.values()) == ("f1-0",), "only its dead tasks go"
    with pytest.raises(NothingToGain):
        fuse(apply_plan(estate, rebuilt), "stuck", rule=ANYTHING)
    side = flow("side", {"s": "sensors", "a": BY[1], "d": BY[4], "x": "archive"}, "s > a > d > x")
    with pytest.raises(NothingToGain):
        fuse(pause(submit(submit(ONE_NODE, LINE), side), "line"), "side", rule=ANYTHING)
    apart = Estate(slots=(SLOTS[0], SLOTS[2]))
    with pytest.raises(NothingToGain) as raised:
        fuse(remove(submit(submit(apart, LINE), side), "line"), "side", rule=ANYTHING, busy=("f1-0",))
    assert raised.value.remedy


def test_of_those_who_share_a_task_the_strictest_says_whether_it_is_fused():
    estate, strict = gap(), unchained(flow("strict", {"s": "sensors", "a": BY[1], "p": "alarm"}, "s > a > p"), "a")
    candidates = len(fusions(estate, estate.fragments, task_types=TYPES, query_cores=0.1))
    shared = submit(estate, strict)
    a = shared.submitted["strict"].running["a"]
    assert candidates
    assert not [
        fusion for fusion in fusions(shared, shared.fragments, task_types=TYPES, query_cores=0.1)
        if any(a in stream for stream in fusion.streams)]
    left = remove(shared, "strict")
    again = fusions(left, left.fragments, task_types=TYPES, query_cores=0.1)
    assert len(again) >= candidates, "whoever said so is gone"


def test_it_is_done_only_when_it_gains_enough():
    estate = gap()
    young = DefragmentEvidence(ages_h={"f1-0": 0.002, "f2-0": 0.001})
    with pytest.raises(NothingToGain) as raised:
        fuse(estate, "side", evidence=young)
    assert "not enough" in raised.value.message
    assert "enough" in fuse(estate, "side", evidence=DefragmentEvidence(ages_h={"f1-0": 24.0, "f2-0": 2.0})).why
    busy = DefragmentEvidence(rates_per_s={estate.submitted["side"].running["s"]: 1e9})
    with pytest.raises(NothingToGain):
        fuse(estate, "side", evidence=busy, rule=DefragmentRule(horizon_h=1.0, delay_price=1.0, gap_s=60.0))
    with pytest.raises(NothingToGain):
        fuse(estate, "side", busy=("f2-0", "f1-0"))


def test_what_was_fused_is_cut_again_with_the_same_channels():
    estate = gap()
    plan = fuse(estate, "side")
    back = reverse_plan(plan)
    cut = apply_plan(apply_plan(estate, plan), back)
    assert [(part.tasks, part.slot) for part in cut.fragments.values()] == [
        (part.active_tasks, part.slot) for part in estate.fragments.values()]
    assert not set(cut.fragments) & set(estate.fragments), "ids are never used again"
    out = estate.submitted["side"].running["x"]
    assert cut.channel_of(out) == estate.channel_of(out)
