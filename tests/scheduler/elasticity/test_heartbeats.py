"""Heartbeats: who lives is never missed, whatever the broker and the watcher do; who is dead is, and soon."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.elasticity.heartbeats import Heartbeat, HeartbeatWatch

BEAT_S, LOOK_S, LOST_S = 0.5, 0.5, 2.0
BEATS_S = {"a": BEAT_S, "b": 2.5, "dead": BEAT_S}
END_S = 40.0


class Outages:
    """Times in which the broker answers nobody: what is asked meanwhile waits, or fails after ``most_s``."""

    def __init__(self, chance: random.Random, *, number: int) -> None:
        begins = sorted(chance.uniform(1, END_S) for _ in range(number))
        self.spans = [(begin, begin + chance.choice((0.2, 0.6, 1.1, 1.9, 3.0, 8.0))) for begin in begins]

    def answered(self, at_s: float, *, most_s: float) -> float | None:
        """When a question of this moment is answered; None where it fails."""
        until = max((end for begin, end in self.spans if begin <= at_s < end), default=at_s)
        while (later := max((end for begin, end in self.spans if begin <= until < end), default=until)) > until:
            until = later
        return until if until - at_s <= most_s else None


def beats(chance: random.Random, outages: Outages, *, dies_s: float, apart_s: float = BEAT_S) -> list[float]:
    """When the broker took in the heartbeats of an agent."""
    at_s, taken = chance.uniform(0, apart_s), []
    while at_s < dies_s:
        done_s = outages.answered(at_s, most_s=2.0)
        if done_s is not None:
            done_s += chance.uniform(0, 0.05)
            taken += [done_s] if at_s < dies_s else []
        at_s = max(at_s + apart_s, done_s if done_s is not None else at_s + 2.0)
    return taken


def looks(
    chance: random.Random, outages: Outages, taken: dict[str, list[float]], *, is_busy: bool, trusts: bool = False
) -> Iterator[tuple[float, frozenset[str]]]:
    """Looks of a watcher one after the other: its own clock, and who is missed then.

    One that ``trusts`` takes every look for a good one.
    """
    at_s, watch = 0.0, HeartbeatWatch(LOST_S)
    while at_s < END_S:
        answered_s = outages.answered(at_s, most_s=2.0)
        if answered_s is None:
            watch, at_s = watch if trusts else watch.fail(), at_s + 2.0
        else:
            ages = {}
            for node, moments in taken.items():
                newest = max((moment for moment in moments if moment <= answered_s), default=None)
                age_s = None if newest is None or answered_s - newest > 10 else answered_s - newest
                ages[node] = Heartbeat(age_s, BEATS_S[node])
            ended_s = answered_s + chance.uniform(0, 0.02)
            if trusts:
                watch, at_s = replace(watch, since_s=0.0, looked_s=ended_s), ended_s
            watch = watch.look(ages, began_s=at_s, ended_s=ended_s)
            yield ended_s, watch.missed
            at_s = ended_s
        at_s += chance.choice((0.1, 1.0, 4.0, 9.0)) if is_busy and chance.random() < 0.2 else LOOK_S


def play(seed: int, *, trusts: bool = False) -> None:
    """A world in which one of three dies: nobody else is ever missed, and that one is at last."""
    chance = random.Random(seed)
    outages = Outages(chance, number=seed % 6)
    dies_s = chance.uniform(5, 20)
    taken = {node: beats(chance, outages, dies_s=dies_s if node == "dead" else END_S, apart_s=apart_s)
             for node, apart_s in BEATS_S.items()}
    seen = list(looks(chance, outages, taken, is_busy=seed % 2 == 1, trusts=trusts))
    for at_s, missed in seen:
        assert not missed & {"a", "b"}, f"alive, at {at_s}"
        assert "dead" not in missed or at_s > dies_s
    quiet_s = max([dies_s, *(end for _, end in outages.spans)])
    if seed % 2 == 0:
        late = [missed for at_s, missed in seen if at_s > quiet_s + LOST_S + LOOK_S + 2.2]
        assert all("dead" in missed for missed in late)


@pytest.mark.parametrize("seed", range(60))
def test_who_lives_is_never_missed_and_who_is_dead_is_for_ever(seed: int) -> None:
    play(seed)


def test_worlds_go_wrong_where_looks_that_failed_or_came_late_count() -> None:
    with pytest.raises(AssertionError, match="alive"):
        for seed in range(60):
            play(seed, trusts=True)


def test_a_dead_node_is_missed_within_half_a_second_of_the_limit() -> None:
    chance = random.Random(0)
    calm = Outages(chance, number=0)
    for number in range(20):
        dies_s = 10 + 0.1 * number
        taken = {"a": beats(chance, calm, dies_s=END_S), "dead": beats(chance, calm, dies_s=dies_s)}
        missed_s = next(at_s for at_s, missed in looks(chance, calm, taken, is_busy=False) if missed)
        assert LOST_S - BEAT_S - 0.1 <= missed_s - dies_s <= LOST_S + LOOK_S + 0.1


def test_one_that_is_heard_again_is_missed_no_more() -> None:
    watch = HeartbeatWatch(LOST_S)
    for tenths in range(0, 60, 5):
        watch = watch.look(
            {"n": Heartbeat(None if 20 <= tenths < 55 else 0.1)}, began_s=tenths / 10, ended_s=tenths / 10)
        assert ("n" in watch.missed) == (35 <= tenths < 55)
