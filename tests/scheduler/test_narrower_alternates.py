"""Dynamic tasks on top of a static one: where that may be, what runs then, and that outputs stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.alternates import alternates_in

from .catalogue import EMPTY
from .containing import as_it_runs, band, contained, dynamic, in_a_row, remove, simulated, submit

RANGES = st.tuples(st.sampled_from([0, 5, 10, 15]), st.sampled_from([30, 35, 40, 45]))
WAYS = st.lists(st.tuples(RANGES, st.none() | RANGES), min_size=1, max_size=3)


def test_a_static_task_works_once_for_its_readers_and_an_alternate_that_is_equal():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = dynamic("mine", (0, 40), (10, 30), in_a_row({"low": 0, "high": 40}, {"low": 20, "high": 35}))
    _, alone = submit(estate, mine, "mine", on=False)
    estate, plan = submit(estate, mine, "mine")

    wide = estate.submitted["wide"].running["f"]
    assert [(refinement.task, refinement.running) for refinement in plan.refined] == [("f", wide)]
    element = estate.tasks[plan.dataflow.running["f"]]
    assert element.parents == (wide,)
    assert [(way.name, way.type, way.value) for way in alternates_in(element.type, element.config)] == [
        ("w0", "union", 1.0), ("w1", "band", pytest.approx(2 / 3)), ("w2", "band", pytest.approx(1 / 3))]
    assert plan.price.cores_delta < alone.price.cores_delta, "it does not pay for a second one"
    estate = remove(estate, "wide")
    assert wide in estate.tasks, "it is kept for the element, which pays for it"
    assert not remove(estate, "mine").tasks


@pytest.mark.parametrize(("ways", "options"), [
    (((0, 40), (10, 45)), {}),  # the second gets more than the static task lets through
    (((0, 40), {"type": "total", "config": {"window": 2}}), {"begin": "fresh"}),
    (((0, 40), (10, 30)), {"by": ["value"]}),
    (((0, 40), {"type": "band", "config": {"low": 10, "high": 30}, "guard": "avg(rate, '1 min') > 5"}), {}),
    (((0, 40), {"type": "band", "config": {"low": 10, "high": 30}, "value": "1 / rate"}), {}),
])
def test_a_dynamic_task_reads_a_static_one_only_where_all_that_it_does_follows(ways, options):
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = dynamic("mine", *ways, **options)
    if "begin" in options:
        mine = replace(mine, tasks=tuple(
            replace(task, type="dynamic_fold") if task.id == "f" else task for task in mine.tasks))
    assert contained(estate, mine).refinements == ()


@given(st.lists(RANGES, min_size=1, max_size=4, unique=True), WAYS)
def test_a_dynamic_task_reads_a_static_one_just_where_each_alternate_follows_from_it(static, ways):
    estate = EMPTY
    for number, (low, high) in enumerate(static):
        estate, _ = submit(estate, band(f"static{number}", low, high), f"static{number}", on=False)
    mine = dynamic("mine", *(
        first if second is None else in_a_row(*(dict(zip(("low", "high"), kinds, strict=True)) for kinds in pair))
        for pair in ways for first, second in [pair]))
    estate, plan = submit(estate, mine, "mine")

    wider = {
        estate.submitted[f"static{number}"].running["f"] for number, (low, high) in enumerate(static)
        if all(low <= least and most <= high for (least, most), _ in ways)}
    assert {refinement.running for refinement in plan.refined} <= wider and bool(plan.refined) == bool(wider)
    got = simulated(as_it_runs(estate, "mine"))
    assert got[estate.submitted["mine"].running["o"]] == simulated(mine)["o"]
