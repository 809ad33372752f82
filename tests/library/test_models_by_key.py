"""Models for each key: bundles learn and predict as one does, and a schedule may divide both tasks by that key."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from scheduler.key_division import divisible_by_key
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.ring import Ring, key_group
from workers.library.config import InvalidConfig
from workers.library.key_states import states_of_keys
from workers.library.learning import Learner, Predictor
from workers.library.models import LINEAR, read_model
from workers.library.registry import columns_of, task_types
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.train import predict_check, train_check

KEYS = [f"=s{number}" for number in range(11)]
LEARNS = ("seq", "time", "born", "target", "x")
PREDICTS = ("model", "x")
LEARNER = Learner(LINEAR, ("x",), "target", window=9, span=0, every=4, period=0, depth=3, leaf=1)
BY = {"features": ["value"], "by": ["sensor_id"]}


def readings(chance: random.Random) -> list[dict[str, Any]]:
    """Of each key a line of its own, and now and then nothing to learn."""
    rows = []
    for seq in range(400):
        key, x = chance.choice(KEYS), chance.randint(-8, 8) / 4
        target = None if chance.random() < 0.1 else x * KEYS.index(key) + 1
        rows.append({"_key": key, "seq": seq, "time": seq, "born": seq, "target": target, "x": x})
    return rows


def by_key(fold: Any, rows: list[dict], reads: Sequence[str], bundles: Sequence[int]) -> dict[str, list[tuple]]:
    """What comes out of each key where so many bundles have the keys, one number after the other."""
    results: dict[str, list[tuple]] = defaultdict(list)
    texts: list[str | None] = [None]
    cuts = [len(rows) * turn // len(bundles) for turn in range(len(bundles) + 1)]
    for several, (first, last) in zip(bundles, pairwise(cuts), strict=True):
        ring = Ring.even(("k",), [str(place) for place in range(several)])
        left, texts = texts, []
        for place, piece in enumerate(ring.ranges):
            keeper = keeping(
                states_of_keys((text, [(piece.token, piece.size)]) for text in left) or NOTHING, None, parts_of(fold))
            part = [row for row in rows[first:last] if int(ring.owner(key_group(row["_key"]))) == place]
            columns = {name: [row[name] for row in part] for name in ("_key", *reads)}
            for key, *row in fold_rows(fold, keeper.states, columns, reads=reads, kept=["_key"]):
                results[key].append(tuple(row))
            texts.append(keeper.save())
    return results


@pytest.mark.parametrize("seed", range(3))
def test_several_bundles_learn_and_predict_for_each_key_what_one_does(seed: int) -> None:
    rows = readings(random.Random(seed))
    models = by_key(LEARNER, rows, LEARNS, [1])
    assert set(models) == set(KEYS) and sum(map(len, models.values())) > 50
    for key, learned in models.items():
        assert [row[5] for row in learned] == list(range(1, len(learned) + 1)), "each key counts its own"
        assert read_model(learned[-1][3])["coefficients"] == [pytest.approx(KEYS.index(key))]
    mixed = [{**row, "model": None} for row in rows]
    for key, seq, text in sorted(((key, row[0], row[3]) for key, learned in models.items() for row in learned),
                                 key=lambda model: -model[1]):
        mixed.insert(seq + 1, {"_key": key, "model": text, "x": None})
    predicted = by_key(Predictor(LINEAR, ("x",)), mixed, PREDICTS, [1])
    for bundles in ([2], [5], [1, 3, 2, 5, 1]):
        assert by_key(LEARNER, rows, LEARNS, bundles) == models, bundles
        assert by_key(Predictor(LINEAR, ("x",)), mixed, PREDICTS, bundles) == predicted, bundles


@pytest.mark.parametrize(("train", "predict", "divided"), [
    (BY, BY, {"learn", "guess"}),
    (BY, {**BY, "by": ["sensor_id", "obs"]}, {"learn"}),  # models have no obs
    (BY, {"features": ["value"]}, set()),  # it reads models of all keys, in their order
    ({"features": ["value"]}, BY, set()),
])
def test_both_are_divided_where_one_key_leads_through_both(train: dict, predict: dict, divided: set[str]) -> None:
    types = task_types()
    tasks = (Task("meters", "smart_meter"), Task("in", "senml_parse"),
             Task("learn", "train", {"target": "meta", "kind": "decision_tree_classifier", **train}),
             Task("guess", "predict", {"kind": "decision_tree_classifier", **predict}))
    streams = (("meters", "in"), ("in", "learn"), ("in", "guess"), ("learn", "guess"))
    flow = Dataflow("d", tasks, tuple(Stream(*ends) for ends in streams))
    assert divisible_by_key(flow, {task.id: types[task.type] for task in tasks}, columns_of) == divided


@pytest.mark.parametrize("check", [train_check, predict_check])
def test_a_model_of_the_team_is_one_for_all_keys(check: Any) -> None:
    config = {**BY, "model": "fares", **({"target": "fare"} if check is train_check else {})}
    with pytest.raises(InvalidConfig, match="one for all keys"):
        check(config)
    with pytest.raises(InvalidConfig, match="cannot be a key"):
        check({**{name: value for name, value in config.items() if name != "model"}, "by": ["version"]})
