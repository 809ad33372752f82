"""Estates of any size for measuring planning, in memory and as rows of a database made for it."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.model.usage import SlotLoad
from scheduler.planning import plan_submission
from scheduler.reuse.siblings import kin_of
from tests.scheduler.estate_index import EstateIndex
from workers.library.registry import task_types

PRICES = Prices()
TEAMS = 20
OWN = 5  # tasks that a resident dataflow shares with nobody
FILTERS = 4  # ways in which a source's parsed stream is filtered
DATAFLOWS_A_SOURCE = 20
SHARE_OF_HOT_SOURCE = 0.2  # of the residents use the first source
TASKS_A_SLOT, SLOTS_A_NODE = 64, 8
BATCH = 500


@dataclass
class Residents:
    """An index that grows to the size asked for; dataflows come to it in an order drawn by a seed."""

    index: EstateIndex = field(default_factory=lambda: EstateIndex(Estate()))
    rng: random.Random = field(default_factory=lambda: random.Random(3))
    prefixes: list[tuple[int, int]] = field(default_factory=list)  # source and filter of each resident

    def grow(self, tasks: int) -> None:
        """Submit dataflows until so many tasks run, on as many slots as they want."""
        slots = tuple(
            Slot(f"n{number // SLOTS_A_NODE:04}", number % SLOTS_A_NODE) for number in range(-(-tasks // TASKS_A_SLOT))
        )
        self.index = EstateIndex(replace(self.index.estate(), slots=slots))
        while len(self.index.tasks) < tasks:
            number = len(self.prefixes)
            hot = self.rng.random() < SHARE_OF_HOT_SOURCE
            source = 0 if hot else self.rng.randrange(1, 2 + number // DATAFLOWS_A_SOURCE)
            self.prefixes.append((source, self.rng.randrange(FILTERS)))
            self.index.apply(plan_submission(
                self.index, resident(number, *self.prefixes[number]), dataflow_id=dataflow_id(number),
                team=team(number), task_types=task_types(), prices=PRICES))

    def newcomer(self, number: int) -> Dataflow:
        """A dataflow of 50 tasks: four sources, the hot one among them, and one resident's work are there already."""
        twin = self.rng.randrange(len(self.prefixes))
        prefixes = [self.prefixes[twin], (0, number % FILTERS)]
        while len({source for source, _ in prefixes}) < len(prefixes):
            prefixes[0] = self.prefixes[twin := self.rng.randrange(len(self.prefixes))]
        others = [prefix for prefix in dict(self.prefixes).items() if prefix[0] not in dict(prefixes)]
        prefixes += self.rng.sample(others, min(2, len(others)))
        tasks, streams = [], []
        for place, (source, prefix_tasks) in enumerate(prefixes):
            begun = _prefix(source, prefix_tasks, name=f"{place}")
            tasks += begun
            streams += _chain(begun)
        ends = [_own_tasks(twin, name="twin")]
        left = 50 - len(tasks) - OWN
        for branch, length in enumerate((left // 3, left // 3, left - 2 * (left // 3))):
            ends.append(_line(f"new-{number}-{branch}", length, step=1 + number / 1e4 + branch))
        for place, end in enumerate(ends):
            tasks += end
            streams += [Stream(f"clean-{min(place, len(prefixes) - 1)}", end[0].id), *_chain(end)]
        return Dataflow(name=f"newcomer-{number}", tasks=tuple(tasks), streams=tuple(streams))


def resident(number: int, source: int, prefix_tasks: int) -> Dataflow:
    """A dataflow that shares its source, parsing and filter, and has the rest for itself."""
    tasks = [*_prefix(source, prefix_tasks, name="0"), *_own_tasks(number, name="own")]
    return Dataflow(name=f"resident-{number}", tasks=tuple(tasks), streams=tuple(_chain(tasks)))


def dataflow_id(number: int) -> str:
    """Random to look at, and the same in every run."""
    return str(uuid.UUID(int=random.Random(number).getrandbits(128), version=4))


def team(number: int) -> str:
    """The team that a resident belongs to."""
    return f"team-{number % TEAMS}"


def _prefix(source: int, prefix_tasks: int, *, name: str) -> list[Task]:
    return [
        Task(f"sense-{name}", "urban_sensing", {"seed": source}), Task(f"parse-{name}", "senml_parse"),
        Task(f"clean-{name}", "range_filter", {"ranges": {"temperature": [-10 - prefix_tasks, 40]}}),
    ]


def _own_tasks(number: int, *, name: str) -> list[Task]:
    return [
        Task(f"{name}-0", "kalman_filter", {"sensor_noise": 0.3 + number / 1e6}),
        Task(f"{name}-1", "block_average"), Task(f"{name}-2", "interpolate"), Task(f"{name}-3", "block_average"),
        Task(f"{name}-4", "output", {"name": f"out-{number}"}),
    ]


def _line(name: str, length: int, *, step: float) -> list[Task]:
    middle = [Task(f"{name}-{place}", "kalman_filter", {"sensor_noise": step + place / 100})
              for place in range(length - 1)]
    return [*middle, Task(f"{name}-end", "output", {"name": name})]


def _chain(tasks: list[Task]) -> list[Stream]:
    return [Stream(upstream.id, other.id) for upstream, other in pairwise(tasks)]


@contextmanager
def temporary_database(folder: Path, *, name: str = "estate.sqlite3") -> Iterator[None]:
    """A database of its own in place of the site's, of the same kind; gone afterwards."""
    from django.db import connection  # here: Django is set up by the command, not by whoever imports this module

    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(folder / name)
    before = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(before, verbosity=0)


def write_rows(index: EstateIndex, *, after: int) -> None:
    """Write an estate into the database in bulk; the first ``after`` residents' records are there already."""
    from dashboard.catalog.models import DataflowRecord  # here, and below: see temporary_database
    from dashboard.operations import models
    from dashboard.operations.estate_store.estate_writer import fragment_fields
    from dashboard.teams.models import Team, User

    estate = index.estate()
    for model in (models.TeamUse, models.Use, models.RunningTaskRow, models.FragmentRow, models.SlotRow,
                  models.NodeRow):
        model.objects.all().delete()
    author, _ = User.objects.get_or_create(username="author")
    teams = {
        slug: Team.objects.get_or_create(slug=slug, defaults={"name": slug})[0] for slug in map(team, range(TEAMS))}
    residents = list(estate.submitted.values())
    _insert(
        DataflowRecord,
        (
            {
                "id": resident.id,
                "team": teams[resident.team],
                "author": author,
                "name": resident.name,
                "visibility": "shared",
                "status": "running",
                "tasks": len(resident.running),
            }
            for resident in residents[after:]
        ),
    )
    _insert(models.RunningTaskRow, (
        {"fingerprint": task.id, "type": task.type, "config": dict(task.config), "parents": list(task.parents),
         "scope": task.scope, "cores": task.cores, "started_generation": 1, "fragment": estate.places[task.id][0],
         "position": estate.places[task.id][1], "kin": kin_of(task)} for task in estate.tasks.values()))
    _insert(models.Use, (
        {"dataflow_id": resident.id, "task_id": task_id, "position": position, "is_sink": task_id in resident.sinks,
         "running_task_id": running}
        for resident in residents for position, (task_id, running) in enumerate(resident.running.items())))
    _insert(models.TeamUse, (
        {"running_task_id": task_id, "team": teams[slug], "dataflows": dataflows}
        for task_id in estate.tasks for slug, dataflows in index.users_of(task_id).by_team.items()))
    _insert(models.FragmentRow, (
        {"id": fragment.id, "started_generation": 1, **fragment_fields(fragment)}
        for fragment in estate.fragments.values()))
    slots = Counter(slot.node for slot in estate.slots)
    _insert(models.NodeRow, ({"name": name, "slots": number} for name, number in slots.items()))
    loads = estate.loads
    _insert(models.SlotRow, (
        {"node_id": slot.node, "index": slot.index, "name": slot.name, **asdict(loads.get(slot.name, SlotLoad()))}
        for slot in estate.slots))
    models.EstateState.objects.update_or_create(pk=1, defaults={"generation": estate.generation})


def _insert(model: type, rows: Iterable[dict[str, object]]) -> None:
    model.objects.bulk_create((model(**row) for row in rows), batch_size=BATCH)
