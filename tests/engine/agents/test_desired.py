"""The desired state: what the estate wants of a node, and that an older one never replaces a newer."""

import json
from dataclasses import replace

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import (
    DESIRED_STATES,
    WANTED_FRAGMENTS,
    ChannelWriter,
    DesiredState,
    Input,
    WantedFragment,
    WantedSlot,
)
from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate, Submitted
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.task_types import TaskType
from workers.engine import desired_publishing

TYPES = {name: TaskType(name=name, kind="transform", doc="", build="a:b") for name in ("source", "parse", "sink")}


def task(name: str, type_name: str, *parents: str) -> RunningTask:
    return RunningTask(id=name, type=type_name, config={"k": name}, parents=parents)


def estate() -> Estate:
    """A source fragment on n1 read by one on n2 and one on n1; the first one's last task is paused and gone."""
    return Estate(
        generation=7,
        tasks={running.id: running for running in (
            task("s", "source"), task("p", "parse", "s"), task("k", "sink", "p"), task("q", "sink", "s", "p")
        )},
        fragments={fragment.id: fragment for fragment in (
            Fragment("f2-0", ("k",), "n1/1", 1),
            Fragment("f3-0", ("q",), "n2/0", 1),
            Fragment("f1-0", ("s", "p", "gone"), "n1/0", 2, {"p": ("f3-0", "f2-0"), "s": ("f3-0",)}),
        )},
        slots=(Slot("n1", 0), Slot("n1", 1), Slot("n2", 0)),
    )


def wanted_of(whole: Estate, node: str) -> dict:
    """The JSON document of a node's desired state."""
    return DESIRED_STATES.document(desired_publishing.desired_of(whole, node, TYPES))


def test_a_node_sees_its_own_part():
    document = DESIRED_STATES.document(desired_publishing.desired_of(estate(), "n1", TYPES, 150))
    assert (document["version"], document["node"], set(document["slots"])) == (7, "n1", {"0", "1"})
    [first] = document["slots"]["0"]["fragments"]
    assert first == {
        "id": "f1-0",
        "tasks": [
            {"id": "s", "type": "source", "config": {"k": "s"}}, {"id": "p", "type": "parse", "config": {"k": "p"}}
        ],
        "inputs": [],
        "outlets": {"0": ["f3-0"], "1": ["f2-0", "f3-0"]},
        "active": 2,
        "trigger_ms": 150,
    }
    [second] = document["slots"]["1"]["fragments"]
    assert second["inputs"] == [{"channel": "f1-0.1", "task": "p"}]
    other = wanted_of(estate(), "n2")
    [third] = other["slots"]["0"]["fragments"]
    assert third["inputs"] == [{"channel": "f1-0.0", "task": "s"}, {"channel": "f1-0.1", "task": "p"}]
    assert json.loads(json.dumps(document)) == document


def test_fragments_come_upstream_first_within_a_slot():
    whole = estate()
    moved = {name: replace(fragment, slot="n1/0") for name, fragment in whole.fragments.items()}
    document = wanted_of(
        Estate(generation=1, tasks=whole.tasks, fragments=moved, slots=whole.slots), "n1")
    assert [entry["id"] for entry in document["slots"]["0"]["fragments"]] == ["f1-0", "f2-0", "f3-0"]


def test_a_circle_of_fragments_is_refused():
    fragments = {
        "a": Fragment("a", ("s",), "n1/0", 1, {"s": ("b",)}), "b": Fragment("b", ("p",), "n1/0", 1, {"p": ("a",)})
    }
    with pytest.raises(ValueError, match="circle"):
        desired_publishing.desired_of(Estate(tasks=estate().tasks, fragments=fragments), "n1", TYPES)


@pytest.mark.broker
@given(versions=st.permutations(range(5)))
def test_the_newest_version_stays_whatever_order_it_came_in(broker_url, versions):
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        standing = -1
        for version in versions:
            accepted = desired_publishing.publish(client, DesiredState(version, "n1"))
            assert accepted == (version > standing)
            standing = max(standing, version)
        assert desired_publishing.read(client, "n1").version == 4
        assert desired_publishing.publish(
            client, DesiredState(4, "n1", generation=3)), "the same version again may say more"


@pytest.mark.broker
def test_a_publication_tells_the_node(broker):
    with broker.pubsub(ignore_subscribe_messages=True) as pushes:
        pushes.subscribe("weir:push")
        while not broker.pubsub_numsub("weir:push")[0][1]:
            pass
        desired_publishing.publish(broker, DesiredState(1, "n1"))
        message = None
        while message is None:
            message = pushes.get_message(timeout=5)
    assert message["data"] == b"n1"


names = st.from_regex(r"[abc-][abc.-]{0,4}", fullmatch=True)
tasks = st.builds(Task, id=names, type=names, config=st.dictionaries(names, st.integers()))
fragments = st.builds(
    WantedFragment,
    id=names,
    tasks=st.lists(tasks, max_size=3).map(tuple),
    inputs=st.lists(st.builds(Input, channel=names, task=names), max_size=2).map(tuple),
    outlets=st.dictionaries(st.integers(0, 5), st.frozensets(names, min_size=1), max_size=2),
    active=st.integers(1, 5),
    trigger_ms=st.integers(10, 1000),
    threads=st.integers(1, 9),
    routes=st.dictionaries(
        st.integers(0, 5), st.dictionaries(names, st.dictionaries(names, st.floats(0, 1)), min_size=1), max_size=2
    ),
    leaving=st.booleans(),
    writers=st.dictionaries(names, st.builds(ChannelWriter, names, st.integers(0, 5), names), max_size=2),
)


@given(fragment=fragments)
def test_a_fragment_survives_its_json(fragment):
    assert WANTED_FRAGMENTS.loads(WANTED_FRAGMENTS.dumps(fragment)) == fragment


def test_what_another_slot_runs_is_known():
    wanted = desired_publishing.desired_of(estate(), "n1", TYPES)
    assert wanted.elsewhere("0") == {"f2-0"} and wanted.elsewhere("1") == {"f1-0"}
    assert wanted.of_slot("9") == ()


def test_a_reader_that_inherits_or_asks_to_begin_elsewhere_is_said_to_its_writer():
    whole = estate()
    fragments = {
        **whole.fragments,
        "f1-0": replace(whole.fragments["f1-0"], channels={"p": "f0-0.4"}, inherits=("f0-0",)),
        "f2-0": replace(whole.fragments["f2-0"], inherits=("f0-1", "f0-2")),
        "f3-0": replace(whole.fragments["f3-0"], joins={"s": "oldest", "p": "1700000000000"}),
    }
    document = wanted_of(replace(whole, fragments=fragments), "n1")
    [first] = document["slots"]["0"]["fragments"]
    assert (first["inherits"], first["channels"]) == (["f0-0"], {"1": "f0-0.4"})
    assert first["heirs"] == {"f2-0": ["f0-1", "f0-2"]}
    assert first["joins"] == {"0": {"f3-0": "oldest"}, "1": {"f3-0": "1700000000000"}}
    [second] = document["slots"]["1"]["fragments"]
    assert second["inputs"] == [{"channel": "f0-0.4", "task": "p"}] and second["inherits"] == ["f0-1", "f0-2"]
    wanted = WANTED_FRAGMENTS.read(first)
    assert WANTED_FRAGMENTS.read(WANTED_FRAGMENTS.document(wanted)) == wanted and wanted.channel(1) == "f0-0.4"


def test_one_bundle_goes_on_with_what_others_leave_and_writes_where_they_wrote():
    whole = estate()
    bundles = (RunningBundle("f2-7", "n1/0", 2, 0.75), RunningBundle("f2-0", "n1/1", 1, 0.25))
    heir = replace(
        whole.fragments["f2-0"], slot="n1/0", bundles=bundles, inherits=("f0-1",), channels={"k": "f0-1.3"})
    assert heir.channels_of("k") == ("f2-7.0", "f0-1.3")
    document = wanted_of(replace(whole, fragments={**whole.fragments, "f2-0": heir}), "n1")
    entries = {fragment["id"]: fragment for slot in document["slots"].values() for fragment in slot["fragments"]}
    assert entries["f2-0"]["inherits"] == ["f0-1"] and entries["f2-0"]["channels"] == {"0": "f0-1.3"}
    assert "inherits" not in entries["f2-7"] and "channels" not in entries["f2-7"]
    assert entries["f1-0"]["heirs"] == {"f2-0": ["f0-1"]}
    assert entries["f1-0"]["routes"] == {"1": {"f2-0": {"f2-7": 0.75, "f2-0": 0.25}}}


def node(version: int, handing_over: dict[str, list[str]] | None = None, **fragments: tuple[str, ...]) -> DesiredState:
    """A desired state of one slot, its fragments with what they inherit."""
    return DesiredState(
        version, "n1", slots={"0": WantedSlot(tuple(
            WantedFragment(name, (), inherits=inherits) for name, inherits in fragments.items()))},
        handing_over={
            slot: tuple(WantedFragment(name, ()) for name in names) for slot, names in (handing_over or {}).items()})


def test_what_others_inherit_from_is_kept_until_nobody_names_it():
    first, second = node(1, a=(), b=(), z=()), node(2, c=("a", "b"))
    handing_over = desired_publishing.keep_handing_over(second, first)
    assert handing_over == node(2, {"0": ["a", "b"]}, c=("a", "b"))
    assert desired_publishing.keep_handing_over(
        second, handing_over) == handing_over, "the same state again changes nothing"
    taken_back = desired_publishing.keep_handing_over(node(3, d=("c",)), handing_over)
    assert [fragment.id for fragment in taken_back.handing_over["0"]] == ["a", "b", "c"], "c may not have begun"
    assert desired_publishing.keep_handing_over(node(4, e=()), taken_back) == node(4, e=())
    assert desired_publishing.keep_handing_over(node(4, e=("unknown",)), None) == node(4, e=("unknown",))


def divided(name: str, task_id: str, *bundles: RunningBundle, outlets=None) -> Fragment:
    return Fragment(name, (task_id,), bundles[0].slot, 1, outlets or {}, bundles=bundles)


def test_each_bundle_is_an_entry_of_its_own_where_it_runs():
    """A source, a task in two bundles on two nodes, one of them leaving, and another divided task behind it."""
    whole = Estate(
        generation=3,
        tasks={made.id: made for made in (task("s", "source"), task("p", "parse", "s"), task("k", "sink", "p"))},
        fragments={fragment.id: fragment for fragment in (
            Fragment("f1-0", ("s",), "n1/0", 1, {"s": ("f1-1",)}),
            divided("f1-1", "p", RunningBundle("f1-1", "n1/1", 3, 1.0), RunningBundle("f1-5", "n2/0", 1, 0.0),
                    outlets={"p": ("f1-2",)}),
            divided("f1-2", "k", RunningBundle("f1-2", "n1/1", 1, 0.25), RunningBundle("f2-0", "n2/0", 2, 0.75)),
        )},
        slots=(Slot("n1", 0), Slot("n1", 1), Slot("n2", 0)),
    )
    here, on_second = (wanted_of(whole, node)["slots"] for node in ("n1", "n2"))
    [source], [parse, sink], [parse_there, sink_there] = (
        slot["fragments"] for slot in (here["0"], here["1"], on_second["0"]))
    weights = {"f1-2": 0.25, "f2-0": 0.75}
    assert source["outlets"] == {} and source["routes"] == {"0": {"f1-1": {"f1-1": 1.0, "f1-5": 0.0}}}
    assert parse["inputs"] == [{"channel": "f1-0.0@f1-1", "task": "s"}]
    assert (parse["threads"], parse["routes"], parse["outlets"]) == (3, {"0": {"f1-2": weights}}, {})
    assert parse_there["id"] == "f1-5" and parse_there["leaving"] and "leaving" not in parse
    assert parse_there["writers"] == {"f1-0.0@f1-5": ["f1-0", 0, "f1-1"]} and "writers" not in parse
    assert parse_there["routes"] == {"0": {"f1-2": weights}}
    assert sink["inputs"] == [
        {"channel": "f1-1.0@f1-2", "task": "p"}, {"channel": "f1-5.0@f1-2", "task": "p", "ending": True}]
    assert [item["channel"] for item in sink_there["inputs"]] == ["f1-1.0@f2-0", "f1-5.0@f2-0"]
    wanted = WANTED_FRAGMENTS.read(sink_there)
    assert wanted.streams == (("f1-1.0@f2-0", "f1-5.0@f2-0"),) and wanted.threads == 2


@st.composite
def scheduled(draw) -> Estate:
    """A random graph of tasks, one a fragment, any of them divided over slots of two nodes, some bundles leaving."""
    count = draw(st.integers(1, 6))
    slots = [Slot(f"n{node}", index) for node in range(2) for index in range(2)]
    tasks, fragments = {}, {}
    readers: dict[int, list[int]] = {number: [] for number in range(count)}
    for number in range(count):
        above = draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=3)) if number else set()
        tasks[f"t{number}"] = task(f"t{number}", "parse", *(f"t{parent}" for parent in sorted(above)))
        for parent in above:
            readers[parent].append(number)
    for number in range(count):
        names = [f"f1-{number}", *(f"f2-{number}{n}" for n in range(draw(st.integers(0, 3))))]
        parts = draw(st.lists(st.integers(0, 4), min_size=len(names), max_size=len(names)).filter(any))
        bundles = tuple(
            RunningBundle(name, draw(st.sampled_from(slots)).name, draw(st.integers(1, 4)), part / sum(parts))
            for name, part in zip(names, parts, strict=True)
        ) if number and draw(st.booleans()) else ()
        slot = bundles[0].slot if bundles else draw(st.sampled_from(slots)).name
        fragments[f"f1-{number}"] = Fragment(
            f"f1-{number}", (f"t{number}",), slot, 1,
            {f"t{number}": tuple(f"f1-{reader}" for reader in readers[number])} if readers[number] else {},
            bundles=bundles)
    return Estate(generation=1, tasks=tasks, fragments=fragments, slots=tuple(slots))


@given(whole=scheduled())
def test_every_part_that_is_written_is_read_by_exactly_one(whole):
    entries = {
        fragment.id: fragment for node in ("n0", "n1")
        for slot in desired_publishing.desired_of(whole, node, TYPES).slots.values() for fragment in slot.fragments
    }
    bundles = {bundle.id: fragment for fragment in whole.fragments.values() for bundle in fragment.queries}
    assert entries.keys() == bundles.keys(), "each bundle runs once, on whatever node"
    written: dict[str, list[str]] = {}
    for entry in entries.values():
        for position, readers in entry.outlets.items():
            written.setdefault(entry.channel(position), []).extend(readers)
        for position, routes in entry.routes.items():
            for reader, weights in routes.items():
                assert sum(weights.values()) == pytest.approx(1)
                assert weights == {bundle.id: bundle.weight for bundle in whole.fragments[reader].bundles}
                for bundle in weights:
                    written.setdefault(f"{entry.channel(position)}@{bundle}", []).append(bundle)
    read: dict[str, list[str]] = {}
    for entry in entries.values():
        for item in entry.inputs:
            read.setdefault(item.channel, []).append(entry.id)
        assert entry.leaving == any(query.id == entry.id and query.leaving for query in bundles[entry.id].queries)
        assert set(entry.writers) == ({item.channel for item in entry.inputs} if entry.leaving else set())
        assert all(item.ending == next(
            query.leaving for fragment in whole.fragments.values() for query in fragment.queries
            if item.channel.startswith(f"{query.id}.")) for item in entry.inputs)
        assert len(entry.streams) == len(whole.tasks[entry.tasks[0].id].parents)
    assert {name: sorted(readers) for name, readers in read.items()} == {
        name: sorted(readers) for name, readers in written.items()}
    assert all(len(readers) == 1 for name, readers in read.items() if "@" in name)


@given(whole=scheduled())
def test_an_estate_without_bundles_wants_what_it_always_wanted(whole):
    plain = replace(whole, fragments={
        fragment.id: replace(fragment, bundles=()) for fragment in whole.fragments.values()})
    for node in ("n0", "n1"):
        for slot in wanted_of(plain, node)["slots"].values():
            for entry in slot["fragments"]:
                assert entry.keys() == {"id", "tasks", "inputs", "outlets", "active", "trigger_ms"}
                assert len(entry["inputs"]) == len(plain.tasks[entry["tasks"][0]["id"]].parents)


def test_an_input_is_shared_where_others_need_its_writer_in_whatever_task_of_it():
    def submitted(name: str, *tasks: str) -> Submitted:
        return Submitted(name, name, "team", {task: task for task in tasks}, tasks[-1:])

    def shared(*dataflows: Submitted) -> dict[str, bool]:
        whole = replace(estate(), submitted={dataflow.id: dataflow for dataflow in dataflows})
        return {
            f"{fragment.id} {item.task}": item.shared
            for node in ("n1", "n2") for fragment in desired_publishing.desired_of(whole, node, TYPES).wanted.values()
            for item in fragment.inputs}

    first, other = submitted("d1", "s", "p", "k"), submitted("d2", "s", "p", "q")
    assert shared(first) == {"f2-0 p": False, "f3-0 s": True, "f3-0 p": True}
    assert shared(other) == {"f2-0 p": True, "f3-0 s": False, "f3-0 p": False}
    assert set(shared(first, other).values()) == {True}
    assert shared(submitted("d3", "s", "p", "k", "q")) == {"f2-0 p": False, "f3-0 s": False, "f3-0 p": False}
