"""Reconciliation under random wishes, failures and crashes: it converges, and does nothing that it must not."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.partitioning import Quota
from scheduler.model.dataflow import Task
from scheduler.model.errors import InvalidTransition
from workers.engine.agents.backoff import HEALTHY_MS, delay_ms, failures_after
from workers.engine.agents.reconciling.fragment_run import check_transition
from workers.engine.agents.reconciling.handover_stages import HandoverStage
from workers.engine.agents.reconciling.reconcile import (
    ActivateRoutes,
    Actual,
    CloseOutlet,
    CloseTail,
    CopyState,
    DivideStream,
    End,
    FragmentState,
    Leave,
    OpenOutlet,
    OpenTail,
    Pause,
    RegisterReaders,
    Repace,
    Restart,
    Start,
    Stop,
    UnregisterReaders,
    Unroute,
    reconcile,
)

NAMES = [f"f1-{n}" for n in range(5)]
READERS = [*NAMES[2:], "f2-0", "f2-1"]  # some run on the same slot
LENGTH = 3

wishes = st.fixed_dictionaries(
    {},
    optional={
        name: st.builds(
            WantedFragment,
            id=st.just(name),
            tasks=st.just(tuple(Task(f"t{n}", "any") for n in range(LENGTH))),
            outlets=st.dictionaries(
                st.integers(0, LENGTH - 1), st.frozensets(st.sampled_from(READERS), min_size=1), max_size=2
            ),
            active=st.integers(1, LENGTH),
        )
        for name in NAMES
    },
)


class Slot(RuleBasedStateMachine):
    """A slot without Spark: actions take time, may fail, and the slot may die at any moment."""

    @initialize()
    def begin(self):
        self.now_ms = 0
        self.desired: dict[str, WantedFragment] = {}
        self.actual: dict[str, Actual] = {}
        self.under_way: dict[str, list] = {}
        self.queries: set[str] = set()

    @rule(wish=wishes)
    def wish(self, wish):
        self.desired = wish

    @rule(passed_ms=st.integers(0, 70_000))
    def wait(self, passed_ms):
        self.now_ms += passed_ms

    @rule()
    def tick(self):
        actions = reconcile(self.desired.values(), self.actual, self.now_ms)
        assert actions == reconcile(self.desired.values(), self.actual, self.now_ms)
        by_fragment: dict[str, list] = {}
        for action in actions:
            by_fragment.setdefault(action.fragment_id, []).append(action)
        for name, todo in by_fragment.items():
            assert name not in self.under_way, "two actions on a fragment at once"
            self.check(name, todo)
            self.under_way[name] = todo
            run = self.actual.get(name)
            state = run.state if run else FragmentState.STOPPED
            if isinstance(todo[0], Start):
                state = FragmentState.STARTING
            elif isinstance(todo[0], Stop):
                state = FragmentState.DRAINING
            self.actual[name] = Actual(
                name, state, busy=True, outlets=run.outlets if run else {}, active=run.active if run else 1
            )

    def check(self, name, todo):
        run = self.actual.get(name)
        if run and run.retry_at_ms is not None and run.retry_at_ms > self.now_ms:
            assert isinstance(todo[0], Stop) and run.state is not FragmentState.STOPPED, "acted before its time"
        for action in todo:
            if isinstance(action, Start):
                assert name in self.desired and name not in self.queries, "started twice or unasked"
            elif isinstance(action, Stop):
                assert name not in self.desired, "stopped what is desired"
            elif isinstance(action, CloseOutlet):
                assert not self.desired[name].outlets.get(action.position), "closed an outlet that is read"
                assert action.readers == run.outlets[action.position]
            elif isinstance(action, UnregisterReaders):
                assert not action.readers & self.desired[name].outlets.get(action.position, frozenset())
            if isinstance(action, CloseOutlet | UnregisterReaders):
                assert not action.readers & (self.actual.keys() - self.desired.keys()), "let go before it stopped"
            if isinstance(action, Start | Stop):
                continue
            if isinstance(action, OpenOutlet | RegisterReaders):
                assert action.readers <= self.desired[name].outlets[action.position]
            elif isinstance(action, CloseTail | OpenTail):
                assert action.active == self.desired[name].active

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), succeeds=st.booleans())
    def finish(self, data, succeeds):
        self.complete(data.draw(st.sampled_from(sorted(self.under_way))), succeeds=succeeds)

    @precondition(lambda self: self.queries - set(self.under_way))
    @rule(data=st.data())
    def fail(self, data):
        name = data.draw(st.sampled_from(sorted(self.queries - set(self.under_way))))
        self.queries.discard(name)
        run = self.actual[name]
        self.actual[name] = Actual(
            name, FragmentState.BACKOFF, outlets=run.outlets, active=run.active, retry_at_ms=self.now_ms + 1_000
        )

    @rule()
    def crash(self):
        self.under_way.clear()
        self.queries.clear()
        self.actual = {
            name: Actual(name, FragmentState.STOPPED, outlets=run.outlets, active=run.active)
            for name, run in self.actual.items()
        }

    def complete(self, name, *, succeeds):
        run = self.actual[name]
        state, outlets, active = run.state, dict(run.outlets), run.active
        retry_at_ms = None if succeeds else self.now_ms + 1_000
        for action in self.under_way.pop(name):
            if isinstance(action, Start):
                state = FragmentState.RUNNING if succeeds else FragmentState.BACKOFF
                if succeeds:
                    self.queries.add(name)
                    outlets, active = dict(action.fragment.outlets), action.fragment.active
            elif isinstance(action, Stop):
                self.queries.discard(name)
                if succeeds:
                    del self.actual[name]
                    return
                state = FragmentState.STOPPED
            elif not succeeds:
                break
            elif isinstance(action, OpenOutlet | RegisterReaders):
                outlets[action.position] = outlets.get(action.position, frozenset()) | action.readers
            elif isinstance(action, UnregisterReaders | CloseOutlet):
                outlets[action.position] = outlets[action.position] - action.readers
            else:
                active = action.active
        outlets = {position: readers for position, readers in outlets.items() if readers}
        self.actual[name] = Actual(name, state, outlets=outlets, active=active, retry_at_ms=retry_at_ms)

    @invariant()
    def running_means_a_query(self):
        for name, run in getattr(self, "actual", {}).items():
            if run.state is FragmentState.RUNNING:
                assert name in self.queries

    def teardown(self):
        """Whatever came before: once wishes rest and nothing fails, a few rounds make it so, and then all is quiet."""
        if not hasattr(self, "actual"):
            return
        for _ in range(5):
            self.now_ms += 70_000
            for name in sorted(self.under_way):
                self.complete(name, succeeds=True)
            self.tick()
        assert reconcile(self.desired.values(), self.actual, self.now_ms) == ()
        assert self.queries == set(self.desired) == set(self.actual)
        for name, wanted in self.desired.items():
            assert self.actual[name].outlets == wanted.outlets and self.actual[name].active == wanted.active


TestSlot = Slot.TestCase
TestSlot.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def fragment(name: str, **changes) -> WantedFragment:
    return WantedFragment(id=name, tasks=(Task("t", "any"), Task("u", "any")), **changes)


def test_starts_keep_the_order_upstream_first():
    upstream = fragment("f9-0", outlets={1: frozenset({"f1-0"})})
    reader = fragment("f1-0", inputs=(Input(channel="f9-0.1", task="u"),))
    assert reconcile([upstream, reader], {}, 0) == (Start(upstream), Start(reader))


def test_a_running_fragment_is_changed_in_place_and_opens_before_it_closes():
    actual = {
        "f1-0": Actual(
            "f1-0", FragmentState.RUNNING, outlets={0: frozenset({"a", "b"}), 1: frozenset({"c"})}, active=2)}
    wanted = fragment("f1-0", outlets={0: frozenset({"b", "d"})}, active=1)
    assert reconcile([wanted], actual, 0) == (
        RegisterReaders("f1-0", 0, frozenset({"d"})),
        UnregisterReaders("f1-0", 0, frozenset({"a"})),
        CloseOutlet("f1-0", 1, frozenset({"c"})),
        CloseTail("f1-0", 1),
    )


def test_a_reader_that_is_being_stopped_keeps_its_place_until_it_is_gone():
    wanted = fragment("f1-0", active=2)
    running = Actual("f1-0", FragmentState.RUNNING, outlets={0: frozenset({"f2-0"})}, active=2)
    reader = Actual("f2-0", FragmentState.DRAINING, busy=True)
    assert reconcile([wanted], {"f1-0": running, "f2-0": reader}, 0) == ()
    assert reconcile([wanted], {"f1-0": running}, 0) == (CloseOutlet("f1-0", 0, frozenset({"f2-0"})),)


def test_a_fragment_that_moves_to_another_slot_keeps_what_it_left():
    actual = {"f1-0": Actual("f1-0", FragmentState.RUNNING)}
    assert reconcile([], actual, 0, elsewhere=frozenset({"f1-0"})) == (Stop("f1-0", keep=True),)
    assert reconcile([], actual, 0) == (Stop("f1-0", keep=False),)


def test_a_paused_fragment_comes_to_rest_once_and_starts_again():
    wanted, paused = fragment("f1-0", active=2), fragment("f1-0", active=0)
    running, rests = Actual("f1-0", FragmentState.RUNNING, active=2), Actual("f1-0", FragmentState.STOPPED)
    assert reconcile([paused], {"f1-0": running}, 0) == (Pause(paused),)
    assert reconcile([paused], {"f1-0": rests}, 0) == (Pause(paused),), "the slot died before it was at rest"
    assert reconcile([paused], {"f1-0": rests}, 0, resting=frozenset({"f1-0"})) == ()
    assert reconcile([paused], {}, 0) == (), "what never ran needs no pause"
    assert reconcile([wanted], {"f1-0": rests}, 0, resting=frozenset({"f1-0"})) == (Start(wanted),)


def test_a_fragment_that_hands_over_works_until_its_turn_and_is_cleared_away_last():
    outgoing, running = fragment("f1-0", active=2), {"f1-0": Actual("f1-0", FragmentState.RUNNING, active=2)}
    waiting = {"f1-0": Actual("f1-0", FragmentState.WAITING)}

    def actions(stage: HandoverStage, actual: dict) -> tuple:
        return reconcile([], actual, 0, outgoing=[(outgoing, stage)])

    assert actions(HandoverStage.WORK, running) == () and actions(HandoverStage.WORK, {}) == (Start(outgoing),)
    assert actions(HandoverStage.END, running) == actions(HandoverStage.END, waiting) == actions(
        HandoverStage.END, {}) == (End(outgoing),)
    assert actions(HandoverStage.ENDED, {"f1-0": Actual("f1-0", FragmentState.STOPPED)}) == ()
    assert actions(HandoverStage.OVER, {}) == (Stop("f1-0", keep=False),)
    assert actions(HandoverStage.END, {"f1-0": Actual("f1-0", FragmentState.RUNNING, busy=True)}) == ()


def test_a_query_that_rests_since_the_broker_was_away_goes_on_before_it_ends_or_pauses():
    outgoing, paused, due = fragment("f1-0"), fragment("f1-0", active=0), ActivateRoutes("f1-0")

    def resting(state: FragmentState) -> dict[str, Actual]:
        return {"f1-0": Actual("f1-0", state, activate_at_ms=5)}

    def ending(state: FragmentState, now_ms: int) -> tuple:
        return reconcile([], resting(state), now_ms, outgoing=[(outgoing, HandoverStage.END)])

    assert ending(FragmentState.RUNNING, 4) == ending(FragmentState.STOPPED, 5) == (End(outgoing),)
    assert ending(FragmentState.RUNNING, 5) == (due, End(outgoing))
    assert reconcile([paused], resting(FragmentState.RUNNING), 5) == (due, Pause(paused))
    assert reconcile([paused], resting(FragmentState.STOPPED), 5) == (Pause(paused),)


def test_a_reader_that_hands_over_keeps_its_place_for_its_successor():
    wanted = fragment("f1-0", active=2, outlets={0: frozenset({"new"})}, heirs={"new": ("old",)})
    running = {"f1-0": Actual("f1-0", FragmentState.RUNNING, outlets={0: frozenset({"old", "gone"})}, active=2)}
    assert reconcile([wanted], running, 0) == (
        RegisterReaders("f1-0", 0, frozenset({"new"})), UnregisterReaders("f1-0", 0, frozenset({"gone"})))
    alone = fragment("f1-0", active=2)
    assert reconcile([alone], running, 0, staying=frozenset({"old"})) == (
        UnregisterReaders("f1-0", 0, frozenset({"gone"})),)


def test_who_is_to_read_parts_keeps_its_place_in_the_whole_and_so_do_those_before_it():
    weights = Quota({"heir": 0.5, "new": 0.5})
    wanted = fragment("f1-0", active=2, routes={0: {"heir": weights}}, heirs={"heir": ("old",)})
    running = {"f1-0": Actual("f1-0", FragmentState.RUNNING, outlets={0: frozenset({"old", "heir", "gone"})}, active=2)}
    assert reconcile([wanted], running, 0) == (
        DivideStream("f1-0", 0, "heir", weights), UnregisterReaders("f1-0", 0, frozenset({"gone"})))


def test_streams_are_divided_anew_without_a_restart_and_no_longer_once_the_reader_is_gone():
    weights, before = Quota({"f2-0": 0.25, "f2-1": 0.75}), Quota({"f2-0": 1.0})
    wanted = fragment("f1-0", active=2, routes={1: {"f2-0": weights}})
    running = Actual(
        "f1-0", FragmentState.RUNNING, active=2, routes={0: {"f3-0": Quota({"f3-0": 1.0})}, 1: {"f2-0": before}})
    assert reconcile([wanted], {"f1-0": running}, 0) == (
        DivideStream("f1-0", 1, "f2-0", weights), Unroute("f1-0", 0, "f3-0"))
    stopping = Actual("f3-0", FragmentState.DRAINING, busy=True)
    assert reconcile([wanted], {"f1-0": running, "f3-0": stopping}, 0) == (DivideStream("f1-0", 1, "f2-0", weights),)
    done = Actual("f1-0", FragmentState.RUNNING, active=2, routes={1: {"f2-0": weights}})
    assert reconcile([wanted], {"f1-0": done}, 0) == ()


def test_other_inputs_or_threads_need_a_restart_after_all_that_does_not():
    first, two = Input("f1-0.0@f2-0", "p"), Input("f1-1.0@f2-0", "p")
    wanted = fragment("f2-0", active=2, inputs=(first, two), routes={0: {"f3-0": {"f3-0": 1.0}}})
    running = Actual("f2-0", FragmentState.RUNNING, active=2, inputs=(first,))
    assert reconcile([wanted], {"f2-0": running}, 0) == (
        DivideStream("f2-0", 0, "f3-0", Quota({"f3-0": 1.0})), Restart(wanted))
    turned = Actual("f2-0", FragmentState.RUNNING, active=2, inputs=(two, first), routes=wanted.routes)
    assert reconcile([wanted], {"f2-0": turned}, 0) == (), "their order is nothing to restart for"
    threads = fragment("f2-0", active=2, inputs=(first, two), routes=wanted.routes, threads=3)
    assert reconcile([threads], {"f2-0": turned}, 0) == (Restart(threads),)


@pytest.mark.parametrize(("paced_ms", "gives", "waits", "at_work"), [
    (5_000, 500, None, None), (500, None, None, 5_000), (100, None, None, 5_000), (9_000, 500, 5_000, 5_000)])
def test_who_keys_stand_still_for_has_its_batches_soon_and_afterwards_as_is_wanted(paced_ms, gives, waits, at_work):
    """By how far apart its batches are now: how far it is asked to have them, while it gives keys away, while it has
    still to read where keys go on, and else."""
    before, after = Input("f1-0.0", "p"), Input("f2-0.0", "p", after=("f1-0.0",))
    giver, reader = fragment("f1-0", trigger_ms=5_000), fragment("f1-0", trigger_ms=5_000, inputs=(before, after))

    def paced(wanted: WantedFragment, *reads: Input, saving: tuple = ()) -> int | None:
        running = Actual("f1-0", FragmentState.RUNNING, active=wanted.active, inputs=reads, trigger_ms=paced_ms)
        actions = reconcile([wanted], {"f1-0": running}, 0, saving=saving)
        return next((action.trigger_ms for action in actions if isinstance(action, Repace)), None)

    assert paced(giver, saving=(CopyState(giver, heir=fragment("f2-0")),)) == gives
    assert paced(reader, before) == waits
    assert paced(reader, before, after) == at_work and paced(giver) == at_work


def test_a_bundle_that_leaves_works_until_it_has_left_whatever_becomes_of_its_slot():
    leaving = fragment("f2-0", active=2, leaving=True, routes={0: {"f3-0": {"f3-0": 1.0}}})
    running = Actual("f2-0", FragmentState.RUNNING, active=2)
    assert reconcile([leaving], {"f2-0": running}, 0) == (
        DivideStream("f2-0", 0, "f3-0", Quota({"f3-0": 1.0})), Leave(leaving))
    for actual in (
            {}, {"f2-0": Actual("f2-0", FragmentState.STOPPED)}, {"f2-0": Actual("f2-0", FragmentState.BACKOFF)}):
        assert reconcile([leaving], actual, 0) == (Leave(leaving),)
        assert reconcile([leaving], actual, 0, left_ids=frozenset({"f2-0"})) == ()
    back = fragment("f2-0", active=2)
    rests = {"f2-0": Actual("f2-0", FragmentState.STOPPED)}
    assert reconcile([back], rests, 0, left_ids=frozenset({"f2-0"})) == (Start(back),), "it is wanted again"
    assert reconcile([], rests, 0) == (Stop("f2-0", keep=False),), "a later plan drops it"


def test_the_backoff_doubles_to_a_minute_and_begins_anew_after_health():
    assert [delay_ms(failures) for failures in range(1, 9)] == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert failures_after(4, ran_ms=HEALTHY_MS - 1) == 5
    assert failures_after(4, ran_ms=HEALTHY_MS) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FragmentState.RUNNING, FragmentState.STARTING), (FragmentState.STOPPED, FragmentState.RUNNING),
        (FragmentState.DRAINING, FragmentState.RUNNING)],
)
def test_a_move_that_the_table_lacks_is_refused(before, after):
    with pytest.raises(InvalidTransition):
        check_transition("f1-0", before, after)
