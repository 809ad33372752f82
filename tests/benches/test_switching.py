"""What the bench of switching runs and makes of what it has measured; the bench runs real drivers."""

from __future__ import annotations

from scheduler.model.wave_elements import wave_elements
from tests.benches.switching import for_cpu, for_switches, longest_silence_ms, quantile, rows
from workers.library.select.grammar import parse


def test_both_kinds_of_queries_change_slots() -> None:
    for slot in (0, 1):
        estate = for_cpu(100.0, slot=slot)
        with_alternates = {
            fragment.slot for fragment in estate.fragments.values()
            if any(estate.tasks[task].type == "dynamic" for task in fragment.tasks)}
        assert with_alternates == {f"n1/{slot}"}
        assert {fragment.slot for fragment in estate.fragments.values()} == {"n1/0", "n1/1"}


def test_elements_switch_in_waves_where_they_are_to() -> None:
    assert wave_elements(for_switches(100.0, "fast")) == []
    elements = wave_elements(for_switches(100.0, "wave"))
    assert [(element.on, element.sources) for element in elements] == [("plain", ("wave-source",))] * 2


def test_queries_can_be_read() -> None:
    estates = [for_cpu(100.0, slot=0), for_switches(100.0, "fast"), for_switches(100.0, "wave")]
    configs = [task.config for estate in estates for task in estate.tasks.values()]
    ways = [way["config"] for config in configs for way in config.get("alternates", ())]
    queries = [config["query"] for config in [*configs, *ways] if "query" in config]
    assert len(queries) == 3 + 3 * 3 + 2 * 2 * 3
    for query in queries:
        parse(query)


def test_the_longest_silence_is_that_within_the_span() -> None:
    assert longest_silence_ms([], 0, 500) == 500
    assert longest_silence_ms([100, 150, 700, 5_000], 50, 900) == 550


def test_the_table_pairs_what_was_measured_together() -> None:
    figures = {"waits_ms": [*range(1, 101)], "silent_with_ms": [600] * 100, "silent_without_ms": [550] * 100}
    table = rows({"cpu": [(10.2, 10.0), (10.0, 10.0)], "fast": figures, "wave": figures})
    assert table[0]["p50"] == 1.0 and table[0]["p99"] == 2.0
    assert [row["p50"] for row in table if "paired" in row["what"]] == [50, 50]
    assert quantile(figures["waits_ms"], 0.99) == 99 and quantile([7], 0.5) == 7
