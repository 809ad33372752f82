"""Random dataflows that overlap, and random orders in which they come and go."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.duplicates import deduplicate

from .catalogue import TYPES

# Few distinct tasks, so that dataflows have much in common; 1 and 1.0 are one factor.
SOURCES = [("sensors", {}), ("sensors", {"city": "turin"}), ("sensors", {"seed": 0})]
PATHS = [  # the first two are one
    {"tasks": [{"id": "x", "type": "scale", "config": {"by": 2}}, {"id": "y", "type": "thin"}],
     "streams": [{"from": "input", "to": "x"}, {"from": "x", "to": "y"}, {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "b", "type": "scale", "config": {"by": 2.0}}],
     "streams": [{"from": "x", "to": "output"}, {"from": "b", "to": "x"}, {"from": "input", "to": "b"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "y", "type": "scale", "config": {"by": 2}}],
     "streams": [{"from": "input", "to": "x"}, {"from": "x", "to": "y"}, {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "x", "type": "thin"}, {"id": "y", "type": "scale", "config": {"by": 2}}],
     "streams": [{"from": "input", "to": "x"}, {"from": "input", "to": "y"}, {"from": "x", "to": "output"},
                 {"from": "y", "to": "output"}]},
    {"tasks": [{"id": "only", "type": "thin"}],
     "streams": [{"from": "input", "to": "only"}, {"from": "only", "to": "output"}]},
]
TRANSFORMS = [
    ("scale", {"by": 1}), ("scale", {"by": 1.0}), ("scale", {"by": 2}), ("thin", {}), ("alone", {}), ("count", {}),
    *(("dynamic", {"alternates": [
        {"name": "a", "type": "scale", "config": {"by": by}, "value": value, "guard": guard},
        {"name": "b", "type": "thin"}]})
      for by, value, guard in ((1, 1, ""), (1.0, 1.0, " "), (1, 1, "x > 1"), (1, 2, ""))),
    *(("dynamic", {"alternates": [
        {"name": "a", "type": "scale", "config": {"by": 1}}, {"name": "b", **path}]}) for path in PATHS),
]
SINKS = [("archive", {}), ("archive", {"name": "other"}), ("alarm", {})]


@st.composite
def dataflows(draw: st.DrawFn, *, largest: int = 8) -> Dataflow:
    """A valid, de-duplicated dataflow: a random graph in which every task is fed and read."""
    sources = [(f"s{number}", *draw(st.sampled_from(SOURCES))) for number in range(draw(st.integers(1, 2)))]
    tasks, streams, unread = list(sources), [], [task_id for task_id, *_ in sources]
    for number in range(draw(st.integers(0, largest - 3))):
        task_id = f"t{number}"
        known = [known_id for known_id, *_ in tasks]
        parents = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        tasks.append((task_id, *draw(st.sampled_from(TRANSFORMS))))
        streams.extend((parent, task_id) for parent in parents)
        unread = [other for other in unread if other not in parents] + [task_id]
    for number in range(draw(st.integers(1, 2))):
        parents = unread if number == 0 else draw(
            st.lists(st.sampled_from([task_id for task_id, *_ in tasks if task_id[0] != "o"]), min_size=1, unique=True)
        )
        tasks.append((f"o{number}", *draw(st.sampled_from(SINKS))))
        streams.extend((parent, f"o{number}") for parent in parents)
    dataflow = Dataflow(
        name="random",
        tasks=tuple(Task(*task, chain=draw(st.sampled_from(["allowed"] * 5 + ["never"]))) for task in tasks),
        streams=tuple(Stream(*stream) for stream in streams),
        rates_per_s=draw(st.dictionaries(st.sampled_from([one for one, *_ in sources]), st.sampled_from([10, 50.0]))),
        visibility=draw(st.sampled_from(["shared"] * 4 + ["private"])),
    )
    return deduplicate(dataflow, task_types=TYPES)


@st.composite
def changed(draw: st.DrawFn, dataflow: Dataflow) -> Dataflow:
    """The dataflow with one of its tasks another, or with its tasks under other ids."""
    tasks = list(dataflow.tasks)
    chosen = draw(st.integers(0, len(tasks) - 1))
    others = next(kind for kind in (SOURCES, TRANSFORMS, SINKS) if tasks[chosen].type in {name for name, _ in kind})
    tasks[chosen] = Task(tasks[chosen].id, *draw(st.sampled_from(others)))
    ids = {task.id: task.id + draw(st.sampled_from(["", "", "-new"])) for task in tasks}
    return deduplicate(Dataflow(
        name=dataflow.name, tasks=tuple(Task(ids[task.id], task.type, task.config) for task in tasks),
        streams=tuple(Stream(ids[stream.source], ids[stream.target]) for stream in dataflow.streams),
        rates_per_s={ids[task_id]: rate for task_id, rate in dataflow.rates_per_s.items()},
        visibility=dataflow.visibility), task_types=TYPES)


@st.composite
def histories(draw: st.DrawFn, *, longest: int = 8) -> list[tuple[str, Dataflow | None, str]]:
    """A history of submissions (id, dataflow, team) and removals (id, None, "")."""
    pool = draw(st.lists(dataflows(), min_size=1, max_size=4))
    history: list[tuple[str, Dataflow | None, str]] = []
    present: list[str] = []
    for number in range(draw(st.integers(1, longest))):
        if present and draw(st.integers(0, 2)) == 0:
            gone = draw(st.sampled_from(present))
            present.remove(gone)
            history.append((gone, None, ""))
        else:
            dataflow_id = f"d{number}"
            present.append(dataflow_id)
            history.append((dataflow_id, draw(st.sampled_from(pool)), draw(st.sampled_from(["water", "roads"]))))
    return history
