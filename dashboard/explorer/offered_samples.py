"""Samples as somebody is offered them: those first of which most runs already, so that sharing is seen at once.

One that runs whole is among the last: most often it was submitted as it is, and its name is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dashboard import jobs
from dashboard.catalog import selectors as catalog
from dashboard.catalog.selectors import SampleDocument
from dashboard.explorer.merged import tasks_for
from dashboard.teams.permissions import Viewer
from scheduler.model.dataflow import Dataflow
from scheduler.model.secrets import secrets_of
from scheduler.reuse.fingerprint import fingerprints

CLEAREST = "urban_stats"  # where nothing is shared: readings that one understands, from several outputs


@dataclass(frozen=True, slots=True)
class OfferedSample:
    """A sample, and how many of its tasks are in the estate already, as far as the viewer may know."""

    sample: SampleDocument
    in_estate: int

    @property
    def runs_whole(self) -> bool:
        """True if all of it is in the estate already."""
        return self.in_estate == self.sample.tasks > 0


def offered_samples(viewer: Viewer) -> list[OfferedSample]:
    """All samples: first those with most tasks in the estate, then `CLEAREST`, then by name, at last what runs whole;
    in one query."""
    by_sample = _fingerprints()
    sample_tasks = frozenset().union(*by_sample.values())
    running = frozenset(tasks_for(viewer).filter(pk__in=sample_tasks).values_list("pk", flat=True))
    offered = [OfferedSample(sample, len(by_sample[sample.slug] & running)) for sample in catalog.samples()]
    return sorted(offered, key=lambda sample: (
        sample.runs_whole, -sample.in_estate, sample.sample.slug != CLEAREST, sample.sample.name))


@lru_cache(maxsize=1)
def _fingerprints() -> Mapping[str, frozenset[str]]:
    """The fingerprints of each sample's tasks as a shared dataflow has them; of one that names secrets none, because
    they are some team's. Samples and task types are read once a process, and so are these."""
    types = jobs.task_types()
    return {
        sample.slug: frozenset() if _names_secrets(dataflow) else frozenset(
            fingerprints(dataflow, task_types=types).values())
        for sample, dataflow in catalog.sample_dataflows()}


def _names_secrets(dataflow: Dataflow) -> bool:
    return any(list(secrets_of(task.config, jobs.task_types()[task.type])) for task in dataflow.tasks)
