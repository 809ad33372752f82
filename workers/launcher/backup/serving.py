"""The broker of a data folder: the running one, or one that is started for the moment."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from workers.launcher import broker as embedded
from workers.launcher import state_folder
from workers.launcher.process_start import shown
from workers.launcher.state_folder import CannotStart

READY_S = 120.0  # it reads its whole file first


@contextmanager
def of_system(data_dir: Path, *, given_url: str) -> Iterator[str]:
    """The address of the broker of a system, whether that runs or not.

    Parameters
    ----------
    given_url : str
        ``REDIS_URL``; empty for the embedded one.
    """
    if given_url:
        if not embedded.answers(given_url):
            raise CannotStart(f"REDIS_URL names {shown(given_url)}, where no broker answers.")
        yield given_url
        return
    url_file = state_folder.broker_url_file(data_dir)
    url = url_file.read_text().strip() if url_file.is_file() else ""
    if url and embedded.answers(url):
        yield url
        return
    try:
        lock = state_folder.lock(data_dir)
    except CannotStart:
        raise CannotStart(
            f"The system of {data_dir} runs, but its broker does not answer: see logs/broker.log, and try again."
        ) from None
    with lock, started(data_dir) as broker_url:
        yield broker_url


@contextmanager
def started(data_dir: Path) -> Iterator[str]:
    """A broker on a data folder that nobody else uses, ended with the context; all that it was told is on disk then."""
    prepared = embedded.prepare(data_dir)
    log = (data_dir / "broker" / "copy.log").open("wb")
    with log, subprocess.Popen(
        prepared.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=data_dir, start_new_session=True,
    ) as process:
        try:
            _wait_for(prepared.url, process)
            yield prepared.url
        finally:
            with suppress(redis.RedisError), redis.Redis.from_url(prepared.url, socket_timeout=READY_S) as client:
                client.shutdown()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
    with suppress(OSError):
        os.unlink(data_dir / "broker" / "copy.log")


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + READY_S
    while not embedded.answers(url):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise CannotStart("The broker of the data folder does not start: see broker/copy.log there.")
        time.sleep(0.05)
