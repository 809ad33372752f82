"""Kinds of steps: each is complete, has its reverse, and is done when the reports say so."""

from __future__ import annotations

import string
from dataclasses import fields

import pytest

from scheduler import step_kinds
from scheduler.contracts.reports import Reports
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.plan import Plan, Step
from scheduler.step_kinds import STEP_KINDS, EnactmentEvidence, StepKind, in_order

WORDS = {  # that a step's words may use: what dashboard.approvals.wording knows of a step
    "fragment", "slot", "queries", "tasks", "task", "reader", "active", "active_before", "inherits", "bundle",
    "bundle_before", "place", "threads", "threads_before", "place_before", "weights", "setting",
    "of_key", "alternate"}


@pytest.mark.parametrize("kind", STEP_KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_is_complete_and_has_its_reverse(kind: StepKind) -> None:
    assert {field.name: getattr(kind, field.name) for field in fields(kind) if getattr(kind, field.name) is None} == {}
    assert STEP_KINDS[STEP_KINDS[kind.reverse].reverse] is kind
    assert {name for _, name, _, _ in string.Formatter().parse(kind.words) if name} <= WORDS


def test_every_kind_that_is_declared_is_registered() -> None:
    declared = {kind for kind in vars(step_kinds).values() if isinstance(kind, StepKind)}
    assert set(STEP_KINDS.values()) == declared


def test_a_step_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        steps_done(plan(Step("close_everything", "f1-0")), report(**{"f1-0": RUNNING}))
    with pytest.raises(KeyError):
        in_order([Step("close_everything", "f1-0")])


def steps_done(plan: Plan, reports: dict, **facts: set[str]) -> set[str]:
    return step_kinds.steps_done(plan, EnactmentEvidence(Reports.of(reports), **facts))


def report(*, state="running", **fragments):
    return {"n1": {"node": "n1", "version": 1, "slots": {"0": {"state": state, "fragments": fragments}}}}


def plan(*steps: Step) -> Plan:
    after = Fragment("f1-0", ("s", "p", "k"), "n1/0", 2, {"p": ("f2-0",)}, inherits=("f0-0",))
    return Plan(
        kind="submit", generation=1, dataflow=Submitted("d", "d", "t", {}, ()), reused=(), started=(), stopped=(),
        steps=steps, fragments_before={"f0-0": Fragment("f0-0", ("x",), "n1/0", 1)}, fragments_after={"f1-0": after},
    )


RUNNING = {"state": "running", "active": 3, "outlets": {}}
CASES = [
    (Step("start_fragment", "f1-0"), {"f1-0": RUNNING}, {"f1-0": {**RUNNING, "state": "waiting"}}),
    (Step("open_outlet", "f1-0", task="p", reader="f2-0"),
     {"f1-0": {**RUNNING, "outlets": {"1": ["f2-0", "f3-0"]}}}, {"f1-0": {**RUNNING, "outlets": {"0": ["f2-0"]}}}),
    (Step("close_outlet", "f1-0", task="p", reader="f2-0"),
     {"f1-0": {**RUNNING, "outlets": {"1": ["f3-0"]}}}, {"f1-0": {**RUNNING, "outlets": {"1": ["f2-0"]}}}),
    (Step("close_tail", "f1-0", active=2, active_before=3), {"f1-0": {**RUNNING, "active": 2}}, {"f1-0": RUNNING}),
    (Step("open_tail", "f1-0", active=3, active_before=2), {"f1-0": RUNNING}, {"f1-0": {**RUNNING, "active": 2}}),
    (Step("stop_fragment", "f0-0"), {}, {"f0-0": {**RUNNING, "state": "draining"}}),
    (Step("pause_fragment", "f1-0"), {"f1-0": {**RUNNING, "state": "stopped"}}, {"f1-0": RUNNING}),
    (Step("resume_fragment", "f1-0"), {"f1-0": RUNNING}, {"f1-0": {**RUNNING, "state": "stopped"}}),
    (Step("hand_over", "f1-0"), {"f1-0": RUNNING}, {"f1-0": RUNNING, "f0-0": {**RUNNING, "state": "draining"}}),
]


@pytest.mark.parametrize(("step", "done", "not_yet"), CASES, ids=[step.kind for step, _, _ in CASES])
def test_a_step_is_done_when_the_report_says_so(step, done, not_yet):
    assert steps_done(plan(step), report(**done)) == {step.key}
    assert steps_done(plan(step), report(**not_yet)) == set()
    assert steps_done(plan(step), {}) == set(), "a node that does not report proves nothing"
    assert steps_done(plan(step), report(state="starting", **done)) == set()


BUNDLES = (RunningBundle("f1-0", "n1/0", 3, 0.75), RunningBundle("f2-0", "n2/0", 1, 0.25))
LEAVING = RunningBundle("f1-5", "n2/0", 1, 0.0)
WEIGHTS = {"f1-0": 0.75, "f2-0": 0.25, "f1-5": 0.0}


def of_divided(*steps: Step) -> Plan:
    after = Fragment("f1-0", ("p",), "n1/0", 1, {"p": ("f9-0",)}, bundles=(*BUNDLES, LEAVING))
    return Plan(
        kind="schedule", generation=1, dataflow=Submitted("d", "d", "t", {}, ()), reused=(), started=(), stopped=(),
        steps=steps, fragments_before={"f1-0": after}, fragments_after={"f1-0": after})


def nodes(first: dict, second: dict) -> dict:
    return {
        node: {"node": node, "version": 2, "slots": {"0": {"state": "running", "fragments": fragments}}}
        for node, fragments in (("n1", first), ("n2", second))}


ONE = {"state": "running", "active": 1, "outlets": {}, "threads": 3}
TWO = {"state": "running", "active": 1, "outlets": {}}
STARTING = {**TWO, "state": "starting"}
WRITER = {"w": {**TWO, "routes": {"0": {"f1-0": WEIGHTS}}}}
OLD_WRITER = {"w": {**TWO, "routes": {"0": {"f1-0": {"f1-0": 1.0}}}}}
OF_BUNDLES = [
    (Step("start_bundle", "f1-0", bundle="f2-0"), ({"f1-0": ONE}, {"f2-0": TWO}), ({"f1-0": ONE}, {"f2-0": STARTING})),
    (Step("move_bundle", "f1-0", bundle="f1-0"), ({"f1-0": ONE}, {}), ({"f1-0": {**ONE, "threads": 1}}, {})),
    (Step("leave_bundle", "f1-0", bundle="f1-5"), ({}, {"f1-5": {**TWO, "state": "left"}}), ({}, {"f1-5": TWO})),
    (Step("route", "f1-0"), (WRITER, WRITER), (WRITER, OLD_WRITER)),
    (Step("start_fragment", "f1-0"), ({"f1-0": ONE}, {"f2-0": TWO}), ({"f1-0": ONE}, {})),
    (Step("stop_fragment", "f1-0"), ({}, {}), ({}, {"f1-5": TWO})),
    (Step("open_outlet", "f1-0", task="p", reader="f9-0"),
     ({"f1-0": {**ONE, "outlets": {"0": ["f9-0"]}}}, {"f2-0": {**TWO, "routes": {"0": {"f9-0": {"f9-0": 1.0}}}}}),
     ({"f1-0": {**ONE, "outlets": {"0": ["f9-0"]}}}, {"f2-0": TWO})),
]


@pytest.mark.parametrize(("step", "done", "not_yet"), OF_BUNDLES, ids=[step.kind for step, _, _ in OF_BUNDLES])
def test_a_step_of_a_divided_fragment_is_done_when_all_its_bundles_say_so(step, done, not_yet):
    assert steps_done(of_divided(step), nodes(*done)) == {step.key}
    assert steps_done(of_divided(step), nodes(*not_yet)) == set()
    assert steps_done(of_divided(step), {}) == set()


def test_what_was_to_stop_on_a_node_that_was_taken_out_has_stopped():
    step = Step("leave_bundle", "f1-0", bundle="f1-5")
    assert steps_done(of_divided(step), {}, gone={"n1"}) == set()
    assert steps_done(of_divided(step), {}, gone={"n2"}) == {step.key}
    whole, (first, _) = Step("stop_fragment", "f1-0"), ({}, {"f1-5": TWO})
    reports = {"n1": nodes(first, {})["n1"]}
    assert steps_done(of_divided(whole), reports) == set()
    assert steps_done(of_divided(whole), reports, gone={"n2"}) == {whole.key}


def test_what_was_to_stop_on_a_slot_that_is_offered_no_more_has_stopped():
    step = Step("leave_bundle", "f1-0", bundle="f1-5")
    fewer = {"n2": {"node": "n2", "version": 2, "slots": {}}}
    assert steps_done(of_divided(step), fewer) == set()
    [leaving] = [bundle for bundle in of_divided(step).fragments_after["f1-0"].queries if bundle.id == "f1-5"]
    assert steps_done(of_divided(step), fewer, gone={leaving.slot}) == {step.key}


def test_weights_are_in_force_once_every_node_that_is_awaited_says_so():
    plan = of_divided(Step("route", "f1-0"))
    assert steps_done(plan, nodes(WRITER, {}), awaited={"n1", "n2"}) == {"route:f1-0"}
    assert steps_done(plan, nodes(WRITER, {}), awaited={"n1", "n3"}) == set()


def test_who_has_left_is_told_by_the_reports():
    reports = nodes({"f1-0": ONE}, {"f1-5": {**TWO, "state": "left"}})
    assert Reports.of(reports).left == {"f1-5"}
    gone = {"w": {**OLD_WRITER["w"], "state": "left"}}
    assert steps_done(of_divided(Step("route", "f1-0")), nodes(WRITER, gone)) == {"route:f1-0"}


@pytest.mark.parametrize(("step", "active", "is_done"), [
    (Step("start_fragment", "f1-0"), {"f1-0": 0}, True),
    (Step("start_fragment", "f1-0"), {"f1-0": 2}, False),
    (Step("start_fragment", "f1-0"), {}, False),
    (Step("open_tail", "f1-0", active=3, active_before=2), {"f1-0": 2}, True),
    (Step("open_outlet", "f1-0", task="p", reader="f2-0"), {"f1-0": 2, "f2-0": 0}, True),
    (Step("open_outlet", "f1-0", task="p", reader="f2-0"), {"f1-0": 2, "f2-0": 1}, False),
    (Step("stop_fragment", "f0-0"), {"f1-0": 0}, False)])
def test_what_a_later_plan_has_put_to_rest_is_waited_for_no_more(step, active, is_done):
    starting = {"f0-0": RUNNING, "f1-0": {**RUNNING, "state": "starting", "active": 2}}
    assert steps_done(plan(step), report(**starting), active=active) == ({step.key} if is_done else set())
