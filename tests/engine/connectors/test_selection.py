"""Which sources a node reads and for whom: of its desired state."""

from __future__ import annotations

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.model.dataflow import Task
from workers.engine.connectors.source_selection import wanted_sources
from workers.library.registry import task_types

from .playing import fragment_of

SOURCE = Task("s1", "kafka", {})


def selected(*fragments: WantedFragment, outgoing: tuple[WantedFragment, ...] = ()):
    desired = DesiredState(1, "n1", 1, {"0": WantedSlot(fragments)}, handing_over={"0": outgoing})
    return wanted_sources(desired, task_types())


def test_only_live_sources_are_read():
    made = WantedFragment("f1-0", (Task("m", "urban_sensing", {}), Task("p", "senml_parse", {})))
    assert selected(made, WantedFragment("f1-1", (Task("x", "not_installed", {}),))) == {}
    [source] = selected(made, fragment_of(SOURCE, "f1-2")).values()
    assert source.task == SOURCE and source.readers == {"f1-2": frozenset()}


def test_a_paused_source_has_no_readers_and_is_known():
    [source] = selected(fragment_of(SOURCE, active=0)).values()
    assert not source.readers and source.known_readers == {"f1-0"}


def test_an_heir_waits_for_all_before_it_and_the_source_stays_the_same():
    outgoing = (fragment_of(SOURCE, "f1-0"), fragment_of(SOURCE, "f2-0", inherits=("f1-0",)))
    [source] = selected(fragment_of(SOURCE, "f3-0", inherits=("f2-0",)), outgoing=outgoing).values()
    assert source.readers == {"f3-0": {"f1-0", "f2-0"}}
    assert source.known_readers == {"f1-0", "f2-0", "f3-0"}
