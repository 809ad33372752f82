"""What never ends where a sink or a source looks around: a store's listing, folders in each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.contracts.offsets import Offset
from workers.engine.connectors import file_stores
from workers.engine.sinks import objects
from workers.engine.sinks.contract import SinkAway, SinkOpening

PAGE = 100
LEVELS = 300


class Endless(BaseHTTPRequestHandler):
    """A store that lists object after object, named as a sink names its own."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        first = int(query.get("continuation-token", ["0"])[0])
        contents = "".join(
            f"<Contents><Key>a/sink-{number:020d}.json</Key><LastModified>2026-05-01T12:00:00.000Z</LastModified>"
            f"<ETag>&quot;1&quot;</ETag><Size>1</Size></Contents>" for number in range(first + 1, first + PAGE + 1))
        body = (f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{first + PAGE}"
                f"</NextContinuationToken>{contents}</ListBucketResult>").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", f"127.0.0.1:{server.server_port}")
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("bound", ["MOST_BEHIND", "LOOK_S"])
def test_a_sink_gives_up_a_store_that_lists_without_end(
    endless: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, its thread never came back, and nobody was told."""
    monkeypatch.setattr(objects, bound, 0 if bound == "LOOK_S" else 3 * PAGE)
    config = {"endpoint": endless, "region": "us-east-1", "access_key": "one", "secret_key": "two", "bucket": "buck",
              "prefix": "a", "format": "json", "columns": ["n"], "every": 1.0, "megabytes": 1.0}

    with pytest.raises(SinkAway, match="without end") as refusal:
        objects.open_s3(SinkOpening("sink", "t" * 12, config, ["n"], Offset("0-0")))

    assert "127.0.0.1" not in str(refusal.value)


def test_folders_in_each_other_take_one_file_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each level took one, and a call of its own: a thousand of them ended the source."""
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(tmp_path))
    top = deep = tmp_path / "in"
    top.mkdir()
    for _ in range(LEVELS):
        deep /= "d"
        deep.mkdir()
    (deep / "last.json").write_text("{}")
    (top / "first.json").write_text("{}")
    before, most = len(os.listdir("/proc/self/fd")), 0

    names = []
    for listed in file_stores.Folder("in").files():
        most = max(most, len(os.listdir("/proc/self/fd")))
        names.append(listed.name)

    assert sorted(names) == sorted(["first.json", "d/" * LEVELS + "last.json"])
    assert most <= before + 2  # the folder, and the one that counts
