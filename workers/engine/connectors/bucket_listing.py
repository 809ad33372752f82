"""The objects of a bucket, by its own listing (ListObjectsV2 [1]_).

The client that is at hand gives up a whole listing for one key with an empty part (``a//b``).

References
----------
.. [1] Amazon S3 API Reference, "ListObjectsV2".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import unquote, unquote_plus
from xml.parsers import expat

from workers.engine.bucket_requests import BucketAddress, ask_bucket, line_to
from workers.library.outbound import HttpAnswer, Line, Unanswered

MOST_PAGES = 100_000  # a hundred million keys
MOST_IDLE_PAGES = 20  # in a row that say that more is to come, and bring no other key than the last
PAGE_BYTES = 16 << 20  # a thousand keys of 1,024 bytes, each written as up to three
REFUSAL_BYTES = 2_000  # that are kept of an answer which is no listing
VALUE_CHARACTERS = 4_096  # of a key as it is written, of a tag and of what stands beside it
MOST_SIZE = 1 << 63  # bytes of an object


class NotListed(Exception):
    """The store gives no listing; ``status`` is its answer's, 0 where there is none, ``text`` how that begins."""

    def __init__(self, status: int = 0, text: str = "") -> None:
        super().__init__(f"status {status}")
        self.status, self.text = status, text


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object's whole key, its bytes, when it was last written (ms since the epoch), and the tag of its content."""

    key: str
    size: int
    modified_ms: int
    tag: str


def objects_of(
    address: BucketAddress, prefix: str, *, after: str = "", writes: bool = False
) -> Iterator[ListedObject]:
    """All objects whose keys begin so, in the order of their keys.

    Parameters
    ----------
    after : str, optional
        Those behind this key alone.
    writes : bool, optional
        The operator lets the store be written to.

    Raises
    ------
    NotListed
        The store refuses, or does not answer, or says again and again that more is to come where nothing does.
    """
    line = line_to(address, writes=writes)
    token: str | None = ""
    newest, idle = "", 0
    try:
        for _ in range(MOST_PAGES):
            query = {"list-type": "2", "encoding-type": "url", "prefix": prefix,
                     **({"continuation-token": token} if token else {"start-after": after} if after else {})}
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


def _answer_of(line: Line, address: BucketAddress, query: dict[str, str]) -> HttpAnswer:
    answer = ask_bucket(line, address, "GET", query=query, most_bytes=PAGE_BYTES)
    if answer.status != 200:
        raise NotListed(answer.status, answer.body[:REFUSAL_BYTES].decode(errors="replace"))
    return answer


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
