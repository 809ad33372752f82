"""Moving a query: what goes where, that a move keeps all that others see, and that it can be taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.contracts.reports import Reports
from scheduler.interruptions import Interruption, interruptions_of
from scheduler.model.errors import InvalidTransition, NotFound
from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningBundle, Slot, node_of
from scheduler.model.task_types import Parameter, TaskTypes
from scheduler.moving import plan_move, slots_for, why_not_moved, why_not_to_other_nodes
from scheduler.step_kinds import EnactmentEvidence, steps_done
from scheduler.undoing import undo

from .catalogue import PRICES, TYPES, flow, pause, resume, submit
from .invariants import check_estate, check_plan, cut_of
from .test_rearranging_properties import SHORT, live, lives

LINE = flow(
    "line", {"s": "sensors", "a": ("scale", {"by": 1}), "c": "count", "o": "archive"}, "s > a > c > o")
OTHER = flow("other", {"s": "sensors", "a": ("scale", {"by": 1}), "p": "alarm"}, "s > a > p")
TWO_NODES = (Slot("n1", 0), Slot("n1", 1), Slot("n2", 0))


def moved(estate: Estate, query: str = "f1-0", slot: str = "n1/1", dataflow: str = "line"):
    return plan_move(estate, dataflow, query=query, slot=slot, task_types=TYPES, prices=PRICES)


def test_a_query_goes_on_elsewhere_with_its_channels_and_readers() -> None:
    estate = submit(submit(Estate(slots=TWO_NODES), LINE), OTHER)
    before = estate.fragments["f1-0"]
    plan = moved(estate)
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    heir = after.fragments[plan.steps[0].fragment]
    assert (heir.slot, heir.tasks, heir.inherits) == ("n1/1", before.tasks, ("f1-0",)) and "f1-0" not in after.fragments
    assert heir.outlets == before.outlets
    assert all(heir.channel_of(task) == before.channel_of(task) for task in before.outlets)
    assert plan.touched == ("other",), "who shares the query notices"
    back = apply_plan(after, undo(after, plan))
    assert cut_of(back) == cut_of(estate)


def test_nothing_moves_to_a_node_of_which_nothing_is_heard() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    by = {"query": "f1-0", "task_types": TYPES, "prices": PRICES, "silent": {"n2"}}
    with pytest.raises(InvalidTransition, match="n2 does not report") as raised:
        plan_move(estate, "line", slot="n2/0", **by)
    assert "n2" in raised.value.remedy
    assert plan_move(estate, "line", slot="n1/1", **by)


def test_nothing_moves_off_a_node_of_which_nothing_is_heard() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    by = {"query": "f1-0", "task_types": TYPES, "prices": PRICES, "silent": {"n1"}}
    for slot in ("n2/0", "n1/1"):
        with pytest.raises(InvalidTransition, match=r"n1.* does not report") as raised:
            plan_move(estate, "line", slot=slot, **by)
        assert "n1" in raised.value.remedy


def test_queries_of_several_dataflows_go_on_from_copies_by_one_plan() -> None:
    flows = [flow(name, {"s": ("sensors", {"seed": name}), "p": "alarm"}, "s > p") for name in ("a", "b", "c")]
    slots = (Slot("n1", 0), Slot("n2", 0), Slot("n3", 0))
    estate = Estate(slots=slots[:1])
    for dataflow in flows:
        estate = submit(estate, dataflow)
    estate = replace(estate, slots=slots)
    queries = {name: next(fragment.id for fragment in estate.fragments.values() if set(fragment.tasks) & set(
        estate.submitted[name].running.values())) for name in "abc"}
    assert len(set(queries.values())) == 3
    by = {"query": queries["a"], "slot": "n2/0", "task_types": TYPES, "prices": PRICES, "silent": {"n1"}}
    others = {queries["b"]: "n3/0", queries["c"]: "n2/0", "f9-9": "n2/0"}
    plan = plan_move(estate, "a", others=others, copied={queries["a"], queries["b"]}, **by)
    check_plan(estate, plan)
    assert plan.touched == ("b",), "c's query has no copy there, and waits for its node"
    after = apply_plan(estate, plan)
    slot_of = {fragment.inherits: fragment.slot for fragment in after.fragments.values()}
    assert slot_of == {(queries["a"],): "n2/0", (queries["b"],): "n3/0", (): "n1/0"}
    assert cut_of(apply_plan(after, undo(after, plan))) == cut_of(estate)
    alone = plan_move(estate, "a", others=dict.fromkeys(others, "n1/0"), copied=set(queries.values()), **by)
    assert len(alone.steps) == 1, "nothing goes to a node that is silent"
    divided = estate.fragments[queries["b"]]
    parts = (RunningBundle(divided.id, "n1/0", 1, 0.5), RunningBundle("f9-7", "n1/0", 1, 0.5))
    estate = replace(estate, fragments={**estate.fragments, divided.id: replace(divided, bundles=parts)})
    both = plan_move(
        estate, "a", others={divided.id: "n2/0", "f9-7": "n3/0"}, bundles={"f9-7": divided.id},
        copied={queries["a"], divided.id, "f9-7"}, **by)
    after = apply_plan(estate, both).fragments[divided.id]
    assert [(bundle.part, bundle.inherits, bundle.slot, bundle.origin) for bundle in after.bundles] == [
        (divided.id, (divided.id,), "n2/0", "n1"), ("f9-7", ("f9-7",), "n3/0", "n1")], "each bundle for itself"


def test_a_slot_that_is_closed_says_why() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    by = {"query": "f1-0", "task_types": TYPES, "prices": PRICES, "closed": {"n2/0": "n2 is drained"}}
    with pytest.raises(InvalidTransition, match="cannot be moved to n2/0: n2 is drained") as raised:
        plan_move(estate, "line", slot="n2/0", **by)
    assert raised.value.remedy
    assert plan_move(estate, "line", slot="n1/1", **by)


@pytest.mark.parametrize(("query", "slot", "error", "words"), [
    ("f9-9", "n1/1", NotFound, "has no query f9-9"),
    ("f1-0", "n1/9", NotFound, "no slot n1/9"),
    ("f1-0", "n1/0", InvalidTransition, "runs in n1/0 already"),
])
def test_what_cannot_be_is_told_with_a_remedy(query: str, slot: str, error: type, words: str) -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    with pytest.raises(error, match=words) as raised:
        moved(estate, query, slot)
    assert raised.value.remedy


def test_a_query_goes_to_another_node_and_back_before_it_is_there() -> None:
    estate = submit(submit(Estate(slots=TWO_NODES), LINE), OTHER)
    plan = moved(estate, slot="n2/0")
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    [heir] = [fragment for fragment in after.fragments.values() if fragment.slot == "n2/0"]
    assert (heir.inherits, heir.origin) == (("f1-0",), "n1")
    assert interruptions_of(plan) == [Interruption(estate.fragments["f1-0"].queries, between_nodes=True)]
    [within] = interruptions_of(moved(estate, slot="n1/1"))
    assert not within.between_nodes
    step = plan.steps[0]
    reports = {
        "n1": {"node": "n1", "version": 3, "slots": {"0": {"state": "running"}}},
        "n2": {"node": "n2", "version": 3, "slots": {"0": {
            "state": "running", "fragments": {heir.id: {"state": "running"}}}}}}
    assert steps_done(plan, EnactmentEvidence(Reports.of(reports))) == {step.key}
    reports["n1"]["handing_over"] = ["f1-0"]
    assert not steps_done(plan, EnactmentEvidence(Reports.of(reports))), "its node has not cleared away what it left"
    reports["n1"] |= {"version": 2, "handing_over": []}
    assert not steps_done(plan, EnactmentEvidence(Reports.of(reports))), "its node has not heard of it"
    del reports["n1"]
    assert not steps_done(plan, EnactmentEvidence(Reports.of(reports)))
    assert steps_done(plan, EnactmentEvidence(Reports.of(reports), gone={"n1"}))
    assert [interruption.between_nodes for interruption in interruptions_of(undo(after, plan))] == [True]
    back = apply_plan(after, undo(after, plan))
    [former] = [fragment for fragment in back.fragments.values() if fragment.inherits]
    assert (former.slot, former.inherits, former.origin) == ("n1/0", ("f1-0", heir.id), "n2")
    assert cut_of(back) == cut_of(estate)


@pytest.mark.parametrize(("name", "changes", "words"), [
    ("archive", {"terminal": "parquet"}, "archive writes files on n1"),
    ("archive", {"terminal": "connector", "writer": "a:b",
                 "parameters": (Parameter("name", "string", "Folder.", is_file=True),)}, "archive writes files on n1"),
    ("sensors", {"parameters": (Parameter("name", "string", "File.", default="out", is_file=True),)},
     "sensors reads a file on n1"),
    ("sensors", {"connector": "a:b", "keeps_on_node": True}, "sensors keeps how far it has read on n1"),
])
def test_what_is_on_the_node_stays_there(name: str, changes: dict, words: str) -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    task = next(task for task in estate.tasks.values() if task.type == name)
    estate = replace(estate, tasks={**estate.tasks, task.id: replace(task, config={"name": "some"})})
    types = TaskTypes([*(kind for kind in TYPES.values() if kind.name != name), replace(TYPES[name], **changes)])
    fragment = estate.fragments["f1-0"]
    assert why_not_to_other_nodes(estate, fragment, fragment.queries[0], task_types=types) == words
    assert slots_for(estate, fragment, fragment.queries[0], estate.slots, task_types=types) == ("n1/1",)
    with pytest.raises(InvalidTransition, match=words):
        plan_move(estate, "line", query="f1-0", slot="n2/0", task_types=types, prices=PRICES)
    assert plan_move(estate, "line", query="f1-0", slot="n1/1", task_types=types, prices=PRICES)


@pytest.mark.parametrize(("name", "changes"), [
    ("archive", {"terminal": "connector", "writer": "a:b"}),
    ("sensors", {"connector": "a:b", "parameters": (Parameter("name", "string", "Folder.", is_file=True),)}),
])
def test_what_connectors_read_and_write_goes_to_another_node(name: str, changes: dict) -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    task = next(task for task in estate.tasks.values() if task.type == name)
    estate = replace(estate, tasks={**estate.tasks, task.id: replace(task, config={"name": "s3://city/some"})})
    types = TaskTypes([*(kind for kind in TYPES.values() if kind.name != name), replace(TYPES[name], **changes)])
    fragment = estate.fragments["f1-0"]
    assert not why_not_to_other_nodes(estate, fragment, fragment.queries[0], task_types=types)
    plan = plan_move(estate, "line", query="f1-0", slot="n2/0", task_types=types, prices=PRICES)
    check_plan(estate, plan)


def test_what_reads_a_file_that_only_a_secret_names_stays_on_its_node() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    task = next(task for task in estate.tasks.values() if task.type == "archive")
    config = {"address": {"secret": "db", "team": "ana"}}
    estate = replace(estate, tasks={**estate.tasks, task.id: replace(task, config=config)})
    takes = replace(TYPES["archive"], parameters=(Parameter("address", "string", "Where.", secret=True),))
    types = TaskTypes([*(kind for kind in TYPES.values() if kind.name != "archive"), takes])
    by = {"task_types": types, "file_secrets": {("ana", "db")}}
    fragment = estate.fragments["f1-0"]
    [query] = fragment.queries
    assert why_not_to_other_nodes(estate, fragment, query, **by) == "archive reads a file on n1"
    assert slots_for(estate, fragment, query, estate.slots, **by) == ("n1/1",)
    with pytest.raises(InvalidTransition, match="reads a file on n1"):
        plan_move(estate, "line", query="f1-0", slot="n2/0", prices=PRICES, **by)
    by["file_secrets"] = {("ben", "db")}
    assert plan_move(estate, "line", query="f1-0", slot="n2/0", prices=PRICES, **by)


def test_state_that_cannot_be_handed_over_and_what_rests_stay() -> None:
    tasks = {"s": "sensors", "w": "window", "o": "archive"}
    with pytest.raises(InvalidTransition, match="window"):
        moved(submit(Estate(slots=TWO_NODES), flow("line", tasks, "s > w > o")))
    estate = pause(submit(submit(Estate(slots=TWO_NODES), LINE), OTHER), "line")
    assert "paused" in why_not_moved(estate, estate.fragments["f1-0"], task_types=TYPES)
    assert not why_not_moved(estate, estate.fragments["f1-0"], task_types=TYPES, from_copy=True)


def test_a_move_is_not_taken_back_once_others_have_changed_it() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    plan = moved(estate)
    after = apply_plan(estate, plan)
    with pytest.raises(InvalidTransition, match="gone"):
        undo(replace(after, slots=TWO_NODES[1:]), plan)
    again = apply_plan(after, moved(after, plan.steps[0].fragment, "n1/0"))
    with pytest.raises(InvalidTransition, match="changed again"):
        undo(again, plan)


def test_several_queries_go_together_and_come_back_together() -> None:
    estate = submit(submit(Estate(slots=TWO_NODES), LINE), OTHER)
    names = tuple(estate.fragments)
    assert len(names) == 2, "one reads from the other"
    target = next(slot.name for slot in TWO_NODES if slot.name not in {
        fragment.slot for fragment in estate.fragments.values()})
    dataflow = next(user for user, entry in estate.submitted.items() if {
        estate.places[task][0] for task in entry.running.values()} == set(names))
    plan = plan_move(
        estate, dataflow, query=names[0], along=names[1:], slot=target, task_types=TYPES, prices=PRICES)
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    heirs = [after.fragments[step.fragment] for step in plan.steps]
    assert {heir.slot for heir in heirs} == {target} and [heir.inherits for heir in heirs] == [(names[0],), (names[1],)]
    (reader,) = {reader for readers in heirs[0].outlets.values() for reader in readers}
    assert reader == heirs[1].id, "it reads from the one that goes with it"
    back = apply_plan(after, undo(after, plan))
    assert cut_of(back) == cut_of(estate)


def test_all_go_or_none() -> None:
    estate = submit(submit(Estate(slots=TWO_NODES), LINE), OTHER)
    (other,) = [name for name in estate.fragments if name != "f1-0"]
    taken = estate.fragments[other].slot
    with pytest.raises(NotFound, match=f"has no query {other}"):
        plan_move(estate, "line", query="f1-0", along=[other], slot="n2/0", task_types=TYPES, prices=PRICES)
    with pytest.raises(InvalidTransition, match=f"runs in {taken} already"):
        plan_move(estate, "other", query="f1-0", along=[other], slot=taken, task_types=TYPES, prices=PRICES)


@SHORT
@given(lives(longest=6), st.randoms())
def test_every_move_of_several_keeps_the_invariants_and_can_be_taken_back(life, chance) -> None:
    estate, reference = live(life)
    for dataflow, entry in sorted(estate.submitted.items()):
        homes = {estate.places[task][0] for task in entry.running.values()}
        if entry.paused:
            continue
        slot = chance.choice(estate.slots).name
        able = [name for name in sorted(homes) if not why_not_moved(estate, estate.fragments[name], task_types=TYPES)
                and slot in slots_for(estate, estate.fragments[name], estate.fragments[name].queries[0], estate.slots,
                                      task_types=TYPES)]
        if len(able) < 2:
            continue
        going = chance.sample(able, chance.randint(2, len(able)))
        plan = plan_move(
            estate, dataflow, query=going[0], along=going[1:], slot=slot, task_types=TYPES, prices=PRICES)
        check_plan(estate, plan)
        after = apply_plan(estate, plan)
        check_estate(after, reference)
        assert cut_of(apply_plan(after, undo(after, plan))) == cut_of(estate)


@SHORT
@given(lives(longest=6), st.sampled_from(["n1", "n2"]))
def test_what_rests_on_a_lost_node_goes_on_elsewhere_and_rests_there(life, lost) -> None:
    estate, reference = live(life)
    slot = next(slot.name for slot in estate.slots if slot.node != lost)
    going = [name for name, fragment in sorted(estate.fragments.items())
             if node_of(fragment.slot) == lost
             and not why_not_moved(estate, fragment, task_types=TYPES, from_copy=True)
             and not why_not_to_other_nodes(estate, fragment, fragment.queries[0], task_types=TYPES)]
    if not going:
        return
    dataflow = next(iter(estate.users[estate.fragments[going[0]].kept_tasks[0]]))
    plan = plan_move(
        estate, dataflow, query=going[0], slot=slot, others=dict.fromkeys(going[1:], slot), copied=going, silent={lost},
        task_types=TYPES, prices=PRICES)
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    check_estate(after, reference)
    heirs = {fragment.inherits[-1]: fragment for fragment in after.fragments.values() if fragment.inherits}
    for name in going:
        before, heir = estate.fragments[name], heirs[name]
        assert (heir.slot, heir.kept_tasks, heir.active_tasks, heir.resting) == (
            slot, before.kept_tasks, before.active_tasks, before.resting)
    if any(fragment.resting for fragment in map(estate.fragments.__getitem__, going)):
        with pytest.raises(InvalidTransition, match="paused"):
            undo(after, plan)
    for name in sorted(after.submitted):
        after = resume(after, name) if after.submitted[name].paused else after
    check_estate(after, reference)


@SHORT
@given(lives(longest=6), st.randoms())
def test_every_move_keeps_the_invariants_and_can_be_taken_back(life, chance) -> None:
    estate, reference = live(life)
    for name, fragment in sorted(estate.fragments.items()):
        slots = slots_for(estate, fragment, fragment.queries[0], estate.slots, task_types=TYPES)
        if why_not_moved(estate, fragment, task_types=TYPES) or not slots:
            continue
        slot = chance.choice(slots)
        stays = why_not_to_other_nodes(estate, fragment, fragment.queries[0], task_types=TYPES)
        assert slot != fragment.slot and (not stays or node_of(slot) == node_of(fragment.slot))
        dataflow = next(user for user in estate.users[fragment.active_tasks[0]] if not estate.submitted[user].paused)
        plan = moved(estate, name, slot, dataflow)
        check_plan(estate, plan)
        after = apply_plan(estate, plan)
        check_estate(after, reference)
        assert cut_of(apply_plan(after, undo(after, plan))) == cut_of(estate)
