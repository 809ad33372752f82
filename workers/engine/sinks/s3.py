"""S3-compatible services: how they are reached, and what their errors mean. No message holds an address or a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.library.live_sinks import require_s3

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


def bucket_of(config: Mapping[str, Any]) -> Any:
    """The bucket as ``obstore`` reaches it; raises where it may not be reached."""
    from datetime import timedelta

    from obstore.store import S3Store

    require_s3(config)
    return S3Store(
        config["bucket"], endpoint=config["endpoint"], region=config["region"], access_key_id=config["access_key"],
        secret_access_key=config["secret_key"], conditional_put="etag",
        client_options={"allow_http": config["endpoint"].startswith("http://"), "connect_timeout": f"{CONNECT_S}s",
                        "timeout": f"{REQUEST_S}s"},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=RETRY_S)})


def explained(error: Exception, target: str) -> SinkAway | SinkRefused:
    """An error with a table or a bucket, in words of ours."""
    text = str(error)
    if any(sign in text for sign in _NO_ROOM):
        return SinkAway(f"{target} has no room left.", remedy="Make room there; it is tried again by itself.")
    for sign, (cause, remedy) in _REFUSALS.items():
        if sign in text:
            return SinkRefused(f"{target} cannot be written: {cause}", remedy=remedy)
    return SinkAway(f"{target} does not answer.", remedy="It is tried again by itself.")
