"""The bench of migration schemes: what it moves, what it counts, what it compares with. Each scheme by one suite."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.model.dataflow import Task
from tests.benches.migration.command import main
from tests.benches.migration.degradation import LEVELS, Block, Span, degraded, figures, of_600, rates, silence_ms
from tests.benches.migration.measuring import Protocol, Run
from tests.benches.migration.page import page
from tests.benches.migration.redeployment import redeployed
from tests.benches.migration.schemes import LAZY_S, SCHEMES, Scheme
from tests.benches.migration.slot import LazyDesired, lazily
from tests.benches.migration.summary import cells, disturbance, outputs, quiet_rows, rows
from tests.benches.migration.text import compared, counts, sentences_of
from tests.benches.migration.topology import Topology, Workload
from workers.engine import desired_publishing
from workers.engine.worker_settings import from_environment
from workers.library.registry import task_types

TEXT = "The old mill stood. A river ran by the mill, day and night!\n\n| a | table |\nNobody knew why the mill stood."


def topology(lanes: int = 3, slots: int = 3, iterations: int = 0) -> Topology:
    return Topology.dealt_out(Workload(iterations=iterations), node="n1", slots=slots, lanes=lanes)


# what moves ----------------------------------------------------------------------------------------------------------


@given(bundles=st.integers(1, 20), slots=st.integers(2, 6), data=st.data())
def test_so_many_move_each_to_another_slot_and_all_stay_spread(bundles: int, slots: int, data) -> None:
    names = [f"n1/{index}" for index in range(slots)]
    placement = {f"b{number}": names[number % slots] for number in range(bundles)}
    chance = random.Random(data.draw(st.integers(0, 100)))
    for _ in range(5):
        moved = data.draw(st.integers(1, bundles))
        moves = redeployed(placement, names, moved=moved, chance=chance)
        assert len(moves) == moved and moves.keys() <= placement.keys()
        assert all(slot in names and slot != placement[bundle] for bundle, slot in moves.items())
        placement = placement | moves
        filled = Counter({name: 0 for name in names}) + Counter(placement.values())
        spread = [filled[name] for name in names]
        assert max(spread) - min(spread) <= 2


def test_what_cannot_move_is_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2 bundles cannot move among 2 slots"):
        redeployed({"a": "n1/0", "b": "n1/1"}, ["n1/0", "n1/1"], moved=3, chance=random.Random(1))
    with pytest.raises(ValueError, match="among 1 slots"):
        redeployed({"a": "n1/0"}, ["n1/0"], moved=1, chance=random.Random(1))


# the schemes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("iterations", [0, 100])
def test_whatever_the_scheme_the_same_tasks_run_where_the_plan_says_and_write_the_same_channels(
    scheme: Scheme, iterations: int
) -> None:
    now, chance = topology(iterations=iterations), random.Random(2)
    channels = [now.output(lane) for lane in range(now.lanes)]
    between = {lane: now.fragments[f"split{lane}"].channel_of(f"split{lane}") for lane in range(now.lanes)}
    for _ in range(6):
        moves = redeployed(now.placement, now.slot_names, moved=chance.randint(1, 6), chance=chance)
        before, now = now, scheme.after(now, moves)
        assert dict(now.placement) == {**before.placement, **moves}
        assert now.generation == before.generation + 1
        tasks = [task for fragment in now.estate.fragments.values() for task in fragment.tasks]
        assert sorted(tasks) == sorted(now.tasks), "each task once"
        assert [now.output(lane) for lane in range(now.lanes)] == channels
        wanted = desired_publishing.desired_of(now.estate, "n1", task_types(), 500).wanted
        for lane in range(now.lanes):
            reader = wanted[now.fragments[f"count{lane}"].id]
            assert [item.channel for item in reader.inputs] == [between[lane]]
            assert reader.id in wanted[now.fragments[f"split{lane}"].id].outlets[1 + bool(iterations)]


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_a_scheme_says_what_it_does_and_ends_no_slot_that_is_not_there(scheme: Scheme) -> None:
    now = topology()
    moves = {"split0": "n1/2"}
    touched = scheme.touched(now, moves)
    assert touched <= set(now.slot_names)
    assert touched == {
        "rebalance": {"n1/0", "n1/1", "n1/2"}, "process": {"n1/0", "n1/2"}}.get(scheme.name, set())
    assert scheme.doc and scheme.agent[0].startswith(("workers.", "tests.benches."))
    from_environment(scheme.settings)  # settings that there are


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_only_a_handover_makes_new_fragments(scheme: Scheme) -> None:
    now = topology()
    after = scheme.after(now, {"count1": "n1/2"})
    fresh = {fragment.id for fragment in after.fragments.values()} - {
        fragment.id for fragment in now.fragments.values()}
    assert len(fresh) == (1 if scheme.name == "handover" else 0)
    if fresh:
        assert after.fragments["count1"].inherits == (now.fragments["count1"].id,)
        assert after.fragments["split0"] == now.fragments["split0"]


# lazy killing --------------------------------------------------------------------------------------------------------


def state(version: int, **slots: list[str]) -> DesiredState:
    return DesiredState(version=version, slots={
        name.lstrip("s"): WantedSlot(tuple(WantedFragment(name, (Task("t", "any", {}),)) for name in fragments))
        for name, fragments in slots.items()})


def of_slots(shown: DesiredState) -> dict[str, set[str]]:
    return {index: {fragment.id for fragment in wanted.fragments} for index, wanted in shown.slots.items()}


def test_what_goes_to_another_slot_stays_a_while_and_what_is_gone_does_not() -> None:
    before, newest = state(1, s0=["a", "b", "gone"], s1=["c"]), state(2, s0=["b", "c"], s1=["a", "new"])
    assert of_slots(lazily(newest, before, "0")) == {"0": {"a", "b", "c"}, "1": {"new"}}
    assert of_slots(lazily(newest, before, "1")) == {"0": {"b"}, "1": {"a", "c", "new"}}
    assert lazily(newest, newest, "0") is newest


def test_the_delay_is_bounded_and_is_of_each_change() -> None:
    now_s = 100.0
    stored = state(1, s0=["a"], s1=[])
    lazy = LazyDesired(lambda: stored, "0", clock_s=lambda: now_s)
    assert of_slots(lazy()) == {"0": {"a"}, "1": set()}
    stored = state(2, s0=[], s1=["a"])
    assert of_slots(lazy()) == {"0": {"a"}, "1": set()} and lazy().version == 2
    now_s += LAZY_S
    assert lazy() is stored


# what is counted -----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 9)), max_size=60), st.integers(0, 9_000))
def test_rates_count_each_event_of_whole_seconds_once(pairs: list[tuple[int, int]], began_ms: int) -> None:
    span = Span(began_ms, began_ms + 7_450)
    counted = rates([Block(*pair) for pair in pairs], span)
    assert len(counted) == 7
    assert sum(counted) == sum(n for at, n in pairs if began_ms <= at < began_ms + 7_000)


@given(st.lists(st.integers(0, 200), max_size=50), st.integers(1, 100))
def test_levels_are_nested_and_the_last_is_silence(seconds: list[int], usual: int) -> None:
    by_level = degraded(seconds, float(usual))
    assert list(by_level) == list(LEVELS)
    assert all(by_level[less] >= by_level[more] for less, more in itertools.pairwise(LEVELS))
    assert by_level[1.0] == seconds.count(0)


def test_a_move_costs_what_is_missing_from_its_seconds() -> None:
    quiet = [Block(at, 10) for at in range(500, 10_000, 1_000)]
    moved = [Block(at, 10) for at in range(10_500, 20_000, 1_000) if not 12_000 < at < 15_000]
    caught_up = [Block(15_100, 30)]
    lanes = {0: [*quiet, *moved, *caught_up], 1: [Block(at, 10) for at in range(600, 20_000, 1_000)]}
    figure = figures(lanes, [Span(0, 10_000)], [Span(10_000, 20_000, (0,))], usual_per_s=20.0)
    assert (figure["usual_per_s"], figure["throughput_per_s"]) == (20.0, 20.0), "nothing is lost, only late"
    assert figure["degraded_s"] == {"0.2": 3, "0.4": 3, "0.6": 0, "0.8": 0, "1.0": 0}
    assert figure["pauses_s"] == [3.6] and figure["usual_pauses_s"] == [1.0, 1.0]
    assert silence_ms([], Span(5, 25)) == 20


# what it is compared with --------------------------------------------------------------------------------------------


def test_sentences_are_words_in_small_letters() -> None:
    assert sentences_of([TEXT]) == [
        "the old mill stood", "a river ran by the mill day and night", "nobody knew why the mill stood"]


def output(sentences: list[str], *, begin_ms: int = 12_345, gap_ms: int = 250, until_ms: int = 20_000) -> list[dict]:
    return [
        {"window_start": count.start_ms, "word": count.word, "times": count.times, "_seq": count.seq,
         "_time": begin_ms + count.seq * gap_ms}
        for count in counts(sentences, begin_ms=begin_ms, gap_ms=gap_ms, window_ms=1_000, until_ms=until_ms)]


@given(st.integers(0, 5_000), st.integers(1, 700))
def test_each_word_is_counted_in_the_window_of_its_sentence(begin_ms: int, gap_ms: int) -> None:
    sentences = sentences_of([TEXT])
    events = output(sentences, begin_ms=begin_ms, gap_ms=gap_ms, until_ms=9_000)
    wanted: Counter = Counter()
    for number in range(9_000 // gap_ms + 2):
        at = begin_ms + number * gap_ms
        start = at - at % 1_000
        if start + 1_000 <= 9_000:
            wanted.update((start, word) for word in sentences[number % 3].split())
    assert {(event["window_start"], event["word"]): event["times"] for event in events} == wanted


def test_whatever_is_lost_doubled_or_altered_is_seen() -> None:
    sentences = sentences_of([TEXT])
    events = output(sentences)

    def seen(changed: list[dict]) -> tuple[int, int, int]:
        verdict = compared(changed, sentences, gap_ms=250, window_ms=1_000)
        assert verdict.is_equal == (changed == events)
        return verdict.lost, verdict.doubled, verdict.altered

    assert seen(events) == (0, 0, 0)
    assert seen(events[:5] + events[6:]) == (1, 0, 0)
    assert seen([*events[:5], events[5], *events[5:]]) == (0, 1, 0)
    assert seen([*events[:5], events[5] | {"times": 99}, *events[6:]]) == (0, 0, 1)
    assert seen([*events[:5], events[5] | {"_seq": events[5]["_seq"] + 1,
                                           "_time": events[5]["_time"] + 250}, *events[6:]]) == (0, 0, 1)
    assert compared(events[::-1], sentences, gap_ms=250, window_ms=1_000).disordered


# what is told --------------------------------------------------------------------------------------------------------


def document(schemes: list[str], moved: list[int]) -> dict:
    lanes = {0: [Block(at, 10) for at in range(500, 30_000, 1_000)]}
    spans = [Span(10_000, 20_000, (0,)), Span(20_000, 30_000, (0,))]
    figure = figures(lanes, [Span(0, 10_000)], spans, usual_per_s=10.0)
    return {
        "machine": {"cores": 2, "memory_gib": 24}, "load": [1.0, 2.0], "text": "3 sentences", "runs": [
            {"workload": "word-count", "scheme": scheme, "load": [1.0, 1.0],
             "by_moved": {str(number): {**figure, "took_s": [1.0, 2.0]} for number in moved},
             "outputs": {"events": 100, "lost": 0, "doubled": 0, "altered": 0, "disordered": 0}}
            for scheme in schemes]}


def test_rounds_of_a_scheme_are_one_row_with_seconds_as_of_600() -> None:
    measured = document(["nonstop", "handover", "handover"], [1, 8])
    measured["runs"][0]["by_moved"]["1"] = {
        **measured["runs"][0]["by_moved"]["1"], "degraded_s": dict(zip(map(str, LEVELS), (9, 8, 6, 4, 2), strict=True))}
    table = rows(measured)
    assert [(row["scheme"], row["M"], row["moves"]) for row in table] == [
        ("nonstop", 1, 2), ("nonstop", 8, 2), ("handover", 1, 4), ("handover", 8, 4)]
    assert (table[0]["≥60%"], table[0]["published ≥60%"], table[0]["throughput"]) == (30, 20, "100%")
    assert of_600({"moves": 1, "degraded_s": {"0.6": 95}}, 0.6) == 600, "a move of more than a minute"
    assert [cell.reaches_goal for cell in cells(measured)] == [False, True, True, True]
    assert outputs(measured)[1]["events"] == 200 and quiet_rows(measured)[0]["≥20%"] == 0


def test_a_machine_that_is_late_by_itself_is_said_to_be() -> None:
    measured = document(["handover"], [1])
    assert disturbance(measured) == ""
    measured["runs"][0]["by_moved"]["1"]["quiet_degraded_s"]["0.6"] = 3
    assert disturbance(measured).startswith("3 of 10 seconds without a move were degraded by 60% or more")
    assert disturbance(measured) in page(measured)


def test_the_page_has_the_papers_two_kinds_of_figure() -> None:
    text = page(document(list(SCHEMES), [1, 16]))
    for title in ("Degradation, word-count, 1 bundle at once", "Degradation, word-count, 16 bundles at once",
                  "Throughput, word-count"):
        assert title in text


@pytest.mark.parametrize(("arguments", "words"), [
    (["--moved", "17"], "17 bundles cannot move"), (["--slots", "1"], "two slots"), (["--schemes", "none"], "invalid"),
    (["--text", "/nowhere"], "no file")])
def test_what_cannot_be_measured_is_told_before_anything_starts(arguments: list[str], words: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert words in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_on_spark_each_event_comes_once_by_each_scheme(scheme: Scheme, tmp_path: Path) -> None:
    sentences = sentences_of([TEXT])
    protocol = Protocol(
        Workload(), lanes=2, slots=2, trigger_ms=500, moved=(1, 4), moves=2, every_s=8, quiet_s=5, settle_s=2, seed=1)
    measured = Run(scheme, protocol, sentences=sentences, folder=tmp_path / "data").measure()
    counted = measured["outputs"]
    assert counted["events"] > 50
    assert not any(counted[name] for name in ("lost", "doubled", "altered", "disordered"))
    again = Run(scheme, replace(protocol, moved=(2,), moves=1), sentences=sentences, folder=tmp_path / "data").measure()
    assert again["outputs"]["events"] and set(again["by_moved"]) == {2}
