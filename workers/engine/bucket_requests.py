"""Requests to a bucket of an S3-compatible store: signed by Signature Version 4, each with a deadline and a bound of
what is read of its answer, and none by a redirect. [1]_

References
----------
.. [1] Amazon S3 API Reference, "GetObject", "HeadObject", "PutObject" and "Authenticating Requests: Using the
   Authorization Header".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote

from workers.library.outbound import HttpAnswer, Line
from workers.library.reach import require_elsewhere

REQUEST_S = 30.0
_USUAL_PORTS = {"https": 443, "http": 80}


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


def line_to(address: BucketAddress, *, writes: bool = False) -> Line:
    """A connection to the store, which may be in a private range: the operator allows it."""
    return Line(address.scheme, address.host, address.port, require_address=partial(
        require_elsewhere, port=address.port, usual_port=_USUAL_PORTS[address.scheme], writes=writes))


def ask_bucket(
    line: Line, address: BucketAddress, method: str, key: str = "", *, query: Mapping[str, str] | None = None,
    body: bytes = b"", headers: Mapping[str, str] | None = None, most_bytes: int
) -> HttpAnswer:
    """Ask a bucket, or for an object in it.

    Parameters
    ----------
    headers : mapping, optional
        Those that are signed, with names in lower case.
    most_bytes : int
        So much of the answer is read, and one byte more where there is more.

    Raises
    ------
    Unanswered
        No whole answer came.
    InvalidConfig
        The store's name leads to where nothing may be asked.
    """
    path = quote(f"/{address.bucket}/{key}" if key else f"/{address.bucket}", safe="/-_.~")
    text = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted((query or {}).items()))
    signed = signed_headers(
        address, path, text, datetime.now(UTC), method=method, body=body, headers=headers or {})
    return line.ask(method, f"{path}?{text}" if text else path, headers=signed, body=body or None,
                    deadline_s=REQUEST_S, most_bytes=most_bytes)


def part_of(line: Line, address: BucketAddress, key: str, *, start: int, end: int, tag: str = "") -> HttpAnswer:
    """Ask for some bytes of an object, and one more where the store gives more; only of the content that has this tag.

    Parameters
    ----------
    start, end : int
        The first byte, and the one behind the last.

    Raises
    ------
    Unanswered, InvalidConfig
        As `ask_bucket` does.
    """
    headers = {"range": f"bytes={start}-{end - 1}", **({"if-match": tag} if tag else {})}
    return ask_bucket(line, address, "GET", key, headers=headers, most_bytes=end - start)


def signed_headers(
    address: BucketAddress, path: str, query: str, now: datetime, *, method: str = "GET", body: bytes = b"",
    headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The headers of a request with what it is signed by; an anonymous one is not."""
    at, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    if not address.access_key:
        return {"Host": address.authority, **(headers or {})}
    digest = hashlib.sha256(body).hexdigest()
    all_headers = dict(sorted({
        **(headers or {}), "host": address.authority, "x-amz-content-sha256": digest, "x-amz-date": at}.items()))
    names = ";".join(all_headers)
    lines = [f"{name}:{value}" for name, value in all_headers.items()]
    request = "\n".join([method, path, query, *lines, "", names, digest])
    scope = f"{day}/{address.region}/s3/aws4_request"
    signed = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{address.secret_key}".encode()
    for part in (*scope.split("/"), signed):
        key = hmac.digest(key, part.encode(), "sha256")
    return {**all_headers, "authorization": f"AWS4-HMAC-SHA256 Credential={address.access_key}/{scope}, "
                                         f"SignedHeaders={names}, Signature={key.hex()}"}


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
