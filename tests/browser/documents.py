"""Two dataflows that share their first four tasks, and larger ones."""

from __future__ import annotations

import json

ETL = """\
name: City ETL
description: Clean, annotated readings of the city's stations
tasks:
  - {id: stations, type: urban_sensing, config: {sensors: 50}}
  - {id: parse, type: senml_parse}
  - {id: plausible, type: range_filter, config: {ranges: {temperature: [-30, 60], humidity: [0, 100]}}}
  - {id: fill, type: interpolate, config: {window: 5}}
  - {id: published, type: output, config: {name: city-clean}}
streams:
  - {from: stations, to: parse}
  - {from: parse, to: plausible}
  - {from: plausible, to: fill}
  - {from: fill, to: published}
rates: {stations: 40}
"""

STATS = """\
name: Station statistics
description: Averages and trends for the mobility team
tasks:
  - {id: sensors, type: urban_sensing, config: {sensors: 50}}
  - {id: parsed, type: senml_parse}
  - {id: in_range, type: range_filter, config: {ranges: {temperature: [-30, 60], humidity: [0, 100]}}}
  - {id: mean, type: block_average, config: {window: 10}}
  - {id: smooth, type: kalman_filter}
  - {id: averages, type: output, config: {name: averages}}
  - {id: smoothed, type: output, config: {name: smoothed}}
streams:
  - {from: sensors, to: parsed}
  - {from: parsed, to: in_range}
  - {from: in_range, to: mean}
  - {from: in_range, to: smooth}
  - {from: mean, to: averages}
  - {from: smooth, to: smoothed}
rates: {sensors: 40}
"""
SHARED = 3  # tasks that both have

# As long as names may well be; with a live source, alternates, and a sink that writes to another system.
_LONG = "readings-of-all-stations-in-the-northern-districts"
LONG = json.dumps({
    "name": "Readings of all stations in the northern districts, cleaned and written to the lake",
    "tasks": [
        {"id": f"{_LONG}-in", "type": "files", "config": {
            "path": "readings", "format": "ndjson", "columns": ["station_of_the_district:string", "value:double"]}},
        {"id": f"{_LONG}-work", "alternates": [
            {"name": "everything-that-arrives", "type": "sql", "value": 2, "config": {
                "query": "SELECT *, 'everything' AS kept FROM input"}},
            {"name": "only-what-is-larger-than-twenty", "type": "sql", "guard": "latency_ms > 2000", "config": {
                "query": "SELECT *, 'large' AS kept FROM input WHERE value > 20"}}]},
        {"id": f"{_LONG}-lake", "type": "to_delta", "config": {"folder": "readings"}},
        {"id": f"{_LONG}-out", "type": "output", "config": {"name": f"{_LONG}"[:50]}}],
    "streams": [{"from": f"{_LONG}-{one}", "to": f"{_LONG}-{other}"}
                for one, other in (("in", "work"), ("work", "lake"), ("work", "out"))],
    "rates": {f"{_LONG}-in": 5}})
LONG_SOURCE, LONG_SINK = f"{_LONG}-in", f"{_LONG}-lake"

BROKEN = """\
name: Broken
tasks:
  - {id: a, type: urban_sensing}
  - {id: b, type: rnge_filter}
  - {id: c, type: output, config: {name: c}}
streams:
  - {from: a, to: b}
  - {from: b, to: zz}
  - {from: b, to: c}
rates: {a: 40}
"""


def wide(tasks: int) -> str:
    """A document of about so many tasks: one source, and many averages with an output each."""
    pairs = (tasks - 2) // 2
    chain_tasks = [{"id": "s", "type": "urban_sensing"}, {"id": "p", "type": "senml_parse"}]
    streams = [{"from": "s", "to": "p"}]
    for number in range(pairs):
        chain_tasks.append({"id": f"m{number}", "type": "block_average", "config": {"window": number + 1}})
        chain_tasks.append({"id": f"o{number}", "type": "output", "config": {"name": f"o{number}"}})
        # Chains of ten, so that the graph has depth as well as breadth.
        streams.append({"from": f"m{number - 1}" if number % 10 else "p", "to": f"m{number}"})
        streams.append({"from": f"m{number}", "to": f"o{number}"})
    return json.dumps({"name": f"wide-{tasks}", "tasks": chain_tasks, "streams": streams, "rates": {"s": 10}})
