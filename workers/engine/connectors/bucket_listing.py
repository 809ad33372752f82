"""The objects of a bucket, by its own listing (ListObjectsV2), and parts of its objects (GetObject); signed by
Signature Version 4.

The client that is at hand gives up a whole listing for one key with an empty part (``a//b``), and follows a redirect of
a store to whatever address it names.

References
----------
.. [1] Amazon S3 API Reference, "ListObjectsV2", "GetObject" and "Authenticating Requests: Using the Authorization
   Header".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote, unquote, unquote_plus
from xml.parsers import expat

from workers.library.outbound import HttpAnswer, Line, Unanswered
from workers.library.reach import require_elsewhere

PAGE_S = 30.0
MOST_PAGES = 100_000  # a hundred million keys
MOST_IDLE_PAGES = 20  # in a row that say that more is to come, and bring no other key than the last
PAGE_BYTES = 16 << 20  # a thousand keys of 1,024 bytes, each written as up to three
VALUE_CHARACTERS = 4_096  # of a key as it is written, of a tag and of what stands beside it
MOST_SIZE = 1 << 63  # bytes of an object
_USUAL_PORTS = {"https": 443, "http": 80}
_NOTHING = hashlib.sha256(b"").hexdigest()


class NotListed(Exception):
    """The store gives no listing; ``status`` is its answer's, 0 where there is none."""

    def __init__(self, status: int = 0) -> None:
        super().__init__(f"status {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object's whole key, its bytes, when it was last written (ms since the epoch), and the tag of its content."""

    key: str
    size: int
    modified_ms: int
    tag: str


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """The address of a bucket, and its credentials: scheme, host and port of its store, its name and region, and who
    asks: the access key with its secret, or nobody."""

    scheme: str
    host: str
    port: int
    bucket: str
    region: str
    access_key: str | None = None
    secret_key: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as the header ``Host`` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _USUAL_PORTS[self.scheme] else f"{host}:{self.port}"


def objects_of(address: BucketAddress, prefix: str) -> Iterator[ListedObject]:
    """All objects whose keys begin so, in the order of their keys.

    Raises
    ------
    NotListed
        The store refuses, or does not answer, or says again and again that more is to come where nothing does.
    """
    line = line_to(address)
    token: str | None = ""
    newest, idle = "", 0
    try:
        for _ in range(MOST_PAGES):
            query = {"list-type": "2", "encoding-type": "url", "prefix": prefix,
                     **({"continuation-token": token} if token else {})}
            objects, token = _page(_answer_of(line, address, query))
            yield from objects
            if token is None:
                return
            last = objects[-1].key if objects else newest
            newest, idle = last, idle + 1 if last == newest else 0
            if idle > MOST_IDLE_PAGES:
                break
        raise NotListed
    except Unanswered:
        raise NotListed from None
    finally:
        line.close()


def line_to(address: BucketAddress) -> Line:
    """A connection to the store, which may be in a private range: the operator allows it."""
    return Line(address.scheme, address.host, address.port, require_address=partial(
        require_elsewhere, port=address.port, usual_port=_USUAL_PORTS[address.scheme]))


def part_of(line: Line, address: BucketAddress, key: str, *, start: int, end: int, tag: str = "") -> HttpAnswer:
    """Some bytes of an object, and one more where the store gives more; only of the content that has this tag.

    Parameters
    ----------
    start, end : int
        The first byte, and the one behind the last.

    Raises
    ------
    Unanswered
        No whole answer came.
    InvalidConfig
        The store's name leads to where nothing may be asked.
    """
    path = quote(f"/{address.bucket}/{key}", safe="/-_.~")
    headers = _headers(address, path, "", datetime.now(UTC))
    headers |= {"Range": f"bytes={start}-{end - 1}", **({"If-Match": tag} if tag else {})}
    return line.ask("GET", path, headers=headers, deadline_s=PAGE_S, most_bytes=end - start)


def _answer_of(line: Line, address: BucketAddress, query: dict[str, str]) -> HttpAnswer:
    path = quote(f"/{address.bucket}")
    text = "&".join(f"{_quoted(name)}={_quoted(query[name])}" for name in sorted(query))
    answer = line.ask("GET", f"{path}?{text}", headers=_headers(address, path, text, datetime.now(UTC)),
                      deadline_s=PAGE_S, most_bytes=PAGE_BYTES)
    if answer.status != 200:
        raise NotListed(answer.status)
    return answer


def _headers(address: BucketAddress, path: str, query: str, now: datetime) -> dict[str, str]:
    """What a request is signed with; an anonymous one by nothing."""
    at, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": address.authority, "x-amz-content-sha256": _NOTHING, "x-amz-date": at}
    if not address.access_key:
        return {"Host": address.authority}
    names = ";".join(headers)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    request = "\n".join(["GET", path, query, *lines, "", names, _NOTHING])
    scope = f"{day}/{address.region}/s3/aws4_request"
    signed = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{address.secret_key}".encode()
    for part in (*scope.split("/"), signed):
        key = hmac.digest(key, part.encode(), "sha256")
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 Credential={address.access_key}/{scope}, "
                                        f"SignedHeaders={names}, Signature={key.hex()}"}


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


class _PageReader:
    """Keeps the values of a page's objects, and what the next page is asked for by. Names are read without the space
    that they are of: a parser that tells spaces apart copies the space's name for each element, however long that is.
    """

    def __init__(self) -> None:
        self.objects: list[ListedObject] = []  # with their keys as they are written
        self.token = self.encoding = ""
        self._values: dict[str, str] = {}  # of the object that is read
        self._path: list[str] = []
        self._parser = expat.ParserCreate("utf-8")  # whatever the page declares: no other is S3's
        self._parser.buffer_text = True
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._begin, self._end
        self._parser.CharacterDataHandler, self._parser.StartDoctypeDeclHandler = self._add, self._refuse

    def read(self, body: bytes) -> None:
        """Read a page; ``ExpatError`` or ``ValueError`` where it is none."""
        self._parser.Parse(body, True)

    def _refuse(self, *_: object) -> None:
        raise ValueError("a document type: its entities make a hundred times what was sent")

    def _begin(self, name: str, _: object) -> None:
        self._path.append(name.rpartition(":")[2] if len(self._path) < 3 else "")
        if len(self._path) == 2 and self._path[1] == "Contents":
            self._values = {}

    def _add(self, text: str) -> None:
        match self._path:
            case [_, "NextContinuationToken"]:
                self.token = _longer(self.token, text)
            case [_, "EncodingType"]:  # which may come behind all keys
                self.encoding = _longer(self.encoding, text)
            case [_, "Contents", "Key" | "Size" | "LastModified" | "ETag" as name]:
                self._values[name] = _longer(self._values.get(name, ""), text)

    def _end(self, _: str) -> None:
        if self._path[1:] == ["Contents"]:
            self.objects.append(_listed(self._values))
        self._path.pop()


def _longer(before: str, text: str) -> str:
    if len(before) + len(text) > VALUE_CHARACTERS:
        raise ValueError("too long")
    return before + text


def _listed(values: dict[str, str]) -> ListedObject:
    size = int(values.get("Size", "0"))
    if not 0 <= size < MOST_SIZE:
        raise ValueError("no size")
    return ListedObject(
        values.get("Key", ""), size,
        int(datetime.fromisoformat(values.get("LastModified", "")).timestamp() * 1000), values.get("ETag", ""))


def _page(answer: HttpAnswer) -> tuple[list[ListedObject], str | None]:
    """The objects of a page, and what the next one is asked for by; None behind the last."""
    page = _PageReader()
    try:
        page.read(answer.body)
    except (expat.ExpatError, ValueError, OverflowError):
        raise NotListed from None
    read = unquote_plus if page.encoding == "url" else unquote  # as Amazon writes keys, "+" is a space
    return [replace(item, key=read(item.key)) for item in page.objects], page.token or None
