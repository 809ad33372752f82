"""RIoTBench-style dataflows: permutations of the benchmark's topologies over three sources (paper [1], 5.1).

A permutation is a set of paths of RIoTBench's task codes. Paths of one permutation share what they have in common
from the left, as its topologies do, and each ends in an output of its own, named after its path: two dataflows that
compute the same result also deliver it under the same name. Our cleaning always comes in RIoTBench's ETL order
(range filter, then Bloom filter, then interpolation). Decision trees, multivariate regressions, plots and Azure's
tables and blobs have no counterpart in Weir's library; a sliding regression stands for the prediction of PRED.

References
----------
.. [1] Shukla, Chaturvedi and Simmhan, "RIoTBench: A Real-time IoT Benchmark for Distributed Stream Processing
   Platforms", 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.dataflow import Dataflow, Stream, Task

CLEAN = "SML RGF BLF"
FILLED = f"{CLEAN} INP"
PERMUTATIONS: Mapping[str, tuple[str, ...]] = {
    "etl": (f"{FILLED} JON ANN C2S",),
    "etl without annotation": (f"{FILLED} JON C2S",),
    "etl with averages": (f"{FILLED} JON ANN C2S", f"{FILLED} AVG"),
    "stats": ("SML KAL SLR", "SML AVG", "SML DAC"),
    "stats with moments": ("SML KAL SLR", "SML KAL SOM"),
    "stats without forecast": ("SML KAL SOM", "SML AVG", "SML DAC"),
    "pred": (f"{FILLED} KAL SLR", f"{FILLED} AVG"),
}
SENSORS = 8  # few, so that windows of readings fill within seconds


@dataclass(frozen=True, slots=True)
class Domain:
    """A source and what its readings are like: the ranges that they have unless they are outliers."""

    name: str
    source: str
    schema: str
    ranges: Mapping[str, tuple[float, float]]
    annotation: str
    sensors: str  # how its sensors are called, before their number
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # configs that differ from the usual, by code


DOMAINS = (
    Domain(
        "urban", "urban_sensing", "urban",
        {"temperature": (-12.5, 43.1), "humidity": (10.7, 95.2), "light": (0, 9800), "dust": (186.61, 5188.21),
         "airquality_raw": (17, 363)},
        annotation="places", sensors="urban",
    ),
    Domain("grid", "smart_meter", "meter", {"energyconsumed": (1.828, 36.658)}, annotation="people", sensors="meter"),
    Domain(
        "taxi", "taxi_trips", "taxi",
        {"trip_time_in_secs": (140, 3155), "trip_distance": (1.37, 29.86), "fare_amount": (6, 201),
         "tip_amount": (0.65, 38.55), "tolls_amount": (2.5, 18)},
        annotation="taxis", sensors="taxi",
        own={"AVG": {"fields": ["fare_amount", "tip_amount", "trip_distance"]}},
    ),
)

_TYPES: Mapping[str, tuple[str, Callable[[Domain], Mapping[str, Any]]]] = {
    "SML": ("senml_parse", lambda domain: {"schema": domain.schema}),
    "RGF": ("range_filter", lambda domain: {
        "ranges": {name: list(bounds) for name, bounds in domain.ranges.items()}, "outside": "blank",
    }),
    "BLF": ("bloom_filter", lambda domain: {"prefix": domain.sensors, "count": SENSORS - 1}),
    "INP": ("interpolate", lambda domain: {"window": 5}),
    "JON": ("join_by_message", lambda domain: {"schema": domain.schema}),
    "ANN": ("annotate", lambda domain: {"table": domain.annotation}),
    "C2S": ("csv_to_senml", lambda domain: {"schema": domain.schema}),
    "KAL": ("kalman_filter", lambda domain: {}),
    "SLR": ("sliding_linear_regression", lambda domain: {"train": 10, "predict": 2, "every": 5}),
    "AVG": ("block_average", lambda domain: {"window": 10}),
    "DAC": ("distinct_count", lambda domain: {"window": 50}),
    "SOM": ("second_order_moment", lambda domain: {}),
}


def dataflows(*, rate_per_s: float = 10.0) -> tuple[Dataflow, ...]:
    """The 21 dataflows: every permutation over every source, each source at the given rate."""
    return tuple(
        _dataflow(domain, name, paths, rate_per_s) for domain in DOMAINS for name, paths in PERMUTATIONS.items()
    )


def _dataflow(domain: Domain, name: str, paths: tuple[str, ...], rate_per_s: float) -> Dataflow:
    tasks = [Task("source", domain.source, {"seed": 7, "sensors": SENSORS})]
    streams: dict[Stream, None] = {}
    for path in paths:
        codes = path.split()
        above = "source"
        for length, code in enumerate(codes, 1):
            task_id = "_".join(codes[:length]).lower()
            if task_id not in {task.id for task in tasks}:
                tasks.append(_task(task_id, code, domain))
            streams[Stream(above, task_id)] = None
            above = task_id
        tasks.append(Task(f"out_{above}", "output", {"name": f"{domain.name}-{above.replace('_', '-')}"}))
        streams[Stream(above, f"out_{above}")] = None
    return Dataflow(
        name=f"{domain.name}: {name}", tasks=tuple(tasks), streams=tuple(streams), rates_per_s={"source": rate_per_s}
    )


def _task(task_id: str, code: str, domain: Domain) -> Task:
    type_name, config = _TYPES[code]
    return Task(task_id, type_name, {**config(domain), **domain.own.get(code, {})})
