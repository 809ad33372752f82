"""Live sources of files: a folder, or a bucket of an S3-compatible store, in which files appear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.model.task_types import Parameter, TaskType

from .config import InvalidConfig, settings
from .inbox import inbox_path
from .live import http_ingest
from .live_events import EVENTS, check_events, check_start, columns_of, include, written_as
from .reach import SERVER, require_allowed

S3 = "s3://"
FILES = TaskType(
    name="files", kind="source", family="source", title="Files",
    doc="Files that appear in a folder, or in a bucket of an S3-compatible store, each event exactly once: which files "
        "were read, and how far, is kept with the events. A file must appear whole (write it beside, then rename it) "
        "and not change. Names that begin with a dot or an underscore are left out; .gz is unpacked.",
    build="workers.library.live_files:files", effects=("network", "files"),
    connector="workers.engine.connectors.file_source:open_files",
    parameters=(
        Parameter(
            "path", "string", "A folder below one that the operator names (WEIR_INBOX_DIRS), or s3://bucket/prefix.",
                  required=True, is_file=True, pattern=r".{1,500}"),
        Parameter("match", "string", "Which files, by their path below it: * and ? within a name, ** for any folders.",
                  default="**", pattern=r".{1,200}"),
        written_as("ndjson", "json", "csv", "parquet", "arrow", "text", "bytes", default="ndjson"),
        Parameter("header", "boolean", "For csv: whether a file's first line names its fields.", default=False),
        Parameter("every", "number", "The time between two looks for new files.",
                  default=5, minimum=0.1, maximum=3600, unit="s"),
        Parameter("late", "number", "A file may still appear for so long after it was last written.", default=3600,
                  minimum=0, maximum=7 * 86_400, unit="s"),
        Parameter("start", "string", "Where reading begins the first time: newest (what appears from then on), "
                  "oldest, or an ISO time.", default="newest"),
        Parameter("endpoint", "string", "For S3: host or host:port of another store than Amazon's; the operator must "
                  "allow it (WEIR_CONNECTOR_HOSTS).", pattern=SERVER,
                  pattern_words="host or host:port"),
        Parameter("region", "string", "For S3: the region.", default="us-east-1", pattern=r"[a-z0-9-]{1,40}"),
        Parameter("tls", "boolean", "For S3: whether the connection is encrypted.", default=True),
        Parameter("access_key", "string", "For S3: the access key; none for a public bucket.", secret=True),
        Parameter("secret_key", "string", "The secret key of that access key.", secret=True),
        include("file_"), *EVENTS,
    ),
    cost_us=5,
)
TASK_TYPES = (FILES,)

files = http_ingest  # the events as they were read
files_columns = columns_of


def files_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the place may not be read, or events cannot be read so."""
    values = settings(FILES, config)
    if values["path"].startswith(S3):
        require_allowed(endpoint_of(values), usual_port=443 if values["tls"] else 80)
        bucket_and_prefix(values["path"])
        if bool(values["access_key"]) != bool(values["secret_key"]):
            raise InvalidConfig("access_key and secret_key belong together.", remedy="Name both, as secrets.")
    else:
        inbox_path(values["path"])
        if values["endpoint"] or values["access_key"]:
            raise InvalidConfig("A folder has no endpoint and no keys.", remedy="Write s3://bucket/prefix as the path.")
    if values["header"] and values["format"] != "csv":
        raise InvalidConfig(f"The format {values['format']} has no header.", remedy="Leave header out.")
    check_start(values["start"])
    check_events(values, prefix="file_")


def endpoint_of(values: Mapping[str, Any]) -> str:
    """The server of a bucket: what the config names, or Amazon's of the region."""
    return values["endpoint"] or f"s3.{values['region']}.amazonaws.com"


def bucket_and_prefix(path: str) -> tuple[str, str]:
    """Bucket and prefix of ``s3://bucket/prefix``; ``InvalidConfig`` where it names no bucket."""
    bucket, _, prefix = path.removeprefix(S3).partition("/")
    if not bucket:
        raise InvalidConfig("The path names no bucket.", remedy="Write s3://bucket/prefix.")
    return bucket, prefix.strip("/")
