"""What a bucket holds: requests as botocore signs them, pages to the end, and what no listing is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.bucket_requests import BucketAddress, _quoted, signed_headers
from workers.engine.connectors.bucket_listing import ListedObject, NotListed, objects_of
from workers.engine.connectors.contract import SourceAway, SourceRefused
from workers.engine.connectors.file_stores import Bucket, FileGone, ListedFile
from workers.library.config import InvalidConfig

PIECE_BYTES = 1 << 20
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
    assert signed_headers(address, "/buck", query, at)["authorization"] == request.headers["Authorization"]


@given(st.binary(max_size=12), st.sampled_from(["a/b", "a b+ü"]))
def test_an_object_is_put_as_botocore_signs_it(body, key):
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    address = BucketAddress("https", "store.example.org", 443, "buck", "eu-west-1", "AKIA", "geheim/+")
    path, more = quote(f"/buck/{key}", safe="/-_.~"), {"if-none-match": "*", "x-amz-meta-weir-until": "7-0"}
    request = AWSRequest("PUT", f"https://{address.authority}{path}", data=body, headers=more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda *_: NOW.replace(tzinfo=None), raising=False)
        signer = auth.S3SigV4Auth(Credentials("AKIA", "geheim/+"), "s3", "eu-west-1")
        request.context["payload_signing_enabled"] = True
        signer.add_auth(request)
    stamp = request.context["timestamp"] if "timestamp" in request.context else request.headers["X-Amz-Date"]
    at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    signed = signed_headers(address, path, "", at, method="PUT", body=body, headers=more)
    assert signed["authorization"] == request.headers["Authorization"]


class Store:
    """A store that lists some keys, two a page, and answers what it is told to."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.status, self.body, self.taken, self.leads_to = 200, None, 0, ""
        self.requests: list[dict[str, str]] = []
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = store.page(parse_qs(urlsplit(self.path).query)) if store.body is None else store.body
                store.requests.append({"path": self.path, **self.headers})
                self.send_response(store.status)
                if store.leads_to:
                    self.send_header("Location", store.leads_to)
                self.send_header("Content-Length", str(len(body)))
                if store.status == 206:
                    self.send_header("Content-Range", "bytes 0-99/100")
                    self.send_header("Last-Modified", "Fri, 01 May 2026 12:00:00 GMT")
                self.end_headers()
                store.taken = 0
                with suppress(ConnectionError):
                    for begin in range(0, len(body), PIECE_BYTES):
                        self.wfile.write(body[begin:begin + PIECE_BYTES])
                        store.taken = begin + PIECE_BYTES

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


@pytest.mark.parametrize(("status", "body", "expected"), [
    (403, b"", 403), (404, b"<Error/>", 404), (200, b"no XML", 0), (503, b"", 503),
    (200, b"<ListBucketResult><Contents><Size>x</Size></Contents></ListBucketResult>", 0),
    (200, b'<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><ListBucketResult><Name>&b;</Name></ListBucketResult>',
     0), *((200, f"<ListBucketResult><Contents><Key>{key}</Key><LastModified>{at}</LastModified><Size>{size}</Size>"
                 "</Contents></ListBucketResult>".encode(), 0)
           for key, at, size in (("k" * 5_000, "2026-05-01T12:00:00Z", 1), ("k", "2026-05-01T12:00:00Z", -1),
                                 ("k", "2026-05-01T12:00:00Z", 1 << 63), ("k", "9999-12-31T23:59:59", "1" * 5_000)))])
def test_what_is_no_listing_is_told_by_its_status(store: Store, status: int, body: bytes, expected: int) -> None:
    store.status, store.body = status, body
    with pytest.raises(NotListed) as refused:
        list(objects_of(store.address, ""))
    store.status, store.body = 200, None
    assert refused.value.status == expected


@pytest.mark.parametrize("begin", ["<ListBucketResult>", '<?xml version="1.0" encoding="none"?><ListBucketResult>'])
def test_a_page_is_read_without_its_space_and_by_no_encoding_but_its_own(store: Store, begin: str) -> None:
    """What tells spaces apart copies a space's name for each element: a page of 16 MB took hours."""
    store.body = (f"{begin}<x:Contents><Key>a%2Fb</Key><Owner><Key>no</Key></Owner><Size>7</Size>"
                  "<LastModified>1970-01-01T00:00:01Z</LastModified><ETag>t</ETag></x:Contents></ListBucketResult>"
                  ).encode()
    assert list(objects_of(store.address, "")) == [ListedObject("a/b", 7, 1000, "t")]
    store.body = None


@pytest.mark.parametrize(("encoding", "key"), [("<EncodingType>url</EncodingType>", "a b+c"), ("", "a+b+c")])
def test_a_space_is_written_as_amazon_writes_it(store: Store, encoding: str, key: str) -> None:
    """A store that does not say that it encodes keys writes a plus sign as it is."""
    store.body = ("<ListBucketResult><Contents><Key>a+b%2Bc</Key><LastModified>1970-01-01T00:00:01Z</LastModified>"
                  f"</Contents>{encoding}</ListBucketResult>").encode()
    assert [item.key for item in objects_of(store.address, "")] == [key]
    store.body = None


@pytest.mark.parametrize("entry", ["", "<Contents><Key>same</Key><LastModified>2026-05-01T12:00:00Z</LastModified>"
                                       "</Contents>"])
def test_a_store_whose_pages_never_end_is_given_up(store: Store, entry: str) -> None:
    store.body = (f"<ListBucketResult>{entry}<NextContinuationToken>more</NextContinuationToken>"
                  "</ListBucketResult>").encode()
    with pytest.raises(NotListed):
        list(objects_of(store.address, ""))
    store.body = None


@pytest.fixture
def bucket(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    host = f"127.0.0.1:{store.address.port}"
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", host)
    yield Bucket({"path": "s3://buck/in", "endpoint": host, "tls": False, "region": "us-east-1", "access_key": None,
                  "secret_key": None})
    store.status, store.body, store.leads_to = 200, None, ""


def test_a_part_is_asked_for_by_its_key_and_of_the_content_that_was_seen(store: Store, bucket: Bucket) -> None:
    store.status, store.body = 206, b"x" * 100
    with bucket.open(ListedFile(0, "a/b ü+%", 100, '"tag"')) as file:
        assert len(file.read()) == 100
    request = store.requests[-1]
    assert request["path"] == "/buck/in/a/b%20%C3%BC%2B%25"
    assert (request["range"], request["if-match"]) == ("bytes=0-99", '"tag"')


def test_a_store_that_sends_more_than_was_asked_for_fills_no_memory(store: Store, bucket: Bucket) -> None:
    store.status, store.body = 206, b"x" * 200 * PIECE_BYTES
    with bucket.open(ListedFile(0, "key", 100)) as file, pytest.raises(FileGone, match="more bytes than were"):
        file.read()
    assert store.taken < len(store.body), "the rest was not waited for"


@pytest.mark.parametrize(("status", "body", "error"), [
    (404, b"", FileGone), (412, b"", FileGone), (416, b"", FileGone), (403, b"", SourceRefused), (503, b"", SourceAway),
    (200, b"x" * 100, SourceAway), (206, b"x" * 99, SourceAway)])
def test_what_is_no_part_is_told_by_its_status(
    store: Store, bucket: Bucket, status: int, body: bytes, error: type[Exception]
) -> None:
    store.status, store.body = status, body
    with bucket.open(ListedFile(0, "key", 100)) as file, pytest.raises(error):
        file.read()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_store_leads_nowhere_else(store: Store, bucket: Bucket, status: int) -> None:
    inner = Store()
    inner.status, inner.body = 206, b"x" * 100
    store.status, store.body, store.leads_to = status, b"", f"http://127.0.0.1:{inner.address.port}/latest/meta-data"
    with bucket.open(ListedFile(0, "key", 100)) as file, pytest.raises((SourceRefused, SourceAway)):
        file.read()
    inner.close()
    assert not inner.requests


@pytest.mark.parametrize(("leads_to", "named", "is_asked"), [
    ("127.0.0.1", "", False), ("169.254.169.254", "", False), ("::ffff:127.0.0.1", "", False), ("::1", "", False),
    ("127.0.0.1", ",localhost:{port}", True), ("169.254.169.254", ",localhost:{port}", False),
    ("10.1.2.3", "", True), ("fe80::1%1", ",localhost:{port}", False)])
def test_a_name_that_comes_to_lead_to_this_machine_is_not_followed(
    store: Store, monkeypatch: pytest.MonkeyPatch, leads_to: str, named: str, is_asked: bool
) -> None:
    """Who runs an allowed store had a node read what a cloud tells its machines, credentials too, as a file."""
    host, port = "store.example.org", store.address.port
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", f"{host}:{port}{named.format(port=port)}")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (leads_to, port))])
    connected: list[str] = []

    def connect(address: tuple[str, int], **_: object) -> None:
        connected.append(address[0])
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    bucket = Bucket({"path": "s3://latest", "endpoint": f"{host}:{port}", "tls": False, "region": "us-east-1",
                     "access_key": None, "secret_key": None})
    file = bucket.open(ListedFile(0, "meta-data/iam", 100))
    for ask in (lambda: list(bucket.files()), file.read):
        with pytest.raises(SourceAway if is_asked else InvalidConfig):
            ask()
    assert set(connected) == ({leads_to} if is_asked else set())


def test_a_store_that_is_away_is_told(store: Store) -> None:
    gone = Store()
    gone.close()
    with pytest.raises(NotListed):
        list(objects_of(gone.address, ""))
