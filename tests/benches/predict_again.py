"""`./weir bench schedules --on-spark --predict-again FILE`: what is predicted now of runs that were measured before.

Nothing runs. The profiles are those of the CSV beside FILE, so what differs is the model. A run whose schedule would be
another one now is left out, and told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from scheduler.model.errors import WeirError
from scheduler.model.fragment import Slot
from scheduler.model.profile import Profiles
from scheduler.model.profile_csv import read_entries
from scheduler.model.resources import Supply
from scheduler.pairs import Pair
from scheduler.scheduling import Schedule, predicted, schedule

from . import results
from .estate import NODE
from .experiment_dataflows import kinds
from .experiments import loads_at
from .laboratory import job_of, options_of, placement_document, runs_as, supply_of, with_loads
from .schedules_summary import DEFINITION, actual_per_s, fits, highest_stable, shown

STORE = "http://127.0.0.1:80"  # stands for the object store, which nobody asks


def predict_again(path: Path, out: Path) -> int:
    """Print and write what is predicted now beside what was then, and how far both are from what was measured."""
    before = results.read(path)
    entries = read_entries(path.with_suffix(".csv").read_text(encoding="utf-8"))
    runs, left_out = again(before, Profiles([entry.profile for entry in entries]))
    after = {**before, "runs": runs, "definition": DEFINITION, "fits": fits(runs), "left_out": left_out}
    same = {run["key"] for run in runs}
    then = {**before, "fits": fits([run for run in before["runs"] if run["key"] in same])}
    rows = compared(before["runs"], runs)
    if rows:
        print(results.table(rows), "", "As it was predicted then:", shown(then), "", "As it is predicted now:",
              shown(after), sep="\n")
    if left_out:
        print(f"Left out, because their schedules would be others now: {', '.join(left_out)}.")
    if out.resolve() == path.resolve():
        out = path.with_name(f"{path.stem}-again.json")  # what was measured stays as it is
    results.write(out, {**after, "compared": rows, "fits_then": then["fits"]})
    print(f"Written to {out}.")
    return 0


def again(document: Mapping[str, Any], profiles: Profiles) -> tuple[list[dict[str, Any]], list[str]]:
    """The runs of a document as they are predicted now, and the keys of those whose schedules would be others."""
    sizes = document["sizes"]
    tasks, trigger_ms = kinds(STORE), sizes["trigger_ms"]
    supply = supply_of([Slot(NODE, index) for index in range(sizes["slots"])])
    options = options_of(trigger_ms)

    def scheduled(name: str, pair: Pair, rate_per_s: float) -> Schedule:
        return schedule(job_of(tasks, trigger_ms, name, profiles, rate_per_s), pair, supply=supply, options=options)

    told_anew = {
        run["key"]: retold(run, scheduled, document.get("speeds", {}), supply=supply)
        for run in document["runs"] if run.get("stairs")}
    return (
        [run for run in told_anew.values() if run is not None],
        [key for key, run in told_anew.items() if run is None])


def compared(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each run: the rate predicted then and now, and the one that was measured."""
    then = {run["key"]: run for run in before}
    return [
        {"schedule": run["key"], "planned/s": run["planned_per_s"], "then/s": then[run["key"]]["predicted_per_s"],
         "now/s": run["predicted_per_s"], "actual/s": actual_per_s(run)} for run in now]


def retold(
    run: dict[str, Any], scheduled: Callable[[str, Pair, float], Schedule], speeds: Mapping[str, float | None],
    *, supply: Supply,
) -> dict[str, Any] | None:
    """A run that was made before, with what is predicted by the profiles and the model as they are now; None where its
    schedule would be another now, so that it has to be made again.

    Parameters
    ----------
    run : mapping of str to Any
        The run, as it was kept.
    scheduled : Callable[[str, Pair, float], Schedule]
        Makes the schedule of a dataflow, a pair and a rate.
    speeds : Mapping[str, float | None]
        The speed at which each profile was measured; None where it is not known.
    supply : Supply
        Free slots, what others leave of used ones, and machines to buy.
    """
    if not run.get("stairs"):
        return run
    try:
        now = scheduled(run["dataflow"], tuple(run["pair"]), run["planned_per_s"])
    except WeirError:
        return None
    if placement_document(now)["placement"] != run["placement"] or run.get("runs_as", runs_as(now)) != runs_as(now):
        return None
    updated = run | placement_document(now) | {"stairs": [with_loads(now, stair) for stair in run["stairs"]]}
    at_their_speed(updated, now, speeds, supply=supply)
    return updated


def at_their_speed(
    facts: dict[str, Any], planned: Schedule, speeds: Mapping[str, float | None], *, supply: Supply
) -> None:
    """Add to what was measured of a run what is predicted for cores as fast as they then were.

    Parameters
    ----------
    facts : dict
        The run; ``predicted_at_speed_per_s`` is added, for the highest stable stair (the one that carried most where
        none is), and ``predicted_at_speed`` to each stair.
    planned : Schedule
        What ran.
    speeds : mapping
        By task type, of the cores that profiles are of. Where one is not known, nothing is added.
    supply : Supply
        That it was planned for.
    """
    sustained = highest_stable(facts) or max(
        facts["stairs"], key=lambda stair: stair["carried_per_s"], default=None)
    for stair in facts["stairs"]:
        ran = [stair["speeds"].get(slot.name) for slot in planned.placement.slots]
        if not (all(ran) and all(speeds.get(profile.task_type) for profile in planned.job.profiles.values())):
            return
        job = replace(planned.job, profiles={
            task: profile.at_speed(fmean(ran) / speeds[profile.task_type])
            for task, profile in planned.job.profiles.items()})
        then = predicted(
            job, planned.pair, planned.allocation, planned.placement, supply=supply, options=planned.options)
        stair["predicted_at_speed"] = {
            slot: {"cpu": cpu, "memory": memory}
            for slot, (cpu, memory) in loads_at(then, stair["rate_per_s"]).items()}
        if stair is sustained:
            facts["predicted_at_speed_per_s"] = then.sustained_per_s
