"""S3-compatible services: how they are reached, and what their errors mean. No message holds an address or a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from workers.engine.bucket_requests import BucketAddress
from workers.library.live_sinks import require_s3
from workers.library.reach import host_and_port

from .contract import SinkAway, SinkRefused

CONNECT_S, REQUEST_S, RETRY_S = 5, 30, 10
_REFUSALS = {
    "NoSuchBucket": ("The bucket is not there.", "Make it, or see to its name."),
    "InvalidAccessKeyId": ("The service does not know the access key.", "See to the secret “access_key”."),
    "SignatureDoesNotMatch": ("The service does not take the keys.", "See to the secret “secret_key”."),
    "AccessDenied": ("The service does not let the access key write there.", "Let it read, list and put objects."),
    "Forbidden": ("The service does not let the access key write there.", "Let it read, list and put objects."),
    "403": ("The service does not let the access key write there.", "Let it read, list and put objects."),
    "PermanentRedirect": ("The bucket is in another region.", "Name its region."),
}
_STATUSES = {301: "PermanentRedirect", 307: "PermanentRedirect", 401: "Forbidden", 403: "Forbidden",
             404: "NoSuchBucket"}
_NO_ROOM = ("No space left", "XMinioStorageFull", "QuotaExceeded")


def delta_options(config: Mapping[str, Any]) -> dict[str, str]:
    """The options by which the ``deltalake`` package reaches the service; raises where it may not be reached."""
    require_s3(config)
    return {
        "AWS_ENDPOINT_URL": config["endpoint"], "AWS_REGION": config["region"],
        "AWS_ACCESS_KEY_ID": config["access_key"], "AWS_SECRET_ACCESS_KEY": config["secret_key"],
        "AWS_ALLOW_HTTP": str(config["endpoint"].startswith("http://")).lower(), "conditional_put": "etag",
        "connect_timeout": f"{CONNECT_S}s", "timeout": f"{REQUEST_S}s", "max_retries": "2",
        "retry_timeout": f"{RETRY_S}s",
    }


def bucket_of(config: Mapping[str, Any]) -> BucketAddress:
    """The bucket that a config names; raises where it may not be reached."""
    require_s3(config)
    endpoint = urlsplit(config["endpoint"])
    return BucketAddress(
        endpoint.scheme, *host_and_port(endpoint.netloc, usual_port=80 if endpoint.scheme == "http" else 443),
        config["bucket"], config["region"], config["access_key"], config["secret_key"])


def explained_status(status: int, text: str, target: str) -> SinkAway | SinkRefused:
    """Say the same of an answer that is no success; what it says counts, else its status."""
    return explained(text if any(sign in text for sign in _REFUSALS) else f"{text} {_STATUSES.get(status, '')}", target)


def explained(text: str, target: str) -> SinkAway | SinkRefused:
    """Say in words of ours what is said of an error with a table or a bucket."""
    if any(sign in text for sign in _NO_ROOM):
        return SinkAway(f"{target} has no room left.", remedy="Make room there; it is tried again by itself.")
    for sign, (cause, remedy) in _REFUSALS.items():
        if sign in text:
            return SinkRefused(f"{target} cannot be written: {cause}", remedy=remedy)
    return SinkAway(f"{target} does not answer.", remedy="It is tried again by itself.")
