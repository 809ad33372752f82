"""Online task deployment: the paper's scores by hand, its four cases, series, and rounds that come to an end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.deployment.online import Thresholds, decide
from scheduler.model.fragment import node_of
from tests.scheduler.deployment.scores import allocation_score, score_change

USUAL = Thresholds(high=0.8, low=0.5, margin=0.05, score_change=5.0)
SLOTS = ("n1/0", "n1/1", "n2/0", "n2/1", "n3/0")


def deployment(placed: dict[str, tuple[str, float]], traffic: dict[str, float] | None = None) -> Deployment:
    """Bundles by slot and cores; traffic by ``ab``."""
    return Deployment({name: PlacedBundle(name, slot, cores) for name, (slot, cores) in placed.items()}, SLOTS,
                      {(pair[0], pair[1]): rate for pair, rate in (traffic or {}).items()})


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    names = "abcdefgh"[: draw(st.integers(1, 8))]
    placed = {name: (draw(st.sampled_from(SLOTS)), draw(st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.6]))) for name in names}
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=12))
    traffic = {pair: draw(st.sampled_from([1.0, 10.0, 100.0])) for pair in pairs if pair[0] != pair[1]}
    bundles = {
        name: PlacedBundle(
            name, slot, cores, movable=draw(st.integers(0, 5)) > 0, node_bound=draw(st.integers(0, 3)) == 0)
        for name, (slot, cores) in placed.items()}
    targets = draw(st.none() | st.frozensets(st.sampled_from(SLOTS)))
    return Deployment(bundles, SLOTS, traffic, targets)


def reference(running: Deployment, thresholds: Thresholds) -> float | None:
    """The greatest score change of any move that a round may make, by trying all of them; None without one."""
    loads = running.loads
    high = [slot for slot in SLOTS if loads[slot] > thresholds.high]
    low = {slot for slot in SLOTS if loads[slot] < thresholds.low and slot in (running.targets or SLOTS)}
    if running.targets == frozenset():
        return None
    coolest = {min((loads[slot], slot) for slot in low if node_of(slot) == node)[1] for node in map(node_of, low)}
    if not low:
        return None
    for hottest in sorted(high, key=lambda slot: (loads[slot], slot), reverse=True):
        best = _best_from(running, thresholds, coolest, hottest)
        if best is not None:
            return best
    if high:
        return None
    best = _best_from(running, thresholds, coolest, None)
    return best if best is not None and best > thresholds.score_change else None


def _best_from(
    running: Deployment, thresholds: Thresholds, coolest: set[str], hottest: str | None
) -> float | None:
    loads, gains = running.loads, []
    for bundle in running.bundles.values():
        if not bundle.movable or (hottest and (bundle.slot != hottest or bundle.cores <= 0)):
            continue
        for slot in coolest - {bundle.slot}:
            if bundle.node_bound and node_of(slot) != node_of(bundle.slot):
                continue
            after = loads[slot] + bundle.cores
            if after > thresholds.high - thresholds.margin:
                continue
            if hottest and after > loads[hottest] - thresholds.margin:
                continue
            before, moved = (
                allocation_score(running, bundle.id, node_of(where)) for where in (bundle.slot, slot))
            gains.append((moved - before) / 2)
    return max(gains, default=None)


def test_scores_are_those_of_the_equations() -> None:
    running = deployment({"a": ("n1/0", 0.1), "b": ("n1/1", 0.1), "c": ("n2/0", 0.1)}, {"ab": 10, "ba": 5, "ac": 40})

    assert allocation_score(running, "a", "n1") == 15 - 40
    assert allocation_score(running, "a", "n2") == 40 - 15
    assert score_change(running, "a", "n2") == 25
    assert score_change(running, "a", "n2") == (
        allocation_score(running, "a", "n2") - allocation_score(running, "a", "n1")) / 2


def test_high_and_low_moves_a_bundle_off_the_hottest_slot_to_what_it_exchanges_most_with() -> None:
    running = deployment({"a": ("n1/0", 0.5), "b": ("n1/0", 0.5), "c": ("n2/1", 0.2), "d": ("n3/0", 0.2)},
                         {"ac": 10, "bd": 30})
    turn = decide(running, USUAL)

    assert turn.case == "balance"
    assert (turn.move.bundles, turn.move.target, turn.move.gain) == (("b",), "n3/0", 30)


def test_a_slot_that_cannot_be_relieved_holds_up_no_other() -> None:
    slots = ("n0/0", "n1/0", "n2/0")
    running = Deployment({
        "big": PlacedBundle("big", "n0/0", 1.4), "a": PlacedBundle("a", "n1/0", 0.6),
        "b": PlacedBundle("b", "n1/0", 0.6)}, slots)

    turn = decide(running, Thresholds())

    assert (turn.case, turn.move.target) == ("balance", "n2/0")
    assert "n1/0" in turn.why


def test_of_equal_scores_the_coolest_slot_is_taken() -> None:
    slots = ("n0/0", "n1/0", "n2/0")
    running = Deployment({
        "a": PlacedBundle("a", "n0/0", 0.5), "b": PlacedBundle("b", "n0/0", 0.5),
        "c": PlacedBundle("c", "n2/0", 0.29)}, slots)

    assert decide(running, Thresholds()).move.target == "n1/0"


@pytest.mark.parametrize(("placed", "words", "lacking"), [
    ({"a": ("n1/0", 1.4)}, "a alone takes 1.40 cores, more than a slot should have", 0.0),
    ({"a": ("n1/0", 0.5), "b": ("n1/0", 0.5), **{f"c{slot}": (slot, 0.45) for slot in SLOTS[1:]}},
     "no slot has as much room as they take", 0.2)])
def test_where_nothing_can_go_it_is_said_what_lacks(
    placed: dict[str, tuple[str, float]], words: str, lacking: float
) -> None:
    turn = decide(deployment(placed), USUAL)

    assert (turn.case, turn.move) == ("balance", None)
    assert words in turn.why
    assert turn.lacking == pytest.approx(lacking)
    resting = decide(deployment(placed), USUAL, resting=frozenset("ab"))
    assert "none of them may move now" in resting.why and resting.lacking == 0


@given(deployments(), st.frozensets(st.sampled_from("abcdefgh")))
def test_no_hot_slot_is_left_that_a_slot_with_room_could_relieve(running: Deployment, resting: frozenset[str]) -> None:
    """By trying each bundle of each hot slot on each slot."""
    turn = decide(running, USUAL, resting=resting)
    loads = running.loads
    relieving = [
        (bundle.id, slot) for bundle in running.bundles.values() for slot in SLOTS
        if bundle.movable and bundle.id not in resting and bundle.cores > 0 and loads[bundle.slot] > USUAL.high
        and slot in (SLOTS if running.targets is None else running.targets) and loads[slot] < USUAL.low
        and (not bundle.node_bound or node_of(slot) == node_of(bundle.slot))
        and loads[slot] + bundle.cores <= min(USUAL.high, loads[bundle.slot]) - USUAL.margin]

    if max(loads.values()) > USUAL.high:
        assert (turn.move is not None) == bool(relieving)
        assert turn.move is None or (*turn.move.bundles, turn.move.target) in relieving
        if turn.move is not None and not running.traffic:
            assert loads[turn.move.target] == min(loads[slot] for name, slot in relieving if name in turn.move.bundles)


def test_high_alone_says_how_much_lacks() -> None:
    turn = decide(deployment({name: (slot, 1.0) for name, slot in zip("abcde", SLOTS, strict=True)}), USUAL)

    assert (turn.case, turn.move) == ("lacking", None)
    assert turn.lacking == pytest.approx(1.0)


def test_low_alone_moves_only_for_more_than_the_threshold() -> None:
    running = deployment({"a": ("n1/0", 0.1), "b": ("n2/0", 0.1)}, {"ab": 6})

    assert decide(running, USUAL).move.gain == 6
    turn = decide(running, replace(USUAL, score_change=6.0))
    assert (turn.case, turn.move) == ("settled", None)


def test_normal_slots_are_left_alone() -> None:
    turn = decide(deployment({name: (slot, 0.6) for name, slot in zip("abcde", SLOTS, strict=True)}, {"ac": 99}), USUAL)

    assert (turn.case, turn.move) == ("settled", None)


@settings(max_examples=400)
@given(deployments())
def test_no_other_move_of_one_bundle_changes_the_score_by_more(running: Deployment) -> None:
    turn = decide(running, USUAL)
    best = reference(running, USUAL)

    if turn.case != "communication":
        assert (turn.move is None) == (best is None)
    elif best is not None:
        assert score_change(running, turn.move.bundles[0], node_of(turn.move.target)) == pytest.approx(best)
    if turn.move is not None:
        after = running.moved(turn.move.bundles, turn.move.target)
        assert after.loads[turn.move.target] <= USUAL.high
        assert running.targets is None or turn.move.target in running.targets
        for name in turn.move.bundles:
            bundle = running.bundles[name]
            assert bundle.movable and (not bundle.node_bound or node_of(turn.move.target) == node_of(bundle.slot))
    if turn.case == "balance" and turn.move is not None:
        assert len(turn.move.bundles) == 1 and turn.move.gain == pytest.approx(best)


def test_what_is_bound_to_its_node_stays_there_whatever_it_exchanges() -> None:
    running = deployment({"a": ("n1/0", 0.3), "b": ("n2/0", 0.3)}, {"ab": 100.0})
    assert decide(running, USUAL).move is not None
    first, second = (replace(bundle, node_bound=True) for bundle in running.bundles.values())
    assert decide(replace(running, bundles={"a": first, "b": second}), USUAL).move is None
    towards_it = decide(replace(running, bundles={"a": first, "b": running.bundles["b"]}), USUAL).move
    assert towards_it is not None and (towards_it.bundles, node_of(towards_it.target)) == (("b",), "n1")


def between_nodes(running: Deployment) -> float:
    """What passes between nodes."""
    return running.share_between_nodes * sum(running.traffic.values())


@given(deployments())
def test_with_loads_that_stay_rounds_come_to_an_end(running: Deployment) -> None:
    for _ in range(60):
        turn = decide(running, USUAL)
        if turn.move is None:
            break
        after = running.moved(turn.move.bundles, turn.move.target)
        if turn.case == "communication":
            assert between_nodes(running) - between_nodes(after) == pytest.approx(turn.move.gain)
            assert turn.move.gain > USUAL.score_change * len(turn.move.bundles), "each brings what a move has to"
        running = after

    assert turn.move is None
    assert decide(running, USUAL).move is None, "what is settled stays so"


@pytest.mark.parametrize("values", [{"low": 0.9}, {"margin": -1.0}, {"score_change": -1.0}])
def test_thresholds_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"low below|margin"):
        Thresholds(**values)
