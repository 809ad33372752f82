"""Who goes on with some keys takes their states out of what each of those before has left, in a text or in a store."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.ring import KEY_GROUPS, key_group
from workers.engine.agents.node_files.fold_stores import FOLDER, FoldStores
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.instructions import TakeOver
from workers.engine.agents.reconciling.record_actuator import RecordActuator
from workers.library.key_states import states_of_keys
from workers.library.state_store import StoreLocation


def test_states_are_taken_out_of_texts_and_stores(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    states = {f"k{number}": [number] for number in range(100)}
    halves = [{key: state for key, state in states.items() if int(key[1:]) % 2 == half} for half in (0, 1)]
    pointer = StoreLocation(str(tmp_path / FOLDER), "f1-0.t-0", 0).create(halves[0], {})
    ended = {
        "f1-0": Savepoint(states={"t": [str(pointer), None]}),
        "f1-1": Savepoint(states={"t": [json.dumps(halves[1]), '{"k5":1}']})}
    begun: dict[str, RestorePoint] = {}
    store = SimpleNamespace(
        fold_stores=FoldStores(tmp_path), ended=ended.get, ended_ms=lambda _: 0, received_ms=lambda _: None,
        record_begun=begun.__setitem__, record_ended=lambda *_: None)
    actuator = RecordActuator(SimpleNamespace(store=store))
    ranges = {"f2-0": ((60_000, 10_000),), "f2-1": ((4_464, 30_000), (34_464, 25_536))}
    for name, key_ranges in ranges.items():
        point = RestorePoint(states={"t": []})
        actuator.do(FragmentRun(name, now_ms=0), TakeOver(point, ("f1-0", "f1-1"), dict.fromkeys(ended, key_ranges)))
    taken = {name: [json.loads(text or "{}") for text in point.states["t"]] for name, point in begun.items()}
    assert {**taken["f2-0"][0], **taken["f2-1"][0]} == states
    assert {key for key in states if (key_group(key) - 60_000) % KEY_GROUPS < 10_000} == set(taken["f2-0"][0])
    assert sorted(key for name in ranges for key in taken[name][1]) == ["k5"]


def test_what_a_bundle_gave_away_counts_of_its_heir_alone() -> None:
    """The giver still has the state that the key had then; the heir has forgotten the key since, or has a newer one."""
    group, everything = key_group("k5"), ((0, KEY_GROUPS),)
    rest = ((group + 1) % KEY_GROUPS, KEY_GROUPS - 1)
    stale = Savepoint(states={"t": ['{"k5":1,"k6":1}']})
    for heirs_own, expected in (('{"k5":2}', {"k5": 2, "k6": 1}), ("{}", {"k6": 1})):
        ended = {"f1-0": stale, "f2-0": Savepoint(states={"t": [heirs_own]}),
                 "f1-1--f3-0": Savepoint(states={"t": ['{"k7":1}']}), "f1-1": Savepoint(states={"t": ['{"k7":9}']})}
        begun: dict[str, RestorePoint] = {}
        store = SimpleNamespace(
            fold_stores=FoldStores(Path("nowhere")), ended=ended.get, ended_ms=lambda _: 0, received_ms=lambda _: None,
            record_begun=begun.__setitem__, record_ended=partial(_forget, ended))
        takes = {"f1-0": (rest,), "f2-0": ((group, 1),), "f1-1": everything}
        RecordActuator(SimpleNamespace(store=store)).do(
            FragmentRun("f3-0", now_ms=0), TakeOver(RestorePoint(states={"t": []}), tuple(takes), takes))
        assert json.loads(begun["f3-0"].states["t"][0]) == {**expected, "k7": 1}
        assert not [name for name in ended if "--" in name], "what was given is taken"


def _forget(ended: dict[str, Savepoint], name: str, _: None) -> None:
    ended.pop(name, None)


@given(
    states=st.dictionaries(st.text(max_size=4), st.integers(), max_size=20),
    tokens=st.lists(st.integers(0, KEY_GROUPS - 1), min_size=1, max_size=5, unique=True),
    of=st.lists(st.integers(0, 2), min_size=20, max_size=20))
def test_each_state_goes_to_the_one_that_has_its_key(states, tokens, of):
    texts: list[dict] = [{}, {}, {}]
    for (key, state), place in zip(states.items(), of, strict=False):
        texts[place][key] = state
    tokens = sorted(tokens)
    taken: dict[str, int] = {}
    for token, behind in zip(tokens, (*tokens[1:], tokens[0] + KEY_GROUPS), strict=True):
        part = json.loads(states_of_keys((json.dumps(text), [(token, behind - token)]) for text in texts) or "{}")
        assert not part.keys() & taken.keys()
        assert all((key_group(key) - token) % KEY_GROUPS < behind - token for key in part)
        taken |= part
    assert taken == states and states_of_keys([(None, [(0, 1)])] * 2) is None
