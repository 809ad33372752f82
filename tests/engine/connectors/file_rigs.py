"""Rigs of sources that read files: of a folder, and of a bucket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from scheduler.model.dataflow import Task
from tests.benches.services import until_open
from workers.launcher.broker import free_port

from .rig import COLUMNS, event


class FolderRig:
    """A folder below an inbox; files are written beside it and moved there."""

    exact, takes_garbage = True, True

    def __init__(self, folder: Path) -> None:
        self._inbox, self._files, self._folder = folder, 0, 0
        self.environment = {"WEIR_INBOX_DIRS": str(folder)}

    @property
    def drop(self) -> Path:
        """Where files appear now."""
        return self._inbox / f"drop{self._folder}"

    def anew(self) -> None:
        """A folder of its own for a test."""
        self._folder += 1
        self.drop.mkdir()

    def task(self, **config: Any) -> Task:
        return Task(f"d{self._folder}", "files", {
            "path": self.drop.name, "columns": COLUMNS, "start": "oldest", "every": 0.1, **config})

    def put(self, body: bytes, suffix: str = ".ndjson") -> str:
        """A file with that content, whose name says when it came."""
        self._files += 1
        name = f"{self._files:06}{suffix}"
        beside = self._inbox / f".{name}"
        beside.write_bytes(body)
        beside.rename(self.drop / name)
        return name

    def send(self, numbers: Sequence[int]) -> None:
        self.put("".join(json.dumps(event(number)) + "\n" for number in numbers).encode())

    def send_garbage(self) -> None:
        self.put(b"{no json\n")

    def send_other(self, number: int) -> None:
        self.put(json.dumps({"n": str(number), "more": [1]}).encode())

    def leave(self) -> None:
        self.drop.rename(self._inbox / ".away")

    def return_(self) -> None:
        (self._inbox / ".away").rename(self.drop)

    def close(self) -> None:
        return


class BucketRig(FolderRig):
    """A bucket of moto's server, in this process; its objects outlast the server."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("moto.server", reason="moto is not installed")
        super().__init__(folder)
        self.port = free_port()
        self._server: Any = None
        self.return_()
        self.environment = {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{self.port}"}
        self.keys = {"access_key": "AKIA", "secret_key": "geheim"}
        self._bucket = ""

    def anew(self) -> None:
        from obstore.store import S3Store

        self._folder += 1
        self._bucket = f"drop{self.port}-{self._folder}"  # moto's objects outlast its servers, too
        urlopen(Request(f"http://127.0.0.1:{self.port}/{self._bucket}", method="PUT")).close()
        self._store = S3Store(
            self._bucket, endpoint=f"http://127.0.0.1:{self.port}", region="us-east-1", access_key_id="AKIA",
            secret_access_key="geheim", client_options={"allow_http": True})

    def task(self, **config: Any) -> Task:
        return Task(f"b{self._folder}", "files", {
            "path": f"s3://{self._bucket}/in", "endpoint": f"127.0.0.1:{self.port}", "tls": False, **self.keys,
            "columns": COLUMNS, "start": "oldest", "every": 0.1, **config})

    def put(self, body: bytes, suffix: str = ".ndjson") -> str:
        import obstore

        self._files += 1
        name = f"{self._files:06}{suffix}"
        obstore.put(self._store, f"in/{name}", body)
        return name

    def leave(self) -> None:
        self._server.stop()

    def return_(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()
        until_open(self.port)

    def close(self) -> None:
        self._server.stop()
