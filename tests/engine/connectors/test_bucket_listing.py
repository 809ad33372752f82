"""What a bucket holds: requests as botocore signs them, pages to the end, and what no listing is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.connectors.bucket_listing import BucketAddress, NotListed, _headers, _quoted, objects_of

NOW = datetime(2026, 5, 1, 12, 30, 15, tzinfo=UTC)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12), st.sampled_from([443, 9000]))
def test_a_request_is_signed_as_botocore_signs_it(prefix, port):
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    address = BucketAddress("https", "store.example.org", port, "buck", "eu-west-1", "AKIA", "geheim/+")
    query = f"encoding-type=url&list-type=2&prefix={_quoted(prefix)}"
    request = AWSRequest("GET", f"https://{address.authority}/buck?{query}", headers={
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None), raising=False)
        signer = auth.S3SigV4Auth(Credentials("AKIA", "geheim/+"), "s3", "eu-west-1")
        signer.add_auth(request)
    stamp = request.context["timestamp"] if "timestamp" in request.context else request.headers["X-Amz-Date"]
    at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert _headers(address, "/buck", query, at)["authorization"] == request.headers["Authorization"]


class Store:
    """A store that lists some keys, two a page, and answers what it is told to."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.status, self.body = 200, None
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = store.page(parse_qs(urlsplit(self.path).query)) if store.body is None else store.body
                self.send_response(store.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = BucketAddress("http", "127.0.0.1", self._server.server_port, "buck", "us-east-1")

    def page(self, query: dict[str, list[str]]) -> bytes:
        fitting = sorted(key for key in self.keys if key.startswith(query.get("prefix", [""])[0]))
        begin = int(query.get("continuation-token", ["0"])[0])
        following = f"<NextContinuationToken>{begin + 2}</NextContinuationToken>" if begin + 2 < len(fitting) else ""
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><LastModified>2026-05-01T12:00:00.000Z</LastModified>"
            f"<ETag>&quot;{number}&quot;</ETag><Size>{len(key)}</Size></Contents>"
            for number, key in enumerate(fitting[begin:begin + 2]))
        return (f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{contents}'
                f"{following}</ListBucketResult>").encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.close()


def test_all_pages_come_with_keys_as_they_are(store: Store) -> None:
    store.keys = ["in//a", "in/b c+d%20", "in/ü&<>\"'", "in/z", "in/\x01", "other"]
    objects = list(objects_of(store.address, "in/"))
    assert sorted(item.key for item in objects) == sorted(store.keys[:-1])
    assert all(item.size == len(item.key) and item.modified_ms == 1_777_636_800_000 and item.tag for item in objects)


@pytest.mark.parametrize(("status", "body", "reported"), [
    (403, b"", 403), (404, b"<Error/>", 404), (200, b"no XML", 0), (503, b"", 503),
    (200, b"<ListBucketResult><Contents><Size>x</Size></Contents></ListBucketResult>", 0)])
def test_what_is_no_listing_is_told_by_its_status(store: Store, status: int, body: bytes, reported: int) -> None:
    store.status, store.body = status, body
    with pytest.raises(NotListed) as refused:
        list(objects_of(store.address, ""))
    store.status, store.body = 200, None
    assert refused.value.status == reported


def test_a_store_that_is_away_is_told(store: Store) -> None:
    gone = Store()
    gone.close()
    with pytest.raises(NotListed):
        list(objects_of(gone.address, ""))
