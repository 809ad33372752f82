"""`./weir bench links`: what a node notices of its link to the broker (`./weir agent --link`), without Spark.

For no link, a relay and a network namespace: how long a question takes there and back, and how many Mbit/s pass each
way. A namespace that the kernel does not allow is said, with the reason, and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.benches import results
from tests.benches.arguments import count, positive
from tests.benches.engine import bench
from workers.engine.worker_settings import ROOT
from workers.launcher.links.link import How, LinkRequest, NoLink, linked
from workers.processes import python_path

NODE = "bench"
BLOCK = 1 << 18  # bytes, as a large block of events


def probe(url: str, *, questions: int, blocks: int) -> dict[str, Any]:
    """What a client at a node's end measures: seconds of each question, and Mbit/s to the broker and from it."""
    content, name = os.urandom(BLOCK), "weir-bench-links"
    with redis.Redis.from_url(url) as client:
        client.ping()
        taken_s = []
        for _ in range(questions):
            began_s = time.perf_counter()
            client.ping()
            taken_s.append(time.perf_counter() - began_s)
        rates = []
        for pipelined in (lambda pipeline: pipeline.set(name, content), lambda pipeline: pipeline.get(name)):
            began_s = time.perf_counter()
            pipeline = client.pipeline(transaction=False)
            for _ in range(blocks):
                pipelined(pipeline)
            pipeline.execute()
            rates.append(8e-6 * BLOCK * blocks / (time.perf_counter() - began_s))
        client.delete(name)
    return {"taken_s": taken_s, "up_mbit": rates[0], "down_mbit": rates[1]}


def measure(url: str, wanted: LinkRequest | None, *, questions: int, blocks: int) -> dict[str, Any]:
    """The same from a process at the node's end of such a link; without one, from where the broker is.

    Parameters
    ----------
    url : str
        The broker's address.
    wanted : LinkRequest, optional
        The link.
    questions, blocks : int
        How many are measured.

    Raises
    ------
    NoLink
        The kernel does not allow it.
    """
    with _end(url, wanted) as (own_url, words, command):
        argv = command((sys.executable, "-P", "-m", "tests.benches.links", "--probe", own_url,
                        "--questions", str(questions), "--blocks", str(blocks)))
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": python_path(ROOT)})
    figures = json.loads(done.stdout)
    taken_ms = [1000 * seconds for seconds in figures.pop("taken_s")]
    return {
        "there and back ms": round(statistics.median(taken_ms), 2),
        "p95 ms": round(statistics.quantiles(taken_ms, n=20, method="inclusive")[-1], 2),
        "Mbit/s up": round(figures["up_mbit"], 1), "Mbit/s down": round(figures["down_mbit"], 1), "words": words}


@contextmanager
def _end(url: str, wanted: LinkRequest | None) -> Iterator[tuple[str, str, Callable[[Sequence[str]], Sequence[str]]]]:
    """The broker's address at the node's end, the link in words, and how a command is run there."""
    if wanted is None:
        yield url, "no link", lambda argv: argv
        return
    with linked(NODE, url, wanted) as link:
        yield link.url, link.words, link.command


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Measure what a node notices of its link to the broker: a question there and back, and Mbit/s.")
    parser.add_argument("--delay-ms", type=positive, default=5.0, help="of the link, each way (%(default)g)")
    parser.add_argument("--mbit", type=positive, default=100.0, help="of the link, each way (%(default)g)")
    parser.add_argument("--questions", type=count, default=200, help="how many (%(default)d)")
    parser.add_argument("--blocks", type=count, default=40, help="of 256 KiB, each way (%(default)d)")
    parser.add_argument("--json", type=Path, default=Path("links.json"))
    parser.add_argument("--probe", help=argparse.SUPPRESS)  # the client's process, at the node's end
    given = parser.parse_args(arguments)
    if given.probe:
        print(json.dumps(probe(given.probe, questions=given.questions, blocks=given.blocks)))
        return 0
    rows, load_before = [], os.getloadavg()[0]
    kinds: tuple[How | None, ...] = (None, "relay", "netns")
    with bench() as at:
        for how in kinds:
            wanted = LinkRequest(how, given.delay_ms, given.mbit) if how else None
            try:
                rows.append({"link": how or "none", **measure(
                    at.url, wanted, questions=given.questions, blocks=given.blocks)})
            except NoLink as error:
                print(error, file=sys.stderr)
    print(results.table([{name: value for name, value in row.items() if name != "words"} for row in rows]))
    for row in rows:
        print(f"{row['link']}: {row['words']}")
    results.write(given.json, {
        "bench": "links", "machine": results.machine(), "load": [load_before, os.getloadavg()[0]],
        "delay_ms": given.delay_ms, "mbit_per_s": given.mbit, "rows": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
