"""What a slot knows of the desired state, by when it looks; and the two cycles as settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState
from workers.engine.agents.reconciling.desired_view import DesiredView
from workers.engine.worker_settings import from_environment


class Store:
    """Has a newer version each time that somebody publishes."""

    def __init__(self) -> None:
        self.version, self.looks = 0, 0

    def __call__(self) -> DesiredState:
        self.looks += 1
        return DesiredState(version=self.version)


@given(cycle_ms=st.integers(50, 5_000), turns=st.lists(
    st.tuples(st.integers(1, 2_000), st.sampled_from(["nothing", "a push", "a push that is lost"])), max_size=40))
def test_a_change_is_known_at_once_when_it_is_told_of_and_else_a_cycle_later(cycle_ms, turns) -> None:
    store = Store()
    view = DesiredView(store, cycle_ms=cycle_ms)
    now_ms, changed_ms = 1_000_000, {0: 0}
    last_ms, looks = None, 0
    for pause_ms, happens in turns:
        now_ms += pause_ms
        if happens != "nothing":
            store.version += 1
            changed_ms[store.version] = now_ms
        if happens == "a push":
            view.notice()
        desired = view.at(now_ms)
        if happens == "a push":
            assert desired.version == store.version
        is_due = last_ms is None or now_ms - last_ms >= cycle_ms
        assert store.looks - looks == (1 if is_due or happens == "a push" else 0), "and the store is left alone else"
        last_ms, looks = (now_ms if store.looks > looks else last_ms), store.looks
        missed = [version for version in changed_ms if version > desired.version]
        assert all(now_ms - changed_ms[version] < cycle_ms for version in missed)


def test_the_cycles_are_settings() -> None:
    settings = from_environment({"WEIR_SUPERVISOR_CYCLE_S": "10", "WEIR_WORKER_CYCLE_S": "3"})
    assert (settings.supervisor_cycle_s, settings.worker_cycle_s) == (10.0, 3.0)
    assert (from_environment({}).supervisor_cycle_s, from_environment({}).worker_cycle_s) == (2.0, 0.5)


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "61"])
@pytest.mark.parametrize("name", ["WEIR_SUPERVISOR_CYCLE_S", "WEIR_WORKER_CYCLE_S"])
def test_a_cycle_that_is_none_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is '{value}'; it must be a number of seconds from 0.05 to 60"):
        from_environment({name: value})
