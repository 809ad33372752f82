"""Sinks: a named output that is kept in the broker, Parquet files, JSON lines.

What happens to the events is the terminal's business (the valve publishes an output, ``workers.engine.files`` writes
files): the logic of a sink is to let them through as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter, TaskType

from .columns import same_columns
from .config import InvalidConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = Parameter("folder", "string", "Folder for the files, relative to the installation's folder of outputs.",
                    required=True, pattern=r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*")

MOST_CHARACTERS = 200  # of a folder's path, which gets a name of the task behind it: file systems take 255 of a name

OUTPUT = TaskType(
    name="output", kind="sink", family="sink", title="An output on its page",
    doc="Keeps the newest events under a name, to browse on the page and to read through the API.",
    build="workers.library.sinks:output", effects=(), opens=True,
    parameters=(
        Parameter("name", "string", "Name of the output.", required=True, pattern=r"[a-z0-9][a-z0-9_-]{0,62}",
                  pattern_words="lower-case letters, digits, - and _"),
        Parameter("keep_events", "integer", "How many of the newest events are kept.", default=1000, minimum=1,
                  maximum=1_000_000),
    ),
    cost_us=3, terminal="output",
)
PARQUET_FILES = TaskType(
    name="parquet_files", kind="sink", family="sink",
    doc="Writes the events to Parquet files, each in exactly one; a file is closed by its size or age.",
    build="workers.library.sinks:parquet_files", effects=(), parameters=(FOLDER,), cost_us=10, terminal="parquet",
)
JSON_LINES = TaskType(
    name="json_lines", kind="sink", family="sink",
    doc="Writes the events to JSON-lines files, each in exactly one; a file is closed by its size or age.",
    build="workers.library.sinks:json_lines", effects=(), parameters=(FOLDER,), cost_us=10, terminal="json",
)

TASK_TYPES = (OUTPUT, PARQUET_FILES, JSON_LINES)


def output(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they are; the slot keeps the newest in the broker."""
    return inputs


def parquet_files(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they are; the engine writes them, each to exactly one file."""
    return inputs


def json_lines(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they are; the engine writes them, each to exactly one file."""
    return inputs


def folder_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where no folder can have that name."""
    require_place(str(config.get(FOLDER.name) or ""), parameter=FOLDER.name, label="The folder's path")


def require_place(path: str, *, parameter: str, label: str) -> None:
    """Raise ``InvalidConfig`` where a path is too long for a file system or a store, or leads back up."""
    if len(path) > MOST_CHARACTERS:
        raise InvalidConfig(
            f"{label} has more than {MOST_CHARACTERS} characters.", parameter=parameter,
            remedy="Choose a shorter one.")
    if {".", ".."} & set(path.split("/")):
        raise InvalidConfig(
            f"{label} holds a part that is . or .., which leads elsewhere.", parameter=parameter,
            remedy="Write where it leads to.")


parquet_files_check = json_lines_check = folder_check
output_columns = parquet_files_columns = json_lines_columns = same_columns
